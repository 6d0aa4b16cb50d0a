"""A generated day of many vehicles, archived, replayed at max beside its live windows, and verified.

The live windows come through the batch path (``odograph backfill``), the run's through the stream: that
``--verify`` finds them equal compares two ways. Prints frames, time and rate, CPU time and memory
of each program of the run over time, and the bytes a sample of the day. Services of its own in ``--home``.

Run: python -m load_tests.day_replay -c 1000 [--day 2026-11-20] [--home DIR] [--folder GENERATED] [--no-live]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import duckdb

from infra.settings.settings import load
from infra.stack import processes
from infra.stack.processes import cpu_s, guarded, memory_mb
from infra.stack.stack import Stack
from infra.stack.supervisor import odograph

RUN: Final = "day"
SAMPLE_S: Final = 15.0  # a look at the memory of large processes takes a core 0.1 s
GENERATED: Final = "generated"


@dataclass(slots=True)
class Watch:
    """Memory [MiB] and CPU time [s] of each program of the run, with its children, over time."""

    memory: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    cpu_s: dict[str, float] = field(default_factory=dict)

    def look(self, pids: dict[str, int]) -> None:
        """One sample."""
        for name, pid in pids.items():
            spent = cpu_s(pid)
            if spent:
                self.memory[name].append(memory_mb(pid))
                self.cpu_s[name] = max(spent, self.cpu_s.get(name, 0.0))

    def lines(self) -> list[str]:
        """A line a program: CPU time, and the most memory in each third of its time."""
        found = []
        for name, samples in sorted(self.memory.items()):
            third = max(1, len(samples) // 3)
            parts = [samples[:third], samples[third : 2 * third] or samples, samples[-third:]]
            most = ", ".join(f"{max(part):.0f}" for part in parts)
            found.append(f"{name}: {self.cpu_s[name]:.0f} s of CPU; MiB at most by thirds: {most}")
        return found


def replayed(environment: dict[str, str], home: Path, words: Sequence[str]) -> tuple[int, Watch]:
    """Run ``odograph replay`` and watch its programs; its exit code."""
    watch = Watch()
    child = subprocess.Popen([*odograph("replay"), *words], env=environment)
    while child.poll() is None:
        run_dir = home / "replays" / RUN / "run"
        pids = {running.name: running.pid for running in processes.all_running(run_dir)}
        watch.look(pids | {"replay, all of them in it": child.pid})
        time.sleep(SAMPLE_S)
    return child.returncode, watch


def figures(folder: Path) -> dict[str, Any]:
    """Records, samples and bytes of the stored day."""
    files = sorted(map(str, folder.rglob("*.parquet")))
    query = "SELECT count(*), sum(n) FROM read_parquet($files, hive_partitioning = false)"
    records, samples = duckdb.execute(query, {"files": files}).fetchall()[0]
    size = sum(Path(name).stat().st_size for name in files)
    return {"records": records, "samples": samples, "bytes_a_sample": round(size / max(1, samples), 2)}


def step(name: str, environment: dict[str, str], words: Sequence[str]) -> None:
    """Run a command and say how long it took; ends where it fails."""
    begun_s = time.monotonic()
    code = subprocess.run(odograph(*words), env=environment, check=False).returncode
    print(f"{name}: {time.monotonic() - begun_s:.0f} s", flush=True)
    if code:
        sys.exit(code)


def measure(home: Path, options: argparse.Namespace) -> int:
    """All steps; the exit code of the replay."""
    environment = {**os.environ, "ODOGRAPH_PATHS_HOME": str(home)}
    day = home / "days" / GENERATED
    if options.folder:
        day.parent.mkdir(parents=True, exist_ok=True)
        day.symlink_to(options.folder.absolute())
    else:
        made = ["simulate", "--day", options.day, "-c", str(options.vehicles), "--seed", str(options.seed)]
        step("generated", environment, [*made, "--late", "0.05", "--run-id", GENERATED])
    print(json.dumps(figures(day / "telemetry")), flush=True)
    if not options.no_live:
        step("live windows", environment, ["backfill", "--day-folder", str(day)])
    words = ["--day", GENERATED, "--run", RUN, "--jobs", options.jobs, "--speed", "max", "--lead", "1s"]
    code, watch = replayed(environment, home, words + ([] if options.no_live else ["--verify"]))
    run = json.loads((home / "replays" / RUN / "run.json").read_text())
    rate = run["records"] / run["feed_s"] if run["feed_s"] else 0.0
    print(f"replay: {run['records']} frames in {run['feed_s']} s, {rate:.0f} frames/s; {run['state']}")
    print("\n".join(watch.lines()))
    return code


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("-c", "--vehicles", type=int, default=1000)
    parser.add_argument("--day", default="2026-11-20")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", default="stream", help="programs of the run: stream,instant,events")
    parser.add_argument("--folder", type=Path, help="a generated day that is there already")
    parser.add_argument("--home", type=Path, help="home of the services [a temporary one, removed]")
    parser.add_argument("--no-live", action="store_true", help="no live windows, no --verify")
    options = parser.parse_args()
    home = options.home or Path(tempfile.mkdtemp(prefix="odograph-day-"))
    with guarded(home, remove=options.home is None):
        stack = Stack(load(paths={"home": str(home)}, kafka={"heap_mb": 512}), print, preferred={})
        stack.up()
        try:
            code = measure(home, options)
        finally:
            stack.down()
    sys.exit(code)


if __name__ == "__main__":
    main()
