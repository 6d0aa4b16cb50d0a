"""Which incident an alert is of: joined as the event store does, before it, and its word followed.

The topic ``incidents`` is read whole at the start, then as it grows. While there is no store, or the database
is away, what was joined here goes on.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

import structlog

from infra.clients import kafka
from infra.contract.errors import ContractError
from infra.contract.frame import Frame
from infra.contract.incidents import TABLE_KEY, Causes, Piece, Terms, is_fleet, joined

AT_ONCE: Final = 5000


@dataclass(frozen=True, slots=True)
class Incident:
    """What an alert is part of. ``vehicles``: so many are known to be in it; a fleet's has many."""

    incident_id: str
    cause: str
    fleet: bool = False
    vehicles: int = 1


Ask = Callable[[Sequence[Frame]], list[Incident]]
"""The incidents of alerts in the log's order, in that order, by all that is known now."""


class Joining:
    """What is known of incidents; pure. Pieces carry the order in which they became known."""

    def __init__(self) -> None:
        self.causes = Causes()
        self._pieces: dict[str, dict[str, list[Piece]]] = {}  # by cause and vehicle
        self._count = itertools.count()

    def told(self, key: str | None, value: bytes) -> None:
        """A record of the topic ``incidents``: the store's word. Raises ContractError."""
        if key == TABLE_KEY:
            self.causes = Causes.decode(value)
            return
        if not value:  # of a vehicle that was erased
            return
        cause, piece = Piece.decode(value)
        mine, reach_ms = self._pieces.setdefault(cause, {}), self.causes.terms(cause).join_ms
        near, far = list[Piece](), list[Piece]()
        for each in mine.get(piece.vehicle_id, ()):
            apart_ms = max(each.from_ms - piece.to_ms, piece.from_ms - each.to_ms)
            (near if apart_ms <= reach_ms else far).append(each)
        own = replace(piece, number=min((p.number for p in near), default=next(self._count)))
        mine[piece.vehicle_id] = [*far, _whole([own, *near])]

    def of(self, alerts: Sequence[Frame]) -> list[Incident]:
        """The incidents of alerts in the log's order, in that order."""
        by_cause: dict[str, list[int]] = {}
        for k, alert in enumerate(alerts):
            by_cause.setdefault(self.causes.of(alert["rule"]), []).append(k)
        found: dict[int, Incident] = {}
        for cause, places in by_cause.items():
            found |= self._join(cause, {k: alerts[k] for k in places})
        return [found[k] for k in range(len(alerts))]

    def _join(self, cause: str, alerts: dict[int, Frame]) -> dict[int, Incident]:
        terms, known = self.causes.terms(cause), self._pieces.setdefault(cause, {})
        vehicles = known.keys() if terms.vehicles is not None else {a["vehicle_id"] for a in alerts.values()}
        pieces = [piece for vehicle in vehicles for piece in known.get(vehicle, ())]
        pieces.sort(key=lambda piece: piece.number)
        places: dict[int, int] = {}
        for k, alert in alerts.items():
            vehicle, at_ms, number = alert["vehicle_id"], alert["event_ms"], next(self._count)
            piece, places[number] = Piece(vehicle, at_ms, at_ms, alert["alert_id"], number=number), k
            if alert.get("ended") is True:  # no finding: what it ends lasted until then
                begun = (p for p in reversed(pieces) if p.vehicle_id == vehicle and p.from_ms <= at_ms)
                piece = replace(next(begun, piece), to_ms=at_ms, number=number)
            pieces.append(piece)
        found: dict[int, Incident] = {}
        after: dict[str, list[Piece]] = {}
        for group in joined(pieces, terms):
            mine: dict[str, list[Piece]] = {}
            for piece in group:
                mine.setdefault(piece.vehicle_id, []).append(piece)
            one = Incident(group[0].incident_id, cause, is_fleet(group), len(mine))
            found |= {places[p.number]: one for p in group if p.number in places}
            for vehicle, parts in mine.items():
                named = replace(parts[0], incident_id=one.incident_id, fleet=one.fleet)
                after.setdefault(vehicle, []).append(_whole([named, *parts]))
        known |= {vehicle: _recent(parts, terms) for vehicle, parts in after.items()}
        return found


def _whole(parts: Sequence[Piece]) -> Piece:
    """One piece over the time of all, else as the first."""
    from_ms, to_ms = min(p.from_ms for p in parts), max(p.to_ms for p in parts)
    return replace(parts[0], from_ms=from_ms, to_ms=to_ms)


def _recent(parts: Iterable[Piece], terms: Terms) -> list[Piece]:
    """Without those that nothing will be joined to: alerts come out of order by less than a reach."""
    kept = sorted(parts, key=lambda piece: piece.to_ms)
    since_ms = kept[-1].from_ms - 2 * max(terms.join_ms, terms.within_ms)
    return [piece for piece in kept if piece.to_ms >= since_ms]


@contextmanager
def following(bootstrap: str, topic: str) -> Iterator[Ask]:
    """Joining that follows the topic. For one thread at a time; raises ``kafka.LOST``."""
    joining = Joining()

    def take(record: kafka.Record) -> None:
        try:
            joining.told(record.key, record.value)
        except ContractError as error:
            structlog.get_logger().warning("no incident", offset=record.offset, why=str(error))

    with kafka.following(bootstrap, "odograph-incidents", [topic], take) as more:

        def ask(alerts: Sequence[Frame]) -> list[Incident]:
            more(AT_ONCE, 0)
            return joining.of(alerts)

        yield ask
