"""What the detectors have in common: no timer and ordered frames."""

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

    def mute(self, reading: Reading) -> bool:
        """See Detector; of most kinds: a frame without a value is passed over."""
        return reading.value is None

    @property
    def unordered(self) -> bool:
        """See Detector."""
        return False

    @property
    def timed(self) -> bool:
        """See Detector."""
        return False

    def due_ms(self, memory: Memory | None) -> int | None:  # noqa: ARG002  the protocol's
        """Never."""
        return None

    def expire(self, memory: Memory, now_ms: int) -> tuple[Memory | None, Sequence[Found]]:  # noqa: ARG002
        """Nothing changes by time alone."""
        return memory, ()

    def after_pause(self, memory: Memory | None, pause_ms: int) -> Memory | None:  # noqa: ARG002
        """See Detector; of most kinds: a pause has no such meaning."""
        return None
