"""A vehicle that stopped sending with its ignition on; and one whose identity two devices use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from stream_jobs.vehicles.beat import Beat, Found, Memory, Reading
from stream_jobs.vehicles.detect.base import Untimed
from stream_jobs.vehicles.detect.raising import AGAIN

BOOTS_MAX: Final = 4
"""Boots that a vehicle's memory keeps, the last ones received."""


class Last(NamedTuple):
    """A memory: where the last frame ended, when it was received, whether to watch, when it was found."""

    end_ms: int
    received_ms: int
    watched: bool
    found_ms: int | None


@dataclass(frozen=True, slots=True)
class SilenceDetector(Untimed):
    """Found once, ``silent_ms`` after the end of the last frame; ended by the next frame.

    The timer runs on the receive clock. A frame from a buffer ends it too: the vehicle is heard again.
    """

    silent_ms: int

    @property
    def timed(self) -> bool:
        """See Detector."""
        return True

    def mute(self, reading: Reading) -> bool:  # noqa: ARG002  the protocol's
        """Never: it listens to the frames themselves."""
        return False

    def step(
        self, memory: Memory | None, beat: Beat, reading: Reading
    ) -> tuple[Memory | None, Sequence[Found]]:
        """See Detector."""
        last = None if memory is None else Last(*memory)  # type: ignore[arg-type]
        after = Last(beat.end_ms, beat.received_ms, reading.holds is True, None)
        if last is not None and reading.holds is None:
            after = after._replace(watched=last.watched)
        if last is None or last.found_ms is None:
            return after, ()
        end_ms = max(beat.t0_ms, last.found_ms)
        return after, (Found(end_ms, last.end_ms, None, None, ended=True),)

    def due_ms(self, memory: Memory | None) -> int | None:
        """When it has been silent for long enough."""
        last = None if memory is None else Last(*memory)  # type: ignore[arg-type]
        if last is None or not last.watched or last.found_ms is not None:
            return None
        return last.received_ms + self.silent_ms

    def expire(self, memory: Memory, now_ms: int) -> tuple[Memory | None, Sequence[Found]]:
        """The timer: how late it comes does not change what is found."""
        last = Last(*memory)  # type: ignore[arg-type]
        due = self.due_ms(memory)
        if due is None or now_ms < due:
            return memory, ()
        at_ms = last.end_ms + self.silent_ms
        limit_s = self.silent_ms / 1000
        return last._replace(found_ms=at_ms), (Found(at_ms, last.end_ms, limit_s, limit_s),)


class Boot(NamedTuple):
    """What was received of one boot: its samples' span and its receipts' span."""

    boot_id: int
    from_ms: int
    to_ms: int
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class CloneDetector(Untimed):
    """Two boots at once, by the definition of infra/clones.py; memory: (found at, overlap then, *boots).

    It sees frames as they arrive: spans grow whatever the order. Before the next finding the overlap must
    have grown: two boots of long ago are found once.
    """

    overlap_ms: int
    clear_for_ms: int

    @property
    def unordered(self) -> bool:
        """The sequencer leaves out the very frames that tell."""
        return True

    def mute(self, reading: Reading) -> bool:  # noqa: ARG002  the protocol's
        """Never: it listens to the frames themselves."""
        return False

    def step(
        self,
        memory: Memory | None,
        beat: Beat,
        reading: Reading,  # noqa: ARG002  the protocol's
    ) -> tuple[Memory | None, Sequence[Found]]:
        """See Detector."""
        if memory is not None and len(memory) == 3 and memory[2][0] == beat.boot_id:  # type: ignore[index]
            return (memory[0], memory[1], _with(Boot(*memory[2]), beat)), ()  # type: ignore[misc]
        found_ms, told_ms, *rows = memory or (None, 0)
        boots = {row[0]: Boot(*row) for row in rows}  # type: ignore[index,misc]
        mine = _with(boots.pop(beat.boot_id, None), beat)
        others = list(boots.values())
        over_ms = max((_overlap_ms(mine, other) for other in others), default=0)
        kept = sorted([*others, mine], key=lambda boot: (boot.last_ms, boot.boot_id))[-BOOTS_MAX:]
        news = not isinstance(found_ms, int) or beat.end_ms - found_ms >= AGAIN * self.clear_for_ms
        if over_ms <= self.overlap_ms or not news or over_ms <= (told_ms or 0):  # type: ignore[operator]
            return (found_ms, told_ms, *kept), ()
        found = Found(beat.end_ms, beat.end_ms - over_ms, over_ms / 1000, self.overlap_ms / 1000)
        return (beat.end_ms, over_ms, *kept), (found,)


def _with(boot: Boot | None, beat: Beat) -> Boot:
    if boot is None:
        return Boot(beat.boot_id, beat.t0_ms, beat.end_ms, beat.received_ms, beat.received_ms)
    boot_id, from_ms, to_ms, first_ms, last_ms = boot
    return Boot(
        boot_id,
        from_ms if from_ms < beat.t0_ms else beat.t0_ms,
        to_ms if to_ms > beat.end_ms else beat.end_ms,
        first_ms if first_ms < beat.received_ms else beat.received_ms,
        last_ms if last_ms > beat.received_ms else beat.received_ms,
    )


def _overlap_ms(one: Boot, other: Boot) -> int:
    """How long they overlap in sample times, if they do in receive times; the lesser of both."""
    samples = min(one.to_ms, other.to_ms) - max(one.from_ms, other.from_ms)
    receipts = min(one.last_ms, other.last_ms) - max(one.first_ms, other.first_ms)
    return min(samples, receipts)
