"""The demo's fleet: one ``odograph simulate`` beside the pipeline."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from edge_simulator.town.stored import store_roads
from infra.settings.settings import Endpoints
from infra.sql import truth
from infra.stack import processes
from infra.stack.programs import odograph

NAME = "simulate"
LAT_DEG, LON_DEG = 48.137, 11.575
STOP_S = 60.0

FAULTS = ("overheating=3", "rapid_leak=2", "weak_battery=2", "crash=2", "pothole=3")
LINK = {
    "late": 0.01,
    "late-beyond": 0.002,
    "duplicate": 0.01,
    "disorder": 0.02,
    "clock-ahead": 0.0005,
    "clock-unset": 0.0005,
    "poison": 0.0005,
}
"""What befalls frames in a demo, as shares: a believable radio link, some bad clocks, some nonsense."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """How many vehicles, how many frames/s, from which seed; what befalls its frames and its vehicles.

    Without ``duration_s`` it drives until it is stopped.
    """

    vehicles: int
    rate: float
    seed: int
    run_id: str
    duration_s: float | None = None
    link: Mapping[str, float] = field(default_factory=lambda: LINK)
    faults: tuple[str, ...] = FAULTS

    def command(self) -> tuple[str, ...]:
        """The simulator's command line."""
        link = [text for name, share in self.link.items() for text in (f"--{name}", str(share))]
        faults = [text for fault in self.faults for text in ("--fault", fault)]
        head = ("simulate", "-c", str(self.vehicles), "--rate", str(self.rate), "--seed", str(self.seed))
        place = ("--lat", str(LAT_DEG), "--lon", str(LON_DEG), "--run-id", self.run_id)
        until = () if self.duration_s is None else ("--duration", f"{self.duration_s:g}s")
        return odograph(*head, *place, *until, *faults, *link)

    def run_file(self, home: Path) -> Path:
        """Where the simulator says what it did."""
        return home / "runs" / self.run_id / "run.json"

    def start(self, home: Path) -> subprocess.Popen[bytes]:
        """Start driving; ended by ``stop``."""
        return processes.spawn(home / "run", NAME, self.command(), home / "logs" / f"{NAME}.log")

    def store_truth(self, home: Path, endpoints: Endpoints) -> int:
        """Put what really happened into the database, for scorecards; how many rows."""
        return truth.load(endpoints.db_ingest_url, self.run_id, truth.find(home, self.run_id))

    def store_roads(self, endpoints: Endpoints) -> int:
        """Put the city's roads into the database, for the map; how many edges."""
        place = LAT_DEG, LON_DEG
        return store_roads(endpoints.db_ingest_url, self.seed, place, "steady", self.vehicles)


def stop(home: Path, child: subprocess.Popen[bytes]) -> int:
    """Let the simulator finish what is in flight; its exit code."""
    found = processes.find(home / "run", NAME)
    if found is not None:
        processes.stop(found, STOP_S)
    processes.remove_pid_file(home / "run", NAME)
    return child.wait()
