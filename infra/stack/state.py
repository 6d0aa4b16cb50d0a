"""What runs, where and how big: the rows of ``odograph status``."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from infra.contract.errors import ServiceError
from infra.stack import processes
from infra.stack.health import told
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
    remark: str | None = None
    """What a part that is well says besides, as a user's query that has ended."""


def parts(stack: Stack) -> list[Part]:
    """Every part of the stack, services first."""
    chosen = stack.ports()
    embedded = {s.name: s for s in stack.services(chosen)} if chosen else {}
    rows = [_service(stack, name, embedded) for name in SERVICES]
    if not chosen:
        return rows
    rows.append(_supervisor(stack))
    kept = read_state(stack.home)
    names = [program.name for program in programs(stack.settings.bridge.shards)]
    return rows + [_process(stack, name, chosen.get(name, 0), kept.get(name, {})) for name in names]


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


def _supervisor(stack: Stack) -> Part:
    running = stack.runner.find(SUPERVISOR)
    if running is None:
        return Part(SUPERVISOR, "process", "stopped", "", trouble="does not run; start it: odograph up")
    part = _measured(Part(SUPERVISOR, "process", "ready", ""), running, None)
    return replace(part, memory_mb=_pss_kb(running.pid) / 1024)  # its children have rows of their own


def _process(stack: Stack, name: str, port: int, kept: dict[str, int | None]) -> Part:
    """``kept`` is what the supervisor noted of it: restarts and last exit code."""
    running = stack.runner.find(name)
    part = Part(name, "process", "ready", f"http://{HOST}:{port}", restarts=kept.get("restarts"))
    log = stack.runner.log(name)
    if running is None and part.restarts:
        trouble = f"ended with {kept.get('last_exit')}, is started again and again; its log: {log}"
        return replace(part, state="failing", trouble=trouble)
    if running is None:
        return replace(part, state="stopped", trouble="does not run; start it: odograph up")
    reason, remark = told(port)
    if reason is None:
        return _measured(replace(part, remark=remark), running, None)
    return _measured(replace(part, state="not ready"), running, f"{reason}; its log: {log}")


def _measured(part: Part, running: processes.Running, trouble: str | None) -> Part:
    up_s, size_mb = uptime_s(running), memory_mb(running.pid)
    return replace(part, pid=running.pid, up_s=up_s, memory_mb=size_mb, trouble=trouble)


def uptime_s(running: processes.Running) -> float:
    """Time since the program started [s]."""
    since_boot_s = float(Path("/proc/uptime").read_text().split()[0])
    return since_boot_s - running.start_ticks / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int) -> float:
    """Memory of a process and its descendants [MiB], shared pages counted once (proportional set size)."""
    return sum(map(_pss_kb, tree(pid))) / 1024


def tree(pid: int) -> list[int]:
    """A process and its descendants."""
    children = _children_by_parent()
    found, todo = [], [pid]
    while todo:
        one = todo.pop()
        todo += children.get(one, [])
        found.append(one)
    return found


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
