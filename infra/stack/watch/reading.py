"""Reads every part once: its health page, its metrics, what the kernel says of it."""

from __future__ import annotations

import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from infra.settings.settings import Settings
from infra.stack import status
from infra.stack.mosquitto import BrokerWatch
from infra.stack.probes import readyz
from infra.stack.service import HOST, Runner
from infra.stack.stack import SERVICES
from infra.stack.supervisor import read_state
from infra.stack.watch import samples
from infra.stack.watch.samples import Figures, Reading

METRICS_S: Final = 3.0
"""A part that does not answer within this has no metrics, s."""
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Kernel:
    """What the kernel knows of a part: its process and all below it."""

    cpu_s: float | None = None
    memory_mb: float | None = None


@dataclass(frozen=True, slots=True)
class Parts:
    """The processes with a health page: ``ports`` by name."""

    settings: Settings
    ports: Mapping[str, int]
    runner: Runner

    def read(self, memory: Mapping[str, float]) -> list[Reading]:
        """All at the same time: one that hangs holds up no other. ``memory`` [MiB] as last measured."""
        restarts = {
            name: kept.get("restarts")
            for name, kept in read_state(self.settings.paths.home.resolve()).items()
        }
        kernel = self.kernel(memory)
        with ThreadPoolExecutor(max_workers=max(1, len(self.ports))) as pool:
            return list(pool.map(partial(self._one, restarts=restarts, kernel=kernel), self.ports))

    def _one(self, name: str, restarts: Mapping[str, int | None], kernel: Mapping[str, Kernel]) -> Reading:
        trouble, text = readyz(self.ports[name]), metrics(self.ports[name])
        seen = kernel.get(name, Kernel())
        return Reading(
            stage=name,
            at_s=time.monotonic(),
            trouble=trouble,
            figures=samples.of_process(name, text, self.settings),
            cpu_s=seen.cpu_s,
            memory_mb=seen.memory_mb,
            restarts=restarts.get(name),
        )

    def kernel(self, memory: Mapping[str, float]) -> dict[str, Kernel]:
        """CPU time since the start of each part of this home that runs, services too."""
        return {
            name: Kernel(cpu_s(pid), memory.get(name))
            for name, pid in pids(self.runner, self.names()).items()
        }

    def names(self) -> tuple[str, ...]:
        """Parts that may run here."""
        return (*self.ports, *SERVICES)


def pids(runner: Runner, names: tuple[str, ...]) -> dict[str, int]:
    """Process ids of those that run in this home."""
    found = {name: runner.find(name) for name in names}
    return {name: running.pid for name, running in found.items() if running is not None}


def metrics(port: int) -> str:
    """Prometheus' text of the part on ``port``; nothing where it does not answer."""
    try:
        with urllib.request.urlopen(f"http://{HOST}:{port}/metrics", timeout=METRICS_S) as answer:
            return str(answer.read().decode())
    except (urllib.error.HTTPError, OSError, TimeoutError):
        return ""  # readiness says what is wrong with it


def broker(watch: BrokerWatch, address: str, settings: Settings, kernel: Kernel) -> Reading:
    """The MQTT broker by what it says of itself."""
    counts = watch.newest()
    trouble = None if counts is not None else f"{address} says nothing of itself"
    seen: Figures = samples.NOTHING if counts is None else samples.broker(counts, settings)
    return Reading("mosquitto", time.monotonic(), trouble, seen, kernel.cpu_s, kernel.memory_mb)


def cpu_s(pid: int) -> float:
    """CPU time of a process and of all that it started and that still runs, s."""
    return sum(_ticks(one) for one in status.tree(pid)) / TICKS_PER_S


def _ticks(pid: int) -> int:
    with suppress(OSError):  # it has ended meanwhile
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])
    return 0
