"""What the detectors have in common: no timer, ordered frames, and the arming by `while`."""

from __future__ import annotations

from collections.abc import Sequence

from stream_jobs.vehicles.beat import Found, Memory, Reading


class Untimed:
    """A detector without a timer that wants frames in order; a base, nothing by itself."""

    __slots__ = ()

    @property
    def always(self) -> bool:
        """See Detector."""
        return True

    @property
    def unordered(self) -> bool:
        """See Detector."""
        return False

    def due_ms(self, memory: Memory | None) -> int | None:  # noqa: ARG002  the protocol's
        """Never."""
        return None

    def expire(self, memory: Memory, now_ms: int) -> tuple[Memory | None, Sequence[Found]]:  # noqa: ARG002
        """Nothing changes by time alone."""
        return memory, ()


def armed_since(since: object, seen: object, reading: Reading, at_ms: int, gap_ms: int) -> int | None:
    """Since when what the rule calls `while` has held without a gap; None where it does not now."""
    if not reading.armed:
        return None
    known = isinstance(since, int) and isinstance(seen, int) and at_ms - seen <= gap_ms
    return since if known and isinstance(since, int) else at_ms
