"""Looks at the bridge while a drill runs: its counts over all its lives, memory, when records flow again."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from load_tests.drills.site import Site

EVERY_S: Final = 0.2
PREFIX: Final = "odograph_bridge_"
COUNTERS: Final = ("produced_total", "acked_total", "stale_acks_total", "reconnects_total", "rejected_total",
                   "sessions_lost_total", "producer_recoveries_total", "stuck_heads_total")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sample:
    """One look: when (monotonic, s), at which bridge, its counts and what it has not stored yet."""

    at_s: float
    pid: int
    counts: dict[str, float]
    in_flight: float


class Watch:
    """A thread that samples the bridge of a site while its ``with`` block runs."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self.samples: list[Sample] = []
        self.peak_mb = 0.0
        """Most memory that any of the bridge's processes held, MB."""

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            self.look()

    def look(self) -> None:
        """Take a sample now."""
        pid = self._site.pid("bridge")
        found = self._site.metrics() if pid else {}
        self.peak_mb = max(self.peak_mb, peak_mb(pid))
        if found:
            counts = {name: found.get(PREFIX + name, 0.0) for name in COUNTERS}
            in_flight = found.get(PREFIX + "in_flight_messages", 0.0)
            self.samples.append(Sample(time.monotonic(), pid, counts, in_flight))

    def total(self, counter: str) -> int:
        """A counter over all lives of the bridge, as far as it was seen before each death."""
        last: dict[int, float] = defaultdict(float)
        for sample in self.samples:
            last[sample.pid] = sample.counts[counter]
        return int(sum(last.values()))

    def recovery_s(self, stored: float, healed_s: float) -> float | None:
        """From the moment a fault was healed until a record was stored again, s; None if that never was.

        ``stored``: the bridge's count of them while the fault was there. As fine as the samples.
        """
        after = (s.at_s for s in self.samples if s.at_s >= healed_s and s.counts["produced_total"] > stored)
        at_s = next(after, None)
        return None if at_s is None else round(at_s - healed_s, 2)


def produced(site: Site) -> float:
    """How many records the bridge has stored."""
    return site.wait_metrics()[f"{PREFIX}produced_total"]


def peak_mb(pid: int) -> float:
    """The most memory a process ever held, MB; 0 for none."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    lines = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(lines[0].split()[1]) / 1024 if lines else 0.0
