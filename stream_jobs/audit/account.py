"""The account of each vehicle: every frame it made is found in one place, or named as missing. Pure.

By frames (a frame is a vehicle, a boot and a sequence number)::

    generated = lost on the link + dropped on board + on board + on the way + dead + missing
                + counted + late + quarantined

``duplicate`` are the further records of frames that are in one of the last three places. ``counted`` is
what windows have; the archive has its own figure, and the two must agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

from infra.contract.seq_ranges import Ranges, both, merged, minus, size
from stream_jobs.audit.archive import DeviceCount
from stream_jobs.audit.edge import EdgeDevice
from stream_jobs.audit.scope import Scope
from stream_jobs.audit.tables import Listed

NO_DEVICE: Final = EdgeDevice(0, [], [], [], 0, 0, False)
"""Of a vehicle that no simulator made: nothing is known of it but what arrived."""


@dataclass(slots=True)
class Figures:
    """Counts of frames, records where named so; of one vehicle or of all."""

    generated: int = 0
    lost_on_link: int = 0
    dropped_on_board: int = 0
    on_board: int = 0
    on_the_way: int = 0
    dead: int = 0
    missing: int = 0
    counted: int = 0
    late: int = 0
    quarantined: int = 0
    duplicate: int = 0
    """Records of frames that another record told of."""
    in_time: int = 0
    """Frames that the archive holds in time: windows are to count as many."""
    late_records: int = 0
    late_listed: int = 0
    late_open: int = 0
    repaired: int = 0
    quarantined_records: int = 0
    quarantined_listed: int = 0
    dead_unknown: int = 0
    """Dead letters whose frame cannot be told: each may be one of the missing."""
    not_kept: int = 0
    """Messages beyond the vehicle's limit that were counted and not kept: they explain so many missing."""

    @property
    def residual(self) -> int:
        """Frames and records unaccounted for."""
        return (
            max(0, self.missing - self.not_kept)
            + abs(self.in_time - self.counted)
            + abs(self.late_records - self.late_listed)
            + abs(self.quarantined_records - self.quarantined_listed)
        )

    def add(self, other: Figures) -> None:
        """Take over another's counts."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


@dataclass(frozen=True, slots=True)
class Gap:
    """Frames of a device that no one has, in ranges of sequence numbers."""

    vehicle_id: str
    boot_id: int
    ranges: Ranges
    lost_with: str | None = None
    """Where a session of the bridge went while they may have been at the broker: which, and when (UTC)."""


@dataclass(frozen=True, slots=True)
class Absent:
    """Ranges of a device that the archive lacks in the scope."""

    between: Ranges
    behind: Ranges
    """Behind the last frame of a run that had not ended within the scope: they may still be on their way."""


def absent(count: DeviceCount | None, edge: EdgeDevice | None, scope: Scope) -> Absent:
    """What lacks between the first and the last frame, before the first and behind the last.

    A gap belongs to the scope that holds the frame before it. What came before the first frame is known only
    where a run tells that the device began in the scope.
    """
    told = edge if edge is not None and (edge.sent or count is not None) else None
    seen = count if count is not None else DeviceCount()
    begins_here = told is not None and scope.holds(told.from_ms)
    between = list(seen.gaps)
    if begins_here and seen.last_seq >= 0:
        between = [*_range(0, seen.first_seq - 1), *between]
    if seen.following is not None:
        return Absent([*between, *_range(seen.last_seq + 1, seen.following - 1)], [])
    if told is None or (seen.last_seq < 0 and not begins_here):
        return Absent(between, [])
    behind = _range(seen.last_seq + 1, told.next_seq - 1)
    if told.ended_ms is not None and told.ended_ms < scope.until_ms:
        return Absent([*between, *behind], [])
    return Absent(between, behind)


def _range(first: int, last: int) -> Ranges:
    return [(first, last)] if first <= last else []


def of_device(
    count: DeviceCount | None, edge: EdgeDevice | None, lacking: Absent, elsewhere: Ranges, dead: Ranges,
    waiting: Ranges,
) -> tuple[Figures, Ranges]:  # fmt: skip
    """The figures of a device without what the database lists by vehicle, and its missing ranges."""
    told, seen = edge or NO_DEVICE, count or DeviceCount()
    rest = minus([*lacking.between, *lacking.behind], elsewhere)
    found = Figures(generated=seen.frames + size(rest))
    for name, ranges in (
        ("lost_on_link", told.lost),
        ("dropped_on_board", told.dropped),
        ("on_board", told.on_board),
        ("dead", dead),
        ("on_the_way", merged([*waiting, *lacking.behind])),
    ):
        setattr(found, name, size(both(rest, ranges)))
        rest = minus(rest, ranges)
    found.missing = size(rest)
    found.in_time, found.late, found.quarantined = seen.ok, seen.late, seen.quarantined
    found.duplicate = seen.records - seen.frames
    found.late_records, found.quarantined_records = seen.late_records, seen.quarantined_records
    return found, rest


def enter_listed(figures: Figures, listed: Listed) -> None:
    """Put what the database has of a vehicle beside what the archive has."""
    figures.counted = listed.counted
    figures.repaired = listed.repaired
    figures.late_listed, figures.late_open = listed.late, listed.late_open
    figures.quarantined_listed = listed.quarantined
    figures.dead_unknown, figures.not_kept = listed.dead_unknown, listed.not_kept


def enter_again(figures: Figures, again: int) -> int:
    """Take frames under a used number for frames of their own, as far as windows counted more than there are.

    ``again``: how often the vehicle used a number again, for another moment. How many it explains.
    """
    own = min(again, max(0, figures.counted - figures.in_time))
    figures.generated += own
    figures.in_time += own
    figures.duplicate -= own
    return own


def totals(vehicles: Mapping[str, Figures]) -> Figures:
    """All vehicles together."""
    found = Figures()
    for figures in vehicles.values():
        found.add(figures)
    return found
