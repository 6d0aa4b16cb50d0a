"""What runs, where and how big: the rows of ``odograph status``."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from infra.contract.errors import ServiceError
from infra.stack import processes
from infra.stack.health import readyz
from infra.stack.ports import HOST
from infra.stack.programs import SUPERVISOR, programs
from infra.stack.service import Service
from infra.stack.stack import SERVICES, Stack
from infra.stack.supervisor import read_state


@dataclass(frozen=True, slots=True)
class Part:
    """One service or process. ``trouble`` is None when all is well; ``memory_mb`` counts its children too."""

    name: str
    kind: str
    state: str
    address: str
    pid: int | None = None
    up_s: float | None = None
    memory_mb: float | None = None
    restarts: int | None = None
    trouble: str | None = None


def parts(stack: Stack) -> list[Part]:
    """Every part of the stack, services first."""
    chosen = stack.ports()
    embedded = {s.name: s for s in stack.services(chosen)} if chosen else {}
    rows = [_service(stack, name, embedded) for name in SERVICES]
    if not chosen:
        return rows
    restarts = read_state(stack.home)
    rows.append(_process(stack, SUPERVISOR, None, None))
    for program in programs():
        again = restarts.get(program.name, {}).get("restarts")
        rows.append(_process(stack, program.name, chosen[program.name], again))
    return rows


def _service(stack: Stack, name: str, embedded: dict[str, Service]) -> Part:
    if name not in stack.embedded:
        return Part(name, "service", "external", "by the settings")
    running = stack.runner.find(name)
    service = embedded.get(name)
    address = "" if service is None else f"{HOST}:{service.port}"
    if running is None or service is None:
        return Part(name, "service", "stopped", address, trouble="does not run; start it: odograph up")
    trouble = None
    try:
        service.probe()
    except ServiceError as error:
        trouble = f"{error}; its log: {stack.runner.log(name)}"
    return _measured(
        Part(name, "service", "ready" if trouble is None else "silent", address), running, trouble
    )


def _process(stack: Stack, name: str, port: int | None, restarts: int | None) -> Part:
    running = stack.runner.find(name)
    address = "" if port is None else f"http://{HOST}:{port}"
    if running is None:
        return Part(name, "process", "stopped", address, trouble="does not run; start it: odograph up")
    trouble = None if port is None else readyz(port)
    if trouble is not None:
        trouble = f"{trouble}; its log: {stack.runner.log(name)}"
    part = Part(name, "process", "ready" if trouble is None else "not ready", address, restarts=restarts)
    return _measured(part, running, trouble)


def _measured(part: Part, running: processes.Running, trouble: str | None) -> Part:
    return Part(
        part.name,
        part.kind,
        part.state,
        part.address,
        pid=running.pid,
        up_s=uptime_s(running),
        memory_mb=memory_mb(running.pid),
        restarts=part.restarts,
        trouble=trouble,
    )


def uptime_s(running: processes.Running) -> float:
    """Time since the program started [s]."""
    since_boot_s = float(Path("/proc/uptime").read_text().split()[0])
    return since_boot_s - running.start_ticks / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int) -> float:
    """Memory of a process and its descendants [MiB], shared pages counted once (proportional set size)."""
    children = _children_by_parent()
    total_kb, todo = 0, [pid]
    while todo:
        one = todo.pop()
        todo += children.get(one, [])
        total_kb += _pss_kb(one)
    return total_kb / 1024


def _children_by_parent() -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    return children


def _pss_kb(pid: int) -> int:
    with suppress(OSError):  # it has ended meanwhile, or is not ours to look into
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0
