"""CPU time and memory of each part of the pipeline, with its children, from /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from infra.demo import run
from infra.stack import processes
from infra.stack.processes import memory_mb
from infra.stack.stack import SERVICES
from infra.stack.supervisor import programs

GENERATOR = run.SIMULATOR
HARNESS = "bench"
LOAD_PRIORITY = -10
"""Of the load generator: a load that waits for its turn is no open loop. It stands for vehicles elsewhere."""


def pids(home: Path) -> dict[str, int]:
    """The leading process of each part that runs in ``home``."""
    names = (GENERATOR, *SERVICES, *(program.name for program in programs()))
    found = {name: processes.find(home / "run", name) for name in names}
    return {name: part.pid for name, part in found.items() if part is not None}


def cpu_s(home: Path) -> dict[str, float]:
    """CPU time of each part with its children, s; ``bench`` is this process with its probes."""
    children, times = processes.all_children(), os.times()
    found = {name: processes.cpu_s(pid, children) for name, pid in pids(home).items()}
    return found | {HARNESS: times.user + times.system}


def memory(home: Path) -> dict[str, float]:
    """Memory of each part with its children, MiB, shared pages shared out (PSS)."""
    return {name: memory_mb(pid) for name, pid in pids(home).items()}


@dataclass(frozen=True, slots=True)
class MachineTime:
    """CPU time of the whole machine since its start, s over all cores."""

    busy_s: float
    idle_s: float
    stolen_s: float


def machine_time() -> MachineTime:
    """Reads /proc/stat."""
    fields = [int(text) for text in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    user, nice, system, idle, wait, irq, soft, stolen = (n / os.sysconf("SC_CLK_TCK") for n in fields)
    return MachineTime(user + nice + system + irq + soft, idle + wait, stolen)


def put_first(pid: int) -> bool:
    """Let a process's session go before others; False where this machine does not allow it.

    Where the kernel shares CPU between sessions (autogroup), niceness counts for the session.
    """
    group = Path(f"/proc/{pid}/autogroup")
    try:
        os.setpriority(os.PRIO_PGRP, os.getpgid(pid), LOAD_PRIORITY)
        if group.exists():
            group.write_text(str(LOAD_PRIORITY))
    except OSError:
        return False
    return True
