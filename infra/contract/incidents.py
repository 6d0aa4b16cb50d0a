"""Incidents: alerts of one vehicle and one cause, near in time; of many vehicles at once, the fleet's.

Pure. The event store joins alerts by it, the downlink findings: both give an incident the id of the first
finding in the log's order. What belongs together does not depend on that order, nor on how it comes in
batches. The store tells its word on each (vehicle, cause) in the compacted topic ``incidents``.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Final, Self

import orjson

from infra.contract.errors import MALFORMED, ContractError, raised_as
from infra.contract.messages import FLEET

JOIN_MS: Final = 3_600_000
TABLE_KEY: Final = "causes"  # key of the record that holds the table of causes: no vehicle's, a VIN is longer


@dataclass(frozen=True, slots=True)
class Terms:
    """What is at most ``join_ms`` apart is one incident; ``vehicles`` within ``within_ms`` are the fleet's.

    ``vehicles`` None: each vehicle has its own, however many there are.
    """

    join_ms: int = JOIN_MS
    vehicles: int | None = None
    within_ms: int = 0


@dataclass(frozen=True, slots=True)
class Causes:
    """The table of causes. ``by_rule``: also by ``.part``, as a trouble code, which goes before the rule.

    ``apart``: causes of which each part of a rule is one of its own, as ``tyre front left``.
    """

    by_rule: Mapping[str, str] = field(default_factory=dict)
    by_cause: Mapping[str, Terms] = field(default_factory=dict)
    apart: tuple[str, ...] = ()

    def of(self, rule: str) -> str:
        """The cause of an alert by the part after its rule's point, else by the rule, else the rule."""
        head, _, part = rule.partition(".")
        cause = self.by_rule.get(f".{part}") or self.by_rule.get(head, head)
        return f"{cause} {part}" if part and cause in self.apart else cause

    def terms(self, cause: str) -> Terms:
        """Those of a cause of the table, or of a part of one."""
        return self.by_cause.get(cause) or self.by_cause.get(cause.partition(" ")[0], Terms())

    def encode(self) -> bytes:
        """The record under TABLE_KEY."""
        return orjson.dumps(asdict(self))

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """Raises ContractError."""
        with raised_as(partial(ContractError, "bad_shape"), "no table of causes", *MALFORMED):
            table = orjson.loads(value)
            by_cause = {name: Terms(**terms) for name, terms in table["by_cause"].items()}
            return cls(table["by_rule"], by_cause, tuple(table.get("apart", ())))


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of time of a vehicle and a cause: an alert, or what is known of an incident; ms since 1970.

    ``incident_id``: of its first finding where it has no incident yet. ``number``: for the caller.
    """

    vehicle_id: str
    from_ms: int
    to_ms: int
    incident_id: str
    fleet: bool = False
    number: int = 0

    def encode(self, cause: str) -> tuple[str, bytes]:
        """Key and value of its record in the topic ``incidents``."""
        value: dict[str, Any] = asdict(self) | {"cause": cause}
        del value["number"]
        return f"{self.vehicle_id}.{cause}", orjson.dumps(value)

    @classmethod
    def decode(cls, value: bytes) -> tuple[str, Self]:
        """Cause and piece in a record; raises ContractError."""
        with raised_as(partial(ContractError, "bad_shape"), "no incident", *MALFORMED):
            found = orjson.loads(value)
            return str(found.pop("cause")), cls(**found)


def joined(pieces: Sequence[Piece], terms: Terms) -> list[list[Piece]]:
    """The pieces of one cause by incident, each in the order given: the first one names its incident.

    What has an incident stays in it. Of a group that is the fleet's any piece says so, see ``is_fleet``.
    """
    sets = _Sets(len(pieces))
    first: dict[str, int] = {}
    mine: dict[str, list[int]] = {}
    for k in sorted(range(len(pieces)), key=lambda k: pieces[k].from_ms):
        sets.join(k, first.setdefault(pieces[k].incident_id, k))
        mine.setdefault(pieces[k].vehicle_id, []).append(k)
    for places in mine.values():
        sets.chain(places, pieces, terms.join_ms)
    seeds = {k for k, piece in enumerate(pieces) if piece.fleet} | _crowds(pieces, terms)
    roots = {sets.root(k) for k in seeds}
    fleet = [k for k in range(len(pieces)) if sets.root(k) in roots]
    sets.chain(sorted(fleet, key=lambda k: pieces[k].from_ms), pieces, terms.join_ms)
    groups: dict[int, list[Piece]] = {}
    for k, piece in enumerate(pieces):
        groups.setdefault(sets.root(k), []).append(piece)
    return list(groups.values())


def is_fleet(group: Iterable[Piece]) -> bool:
    """Whether a group is the fleet's: nothing else joins vehicles; an alert may be of the fleet itself."""
    found = list(group)
    vehicles = {piece.vehicle_id for piece in found}
    return any(piece.fleet for piece in found) or len(vehicles) > 1 or FLEET in vehicles


def _crowds(pieces: Sequence[Piece], terms: Terms) -> set[int]:
    """Pieces that begin within a span in which so many vehicles' begin."""
    found: set[int] = set()
    if terms.vehicles is None:
        return found
    order = sorted(range(len(pieces)), key=lambda k: pieces[k].from_ms)
    inside, low, marked = Counter[str](), 0, 0
    for high, k in enumerate(order):
        inside[pieces[k].vehicle_id] += 1
        while pieces[k].from_ms - pieces[order[low]].from_ms > terms.within_ms:
            gone = pieces[order[low]].vehicle_id
            inside[gone] -= 1
            if not inside[gone]:
                del inside[gone]
            low += 1
        if len(inside) >= terms.vehicles:
            found.update(order[max(low, marked) : high + 1])
            marked = high + 1
    return found


class _Sets:
    """Disjoint sets of 0 to n - 1; a set's root is its smallest member."""

    def __init__(self, count: int) -> None:
        self._up = list(range(count))

    def root(self, k: int) -> int:
        while self._up[k] != k:
            self._up[k] = self._up[self._up[k]]
            k = self._up[k]
        return k

    def join(self, one: int, other: int) -> None:
        low, high = sorted((self.root(one), self.root(other)))
        self._up[high] = low

    def chain(self, places: Sequence[int], pieces: Sequence[Piece], reach_ms: int) -> None:
        """Join what is at most ``reach_ms`` apart; ``places`` in order of their begin."""
        end_ms = 0
        for before, k in zip([None, *places], places, strict=False):
            if before is not None and pieces[k].from_ms - end_ms <= reach_ms:
                self.join(before, k)
            end_ms = max(end_ms, pieces[k].to_ms)
