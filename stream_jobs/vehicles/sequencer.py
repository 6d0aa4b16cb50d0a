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
    """What one vehicle's sequencer remembers.

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


class Sequencer:
    """Puts arrivals of one vehicle in order. ``behind`` collects the frames that came too late.

    By the settings a gap is waited for (``lateness_s`` of receive time) by so many frames at most.
    """

    def __init__(self, order: Order, jobs: Jobs) -> None:
        self.order = order
        self.behind: list[int] = []
        self._hold_ms, self._hold_frames = 1000 * jobs.lateness_s, jobs.reorder_buffer_frames

    def take(self, arrival: Arrival) -> Iterator[int]:
        """Frames that may go on now that ``arrival`` is here; take them all before the next arrival."""
        yield from self.expire(arrival.received_ms)
        order = self.order
        # A vehicle never seen that is met in the middle of its boot: its begin is not waited for then.
        is_midway = order.boot_id == NO_BOOT and arrival.row is not None and not order.held
        if is_midway and arrival.seq > self._hold_frames:
            yield from self._release(arrival)
        elif arrival.key < (order.boot_id, order.next_seq):
            self._past(arrival)
        else:
            self._hold(arrival)
            yield from self._contiguous()
            if len(order.held) > self._hold_frames:
                yield from self._give_up()

    def due_ms(self) -> float:
        """When (receive clock) the first gap is given up; inf without one."""
        order = self.order
        return max(order.held[0].received_ms, order.filled_ms) + self._hold_ms if order.held else math.inf

    def expire(self, now_ms: int) -> Iterator[int]:
        """Frames behind gaps that were waited for long enough by ``now_ms``."""
        while self.due_ms() < now_ms:
            yield from self._give_up()

    def _next_boot(self, arrival: Arrival) -> bool:
        return arrival.boot_id > self.order.boot_id and arrival.seq == 0 and arrival.row is not None

    def _hold(self, arrival: Arrival) -> None:
        order, ahead = self.order, arrival.seq - self.order.next_seq
        is_near = arrival.boot_id == order.boot_id and ahead <= self._hold_frames
        if arrival.row is None and not is_near:  # no number is believed so far off without its clock
            return
        place = bisect_left(order.held, arrival.key, key=attrgetter("key"))
        if place < len(order.held) and order.held[place].key == arrival.key:
            return
        if place == 0:
            order.filled_ms = arrival.received_ms
        order.held.insert(place, arrival)

    def _contiguous(self) -> Iterator[int]:
        """Held frames that wait for nothing any more."""
        order = self.order
        while order.held:
            first = order.held[0]
            if first.key != (order.boot_id, order.next_seq) and not self._next_boot(first):
                return
            order.held = order.held[1:]
            yield from self._release(first)

    def _give_up(self) -> Iterator[int]:
        """The first gap is not waited for any longer."""
        order = self.order
        first, order.held = order.held[0], order.held[1:]
        since = order.next_seq if first.boot_id == order.boot_id else 0
        order.gaps = [*order.gaps, (first.boot_id, since, first.seq - 1)][-GAPS_KEPT:]
        yield from self._release(first)
        yield from self._contiguous()

    def _release(self, arrival: Arrival) -> Iterator[int]:
        order = self.order
        if arrival.boot_id != order.boot_id:
            if order.boot_id != NO_BOOT:
                order.boots = [*order.boots, (order.boot_id, order.next_seq)][-BOOTS_KEPT:]
            order.boot_id, order.boot_from_ms = arrival.boot_id, arrival.t0_ms
        order.next_seq = arrival.seq + 1
        if arrival.row is not None:
            yield arrival.row

    def _past(self, arrival: Arrival) -> None:
        """A number that was passed: a copy, or too late. Frames of a lower boot from after this boot's begin
        are another device's, and take no part.
        """
        order, boot, seq = self.order, arrival.boot_id, arrival.seq
        if arrival.row is None or (boot < order.boot_id and arrival.t0_ms >= order.boot_from_ms):
            return
        for place, (of, first, last) in enumerate(order.gaps):
            if of == boot and first <= seq <= last:
                left = [gap for gap in ((of, first, seq - 1), (of, seq + 1, last)) if gap[1] <= gap[2]]
                order.gaps = [*order.gaps[:place], *left, *order.gaps[place + 1 :]]
                self.behind.append(arrival.row)
                return
        end = dict(order.boots).get(boot)
        if boot < order.boot_id if end is None else seq >= end:
            self.behind.append(arrival.row)
