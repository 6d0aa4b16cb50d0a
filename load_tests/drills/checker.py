"""What became of the messages that were sent: lost, doubled, out of order, foreign; dead with which reason.

Pure. It knows nothing of the bridge: the one list is what the simulator wrote before publishing, the others
are what lies in Kafka.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from infra.contract.topics import KEPT_BYTES

MAX_BYTES: Final = 64 * 1024
MAX_DEPTH: Final = 32
SHOWN: Final = 2

Identity = tuple[str, int, int]
"""vehicle_id, boot_id, seq."""


class Stored(NamedTuple):
    """A record as it lies in a topic."""

    identity: Identity
    partition: int
    offset: int


class DeadLetter(NamedTuple):
    """A dead letter: the reason given, the vehicle its MQTT topic names, the digest of what it keeps."""

    reason: str
    vehicle_id: str
    digest: bytes


class Poison(NamedTuple):
    """A message broken on purpose: why it must be refused, and the digest of what a dead letter keeps."""

    reason: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class Findings:
    """Counts of identities unless named otherwise; ``examples`` are the first few that are wrong."""

    generated: int
    lost: int
    doubled: int
    """Records beyond an identity's first."""
    reordered: int
    """First copies stored after one that its vehicle sent later."""
    foreign: int
    """Stored identities that nobody sent."""
    scattered: int
    """Vehicles found in more than one partition."""
    examples: tuple[str, ...] = ()


def check(sent: Iterable[Identity], log: Iterable[Stored], dead: Iterable[Identity] = ()) -> Findings:
    """``sent`` in the order of publishing, ``log`` in any order; ``dead``: sent ones that are dead letters.

    An identity sent twice counts once, at its first place. Order is that of a vehicle's first copies.
    """
    place: dict[Identity, int] = {}
    for identity in sent:
        place.setdefault(identity, len(place))
    first, doubled, partitions = _first_copies(log)
    foreign = [identity for identity in first if identity not in place]
    late = _out_of_order(place, first)
    found = first.keys() | set(dead)
    lost = [identity for identity in place if identity not in found]
    return Findings(
        generated=len(place),
        lost=len(lost),
        doubled=doubled,
        reordered=len(late),
        foreign=len(foreign),
        scattered=sum(len(found) > 1 for found in partitions.values()),
        examples=(*_named("lost", lost), *_named("reordered", late), *_named("foreign", foreign)),
    )


def _first_copies(log: Iterable[Stored]) -> tuple[dict[Identity, int], int, dict[str, set[int]]]:
    """Each identity's first offset, how many copies followed, and the partitions of each vehicle."""
    first: dict[Identity, int] = {}
    partitions: dict[str, set[int]] = defaultdict(set)
    count = 0
    for record in log:
        count += 1
        partitions[record.identity[0]].add(record.partition)
        known = first.get(record.identity)
        if known is None or record.offset < known:
            first[record.identity] = record.offset
    return first, count - len(first), partitions


def _out_of_order(place: dict[Identity, int], first: dict[Identity, int]) -> list[Identity]:
    by_vehicle: dict[str, list[tuple[int, Identity]]] = defaultdict(list)
    for identity, offset in first.items():
        if identity in place:
            by_vehicle[identity[0]].append((offset, identity))
    late = []
    for records in by_vehicle.values():
        newest = -1
        for _, identity in sorted(records):
            if place[identity] < newest:
                late.append(identity)
            newest = max(newest, place[identity])
    return late


def _named(what: str, identities: Sequence[Identity]) -> list[str]:
    return [f"{what}: {vehicle} boot {boot} seq {seq}" for vehicle, boot, seq in identities[:SHOWN]]


@dataclass(frozen=True, slots=True)
class DeadFindings:
    """Dead letters by the reason they carry; ``missing``, ``foreign`` and ``wrong_reason`` must be 0."""

    by_reason: dict[str, int]
    missing: int
    """Poison without a dead letter."""
    foreign: int
    """Dead letters of messages that were not poison."""
    wrong_reason: int


def check_dead(poison: Iterable[Poison], letters: Iterable[DeadLetter]) -> DeadFindings:
    """Each poison message must be found, with its reason; one may be found more than once."""
    found: dict[bytes, str] = {}
    by_reason: Counter[str] = Counter()
    for letter in letters:
        by_reason[letter.reason] += 1
        found.setdefault(letter.digest, letter.reason)
    wanted = {item.digest: item.reason for item in poison}
    return DeadFindings(
        by_reason=dict(sorted(by_reason.items())),
        missing=sum(digest not in found for digest in wanted),
        foreign=sum(digest not in wanted for digest in found),
        wrong_reason=sum(found.get(digest, reason) != reason for digest, reason in wanted.items()),
    )


def kept(payload: bytes) -> bytes:
    """The digest of what a dead letter keeps of a payload."""
    return hashlib.sha256(payload[:KEPT_BYTES]).digest()


def expected_reason(payload: bytes, vehicle_id: str) -> str | None:
    """Why a telemetry payload on a vehicle's topic must be refused, in the contract's words; else None.

    Written from the definitions with the standard library's parser, beside the bridge's own.
    """
    if len(payload) > MAX_BYTES:
        return "too_large"
    try:
        frame = json.loads(payload.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return "bad_json"
    if not isinstance(frame, dict) or depth(frame) > MAX_DEPTH:
        return "bad_json"
    return None if frame.get("vehicle_id") == vehicle_id else "identity_mismatch"


def depth(value: Any) -> int:
    """How deep arrays and objects lie in each other; 0 for a plain value."""
    deepest, level = 0, [value]
    while level := [item for item in level if isinstance(item, dict | list)]:
        deepest += 1
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    return deepest


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON")
