"""Vehicles that said ``online`` and send nothing: the service says ``silent`` in their place. Pure.

All that is known of the vehicles is the compacted topic ``status`` itself, read from its beginning and
followed: births, last wills, and our own words as they come back. What a vehicle's state should be follows
from its own last word and from when it was last heard; where the log's last word differs, we say what should
be. So a will that crosses our word on the way puts itself right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from infra.contract.errors import ContractError
from infra.contract.messages import read_status

VEHICLES_KEPT: Final = 50_000
"""Vehicles that are watched over; with more the first one goes, and is never called silent."""
SAID_AGAIN_MS: Final = 30_000
"""A word of ours that does not come back within this got lost, and is said again."""

Word = tuple[str, bytes]
"""Vehicle id and the record's value."""


@dataclass(slots=True)
class _Vehicle:
    """``own`` is the vehicle's last word, ``stands`` the log's; ``heard_ms`` by the receive clock."""

    own: dict[str, Any]
    stands: str
    heard_ms: int
    since_ms: int = 0
    """When it was last heard before the log's last word called it silent."""
    said_ms: int | None = None
    """When we said something that was not read back yet."""


@dataclass(slots=True)
class Calm:
    """Since when messages could arrive without a break, by the receive clock; None while they cannot."""

    since_ms: int | None = None
    _epoch: int = -1

    def look(self, now_ms: int, listens: bool, epoch: int) -> None:
        """``epoch`` counts connections: one that broke and came back between two looks counts as a break."""
        if not listens:
            self.since_ms = None
        elif self.since_ms is None or epoch != self._epoch:
            self.since_ms = now_ms
        self._epoch = epoch


@dataclass(slots=True)
class Watch:
    """The vehicles of a bridge. ``silent_ms``: so long may an online vehicle send nothing."""

    silent_ms: int
    forgotten: int = 0
    """Vehicles that went because there were too many."""
    _vehicles: dict[str, _Vehicle] = field(default_factory=dict)

    def watches(self, vehicle_id: str) -> bool:
        """Whether the log has named the vehicle."""
        return vehicle_id in self._vehicles

    def _keep(self, vehicle_id: str, vehicle: _Vehicle) -> None:
        if len(self._vehicles) >= VEHICLES_KEPT:
            del self._vehicles[next(iter(self._vehicles))]
            self.forgotten += 1
        self._vehicles[vehicle_id] = vehicle

    @property
    def silent(self) -> int:
        """How many the log calls silent."""
        return sum(vehicle.stands == "silent" for vehicle in list(self._vehicles.values()))

    def note(self, vehicle_id: str, value: bytes, at_ms: int) -> None:
        """A record of the log, in its order; ``at_ms`` its timestamp. What is no status is passed over."""
        if not value:
            self._vehicles.pop(vehicle_id, None)
            return
        try:
            status = read_status(value)
        except ContractError:
            return  # the event store reads the same record and sends it to the dead letters
        known = self._vehicles.get(vehicle_id)
        if status["state"] == "silent":
            self._note_silent(vehicle_id, status, known)
        elif known is None:
            self._keep(vehicle_id, _Vehicle(status, status["state"], at_ms))
        else:
            known.heard_ms = known.heard_ms if status == known.own else max(known.heard_ms, at_ms)
            known.own, known.stands, known.said_ms = status, status["state"], None

    def _note_silent(self, vehicle_id: str, status: dict[str, Any], known: _Vehicle | None) -> None:
        """Our word, or that of an earlier bridge; compaction may have left nothing else of the vehicle."""
        since_ms = status.pop("since_ms", 0)
        if known is None:
            own = status | {"state": "online"}
            self._keep(vehicle_id, _Vehicle(own, "silent", since_ms, since_ms))
        else:
            known.stands, known.since_ms, known.said_ms = "silent", since_ms, None

    def judge(self, now_ms: int, seen: Mapping[str, int], calm_since_ms: int | None) -> Iterator[Word]:
        """What is to be said now. ``seen``: when vehicles last sent something, as far as that is known.

        While it is not calm, and for ``silent_ms`` after that, nobody is called silent: it may be us.
        """
        for vehicle_id, vehicle in self._vehicles.items():
            vehicle.heard_ms = max(vehicle.heard_ms, seen.get(vehicle_id, 0))
            if vehicle.said_ms is not None and now_ms - vehicle.said_ms < SAID_AGAIN_MS:
                continue
            if self._right(vehicle, now_ms, calm_since_ms) != vehicle.stands:
                vehicle.said_ms = now_ms
                yield vehicle_id, _word(vehicle)

    def _right(self, vehicle: _Vehicle, now_ms: int, calm_since_ms: int | None) -> str:
        """The state that should stand in the log."""
        own = str(vehicle.own["state"])
        if own != "online":
            return own
        if vehicle.stands == "silent":
            return "online" if vehicle.heard_ms > vehicle.since_ms else "silent"
        if calm_since_ms is None or now_ms - max(vehicle.heard_ms, calm_since_ms) < self.silent_ms:
            return own
        return "silent"


def _word(vehicle: _Vehicle) -> bytes:
    """The vehicle's own word again, or the same as silent."""
    if vehicle.stands == "silent" or vehicle.own["state"] != "online":
        return orjson.dumps(vehicle.own)
    return orjson.dumps(vehicle.own | {"state": "silent", "since_ms": vehicle.heard_ms})
