"""Which rules a frame can mean anything to, by the flags of its readings alone; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stream_jobs.vehicles.beat import Detector
from stream_jobs.vehicles.said import pattern

PATTERNS_MAX: Final = 4096
"""Different sets of flags remembered: healthy fleets have dozens."""
Places = tuple[tuple[int, bool], ...]


class Lookout:
    """Remembers what it found out: nearly all frames have flags that one before them had."""

    def __init__(self, detectors: Sequence[Detector]) -> None:
        self._detectors = detectors
        self._seen: dict[bytes, Places] = {}

    def places(self, codes: bytes) -> Places:
        """The rules that may have to look at readings of these codes, in order; those with False only if they
        remember something. Left out are mute readings, and detectors that see frames before their order.
        """
        found = self._seen.get(codes)
        if found is None:
            if len(self._seen) >= PATTERNS_MAX:
                self._seen.clear()
            found = self._seen[codes] = tuple(self._find(codes))
        return found

    def _find(self, codes: bytes) -> list[tuple[int, bool]]:
        found = []
        for place, code in enumerate(codes):
            detector, said = self._detectors[place], pattern(code)
            if not detector.unordered and not detector.mute(said):
                found.append((place, bool(said.holds) or detector.always))
        return found
