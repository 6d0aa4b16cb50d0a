"""The programs of the pipeline beside the services, and their supervisor in the background."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from infra.contract.errors import ServiceError
from infra.contract.shard import Shard, shards
from infra.stack import processes
from infra.stack.health import readyz
from infra.stack.ports import HOST
from infra.stack.supervisor import Program, Supervisor

SUPERVISOR = "supervisor"
POLL_S = 0.25
STOP_S = 90.0
"""Longer than the supervisor gives its programs."""


def odograph(*arguments: str) -> tuple[str, ...]:
    """``odograph <arguments>`` by this interpreter, whatever PATH says."""
    return (sys.executable, "-m", "infra.cli", *arguments)


def programs(bridges: int = 1) -> tuple[Program, ...]:
    """What ``odograph up`` keeps running; ``bridges``: into so many shares the fleet is cut."""
    return (
        *(_bridge(shard) for shard in shards(bridges)),
        Program("downlink", odograph("downlink")),
        Program("jobs", odograph("jobs", "stream")),
        Program("instant", odograph("jobs", "instant")),
        Program("events", odograph("jobs", "events")),
        Program("maintenance", odograph("maintenance")),
        Program("dashboard", odograph("dashboard")),
        Program("watch", odograph("watch")),
    )


def _bridge(shard: Shard) -> Program:
    arguments = () if shard.whole else ("--shard", str(shard))
    return Program(shard.process, odograph("bridge", *arguments))


def supervise(home: Path, bridges: int, say: Callable[[str], None]) -> None:
    """Keep the programs running until SIGTERM or SIGINT."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with Supervisor(home, programs(bridges), say) as supervisor:
        supervisor.watch(stop)


def start_in_background(home: Path) -> bool:
    """Start the supervisor in a session of its own; False when it runs already.

    What a killed supervisor left running is ended first.
    """
    run_dir = home / "run"
    if processes.find(run_dir, SUPERVISOR) is not None:
        return False
    stop_in_background(home)
    log = home / "logs" / f"{SUPERVISOR}.log"
    child = processes.spawn(run_dir, SUPERVISOR, odograph("run"), log)
    try:
        child.wait(1.0)
    except subprocess.TimeoutExpired:
        return True
    raise ServiceError(f"the supervisor ended at once; its log {log}:\n{processes.log_tail(log)}")


def wait_ready(http_ports: dict[str, int], deadline_s: float, say: Callable[[str], None]) -> dict[str, str]:
    """Wait until every program is ready; those that are not by then, with the reason."""
    end = time.monotonic() + deadline_s
    late = dict.fromkeys(http_ports, "not asked yet")
    while late:
        for name in list(late):
            reason = readyz(http_ports[name])
            if reason is None:
                say(f"{name}: ready, http://{HOST}:{http_ports[name]}")
                del late[name]
            else:
                late[name] = reason
        if time.monotonic() > end:
            break
        time.sleep(POLL_S)
    for name, reason in late.items():
        say(f"{name}: not ready after {deadline_s:g} s: {reason}")
    return late


def stop_in_background(home: Path) -> list[str]:
    """Stop the supervisor and, should it have been killed, the programs it left; their names."""
    run_dir = home / "run"
    stopped = processes.stop_all(run_dir, STOP_S, [SUPERVISOR])
    left = [r.name for r in processes.all_running(run_dir) if _is_program(r.name)]
    return stopped + processes.stop_all(run_dir, STOP_S, left)


def _is_program(name: str) -> bool:
    """Whether it is one of ours, of whatever number of shards."""
    return name.startswith("bridge-") or name in {program.name for program in programs()}
