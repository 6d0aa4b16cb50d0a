"""The order of one vehicle's frames: by boot and number, each once, whatever the way did to them; pure.

A frame is released at once where nothing before it is missing. Else it is held until the gap is filled, or
nothing has filled it for long enough: then the gap is given up. A frame that comes after its
gap was given up is ``behind``: it is counted and left to the batch layer. What decides is in the records
alone (their order in the log and their times of receipt), so neither batches nor restarts change it.
"""

import math
from bisect import bisect_left
from collections.abc import Iterator
from operator import attrgetter
from typing import Final

import msgspec

from infra.settings.sections import Jobs

NO_BOOT: Final = -1
GAPS_KEPT: Final = 64  # gaps given up that are remembered, to tell frames that come too late from copies
BOOTS_KEPT: Final = 4


class Arrival(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A record as it comes; ``row``: which frame of those at hand it is, None where its clock is not
    believed: its number is used, no more.
    """

    boot_id: int
    seq: int
    t0_ms: int
    received_ms: int
    row: int | None

    @property
    def key(self) -> tuple[int, int]:
        return self.boot_id, self.seq


class Order(msgspec.Struct, array_like=True):
    """Puts arrivals of one vehicle in order; what it remembers of them.

    By the settings ``jobs`` a gap is waited for (``lateness_s`` of receive time) by so many frames at most.
    ``filled_ms``: receipt of what last began or filled the first gap; ``gaps``: (boot, first, last) given up;
    ``boots``: earlier boots and their next numbers; ``boot_from_ms``: device time at which this boot began.
    """

    held: list[Arrival] = []
    gaps: list[tuple[int, int, int]] = []
    boots: list[tuple[int, int]] = []
    boot_id: int = NO_BOOT
    next_seq: int = 0
    boot_from_ms: int = 0
    filled_ms: int = 0

    def take(self, arrival: Arrival, jobs: Jobs, behind: list[int]) -> Iterator[int]:
        """Frames that may go on now that ``arrival`` is here; take them all before the next arrival.

        ``behind``: where it is added if it came too late.
        """
        yield from self.expire(arrival.received_ms, jobs)
        # A vehicle never seen that is met in the middle of its boot: its begin is not waited for then.
        is_midway = self.boot_id == NO_BOOT and arrival.row is not None and not self.held
        if is_midway and arrival.seq > jobs.reorder_buffer_frames:
            yield from self._release(arrival)
        elif arrival.key < (self.boot_id, self.next_seq):
            if arrival.row is not None and self._is_late(arrival):
                behind.append(arrival.row)
        else:
            self._hold(arrival, jobs.reorder_buffer_frames)
            yield from self.expire(arrival.received_ms, jobs)

    def due_ms(self, jobs: Jobs) -> float:
        """When (receive clock) the first gap is given up; inf without one."""
        if not self.held:
            return math.inf
        return max(self.held[0].received_ms, self.filled_ms) + 1000 * jobs.lateness_s

    def expire(self, now_ms: int, jobs: Jobs) -> Iterator[int]:
        """Held frames that wait for nothing any more: what is missing before them is there, or is given up,
        for too many wait for it, or it was waited for long enough by ``now_ms``.
        """
        while self.held:
            first, most = self.held[0], jobs.reorder_buffer_frames
            is_new_boot = first.boot_id > self.boot_id and first.seq == 0 and first.row is not None
            if not is_new_boot and first.key != (self.boot_id, self.next_seq):
                if len(self.held) <= most and self.due_ms(jobs) >= now_ms:
                    return
                since = self.next_seq if first.boot_id == self.boot_id else 0
                self.gaps = [*self.gaps, (first.boot_id, since, first.seq - 1)][-GAPS_KEPT:]
            yield from self._release(self.held.pop(0))

    def _hold(self, arrival: Arrival, most: int) -> None:
        is_near = arrival.boot_id == self.boot_id and arrival.seq - self.next_seq <= most
        if arrival.row is None and not is_near:  # no number is believed so far off without its clock
            return
        place = bisect_left(self.held, arrival.key, key=attrgetter("key"))
        if place < len(self.held) and self.held[place].key == arrival.key:
            return
        if place == 0:
            self.filled_ms = arrival.received_ms
        self.held.insert(place, arrival)

    def _release(self, arrival: Arrival) -> Iterator[int]:
        if arrival.boot_id != self.boot_id:
            if self.boot_id != NO_BOOT:
                self.boots = [*self.boots, (self.boot_id, self.next_seq)][-BOOTS_KEPT:]
            self.boot_id, self.boot_from_ms = arrival.boot_id, arrival.t0_ms
        self.next_seq = arrival.seq + 1
        if arrival.row is not None:
            yield arrival.row

    def _is_late(self, arrival: Arrival) -> bool:
        """Of a number that was passed: not a copy. Frames of a lower boot from after this boot's begin are
        another device's, and take no part.
        """
        boot, seq = arrival.boot_id, arrival.seq
        if boot < self.boot_id and arrival.t0_ms >= self.boot_from_ms:
            return False
        for place, (of, first, last) in enumerate(self.gaps):
            if of == boot and first <= seq <= last:
                left = [gap for gap in ((of, first, seq - 1), (of, seq + 1, last)) if gap[1] <= gap[2]]
                self.gaps = [*self.gaps[:place], *left, *self.gaps[place + 1 :]]
                return True
        end = dict(self.boots).get(boot)
        return boot < self.boot_id if end is None else seq >= end
