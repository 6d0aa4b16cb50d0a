"""Which MQTT client a run takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

from edge_simulator.sending.lean_publisher import LeanPublisher
from edge_simulator.sending.publisher import Publisher
from infra.contract.errors import ConfigError

Client = Literal["auto", "paho", "lean"]


def publisher_of(
    client: Client, vehicles: int, keep_s: float = 0.0
) -> type[Publisher] | Callable[..., LeanPublisher]:
    """The publisher's class. ``auto`` is paho for a single vehicle, as such a device would have it.

    Keeping frames beyond their PUBACK is the lean client's alone; raises ConfigError.
    """
    if keep_s:
        if client == "paho":
            raise ConfigError("--keep-sent: the lean client does that; leave --client paho out")
        return partial(LeanPublisher, keep_s=keep_s)
    if client == "auto":
        client = "paho" if vehicles == 1 else "lean"
    return Publisher if client == "paho" else LeanPublisher
