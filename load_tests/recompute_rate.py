"""``odograph recompute`` of a generated span: time, CPU, memory; then again, and with kill -9 in the middle.

Run: python -m load_tests.recompute_rate [--vehicles 200] [--frames 600] [--slice-min 2]

A day of the simulator's (steady traffic, 1 frame/s of 10 samples a vehicle) is put into the archive of a home
of its own. First run: no window is stored yet, all are written. Second: nothing differs. Third: every tenth
window is spoilt, the command is killed (kill -9, all of it) when its first slice is in, and asked for again:
what both restated together must be what was spoilt. CPU is that of all processes of the command; memory is
their resident sizes added up (shared pages counted more than once), the peak in each third of the run.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from infra.clients.db import session
from infra.settings.settings import Endpoints, Settings, endpoints
from infra.stack.downloads.fetch import fetch_all
from infra.stack.stack import SERVICES, Stack
from load_tests.archive_rate import START_MS, generated
from load_tests.bench.home import own_home
from load_tests.rate_support import TICKS
from stream_jobs.archive import reader
from stream_jobs.archive.manifest import TELEMETRY, archive_of

LOOK_S: Final = 0.5
PAGE_MB: Final = os.sysconf("SC_PAGE_SIZE") / 2**20
_SPOIL: Final = """
UPDATE odograph.vehicle_window SET distance_m = coalesce(distance_m, 0) + 1
WHERE abs(hashtext(vehicle_id || window_start)) % 10 = 0
"""


@dataclass(slots=True)
class Watch:
    """CPU seconds and resident memory of a session, seen now and then: Spark's workers are a group apart."""

    session: int
    cpu_s: dict[int, float] = field(default_factory=dict)
    rss_mb: list[float] = field(default_factory=list)

    def look(self) -> None:
        """Add what is there now."""
        total = 0.0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:  # ended meanwhile
                continue
            if int(fields[3]) == self.session:
                self.cpu_s[int(stat.parent.name)] = (int(fields[11]) + int(fields[12])) / TICKS
                total += int(fields[21]) * PAGE_MB
        self.rss_mb.append(total)

    def thirds_mb(self) -> list[int]:
        """The peak in each third of the run."""
        size = max(1, len(self.rss_mb) // 3)
        parts = (self.rss_mb[:size], self.rss_mb[size : 2 * size], self.rss_mb[2 * size :])
        return [round(max(part, default=0)) for part in parts]


def recompute(span: tuple[str, str], stop_when: str, url: str) -> dict[str, Any]:
    """One run of the command; ``stop_when``: SQL that tells when to kill it, or nothing."""
    command = [sys.executable, "-m", "infra.cli", "recompute", "--from", span[0], "--to", span[1], "--json"]
    started = time.monotonic()
    with session(url, autocommit=True) as database:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        watch = Watch(child.pid)
        killed = False
        try:
            while child.poll() is None:
                watch.look()
                row = database.execute(stop_when.encode()).fetchone() if stop_when and not killed else None
                if row is not None and row[0]:
                    os.killpg(child.pid, signal.SIGKILL)
                    killed = True
                time.sleep(LOOK_S)
        except BaseException:
            os.killpg(child.pid, signal.SIGKILL)
            raise
        out = child.communicate()[0].strip()
    told: dict[str, Any] = {
        "took_s": round(time.monotonic() - started, 1),
        "cpu_s": round(sum(watch.cpu_s.values()), 1),
    }
    told |= {"peak_mb_by_third": watch.thirds_mb(), "exit": child.returncode}
    return told | {"told": json.loads(out) if out else None}


def archived(home: Path, vehicles: int, frames: int) -> None:
    """A generated day in the archive."""
    made = generated(home, vehicles, frames)
    for file in reader.files(made):
        target = (
            archive_of(home) / TELEMETRY / file.path.parent.relative_to(made / TELEMETRY) / file.path.name
        )
        target.parent.mkdir(parents=True, exist_ok=True)
        target.hardlink_to(file.path)


def spoilt(addresses: Endpoints) -> int:
    """Spoil windows; how many."""
    with session(addresses.db_owner_url) as database:
        return database.execute(_SPOIL).rowcount


def measure(settings: Settings, vehicles: int, frames: int) -> dict[str, Any]:
    """All runs."""
    addresses = endpoints(settings)
    archived(settings.paths.home.resolve(), vehicles, frames)
    at = time.gmtime(START_MS / 1000), time.gmtime(START_MS / 1000 + frames + 120)
    span = time.strftime("%Y-%m-%dT%H:%M", at[0]), time.strftime("%Y-%m-%dT%H:%M", at[1])
    url = addresses.db_owner_url
    card: dict[str, Any] = {"frames": vehicles * frames, "load_average": os.getloadavg()[0]}
    card["first"] = recompute(span, "", url)
    card["again"] = recompute(span, "", url)
    card["spoilt"] = spoilt(addresses)
    begun = "SELECT vehicle_windows > 0 FROM odograph.recompute_run WHERE finished_at IS NULL"
    card["killed"] = recompute(span, begun, url)
    card["finished"] = recompute(span, "", url)
    return card


def main() -> None:
    """Print the card."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    parser = argparse.ArgumentParser()
    parser.add_argument("--vehicles", type=int, default=200)
    parser.add_argument("--frames", type=int, default=600)
    parser.add_argument("--slice-min", type=int, default=2)
    asked = parser.parse_args()
    os.environ["ODOGRAPH_RECOMPUTE_SLICE_MIN"] = str(asked.slice_min)
    with own_home(keep=False) as settings:
        fetch_all(settings.paths.cache, SERVICES)
        stack = Stack(settings, say=lambda text: print(text, file=sys.stderr), preferred={})
        stack.up()
        try:
            print(json.dumps(measure(settings, asked.vehicles, asked.frames), indent=1))
        finally:
            stack.down()


if __name__ == "__main__":
    main()
