"""Which MQTT client a run takes."""

from __future__ import annotations

from typing import Literal

from edge_simulator.sending.lean_publisher import LeanPublisher
from edge_simulator.sending.publisher import Publisher

Client = Literal["auto", "paho", "lean"]


def publisher_of(client: Client, vehicles: int) -> type[Publisher] | type[LeanPublisher]:
    """The publisher's class. ``auto`` is paho for a single vehicle, as such a device would have it."""
    if client == "auto":
        client = "paho" if vehicles == 1 else "lean"
    return Publisher if client == "paho" else LeanPublisher
