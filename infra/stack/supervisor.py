"""Keeps programs running: starts them, restarts what ends, stops all at its own end."""

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Self

from infra.clients.locks import locked
from infra.contract.errors import OdographError, ServiceError
from infra.settings.files import read_json, write_private
from infra.settings.sections import bridges as bridge_names
from infra.stack import processes
from infra.stack.probes import page, readyz

STATE_FILE = "supervisor.json"
TICK_S = 0.2
STOP_S = 60.0


class Program(NamedTuple):
    """A program to keep running: its name (of log and pid file), its command, more for its environment."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pause before a restart [s]: doubles from ``first_s`` to ``most_s``; a run of ``good_s`` starts over."""

    first_s: float = 0.5
    most_s: float = 30.0
    good_s: float = 60.0

    def pause_s(self, restarts: int) -> float:
        """The pause before the restart that follows ``restarts`` earlier ones in a row."""
        return min(self.most_s, self.first_s * 2.0 ** min(restarts, 20))


@dataclass(slots=True)
class _Kept:
    """What is known about a program, or a service, while it is kept running."""

    program: Program
    due_s: float
    child: subprocess.Popen[bytes] | None = None
    runs: bool = False
    started_s: float = 0.0
    in_a_row: int = 0
    restarts: int = 0
    last_exit: int | None = None

    @property
    def is_service(self) -> bool:
        """Whether somebody else starts it first."""
        return not self.program.command


@dataclass(slots=True)
class Supervisor:
    """Keeps ``programs`` running while its ``with`` block runs.

    Logs go to ``<home>/logs/<name>.log``, pids to ``<home>/run/<name>.pid``. ``say`` gets each start and
    exit. Services that run here are started by somebody else and go on when the supervisor ends: one that
    ends though nobody stopped it (its pid file stays) is started again by ``respawn``, which returns None
    where that must wait and raises OdographError if it cannot be. Programs that are not ``first`` begin when
    it is ``due``, at ``alone_s`` at the latest.
    """

    home: Path
    programs: Sequence[Program]
    say: Callable[[str], None]
    backoff: Backoff = field(default_factory=Backoff)
    env: Mapping[str, str] | None = None
    services: Sequence[str] = ()
    respawn: Callable[[str], subprocess.Popen[bytes] | None] = lambda _name: None
    first: Callable[[Program], bool] = lambda _program: True
    due: Callable[[], bool] = lambda: True
    alone_s: float = 300.0
    _kept: dict[str, _Kept] = field(default_factory=dict)
    _begun_s: float = field(default_factory=time.monotonic)
    _written: Mapping[str, object] = field(default_factory=dict)

    def __enter__(self) -> Self:
        """Start all; what an earlier supervisor left running is ended first."""
        processes.stop_all(self._run_dir, STOP_S, [program.name for program in self.programs])
        self._kept.update((name, _Kept(Program(name, ()), math.inf)) for name in self.services)
        for program in self.programs:
            self._kept[program.name] = _Kept(program, 0.0 if self.first(program) else math.inf)
        self.tick()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop all, at the same time."""
        with ThreadPoolExecutor(max_workers=max(1, len(self._kept))) as pool:
            list(pool.map(self._stop, (kept for kept in self._kept.values() if not kept.is_service)))
        (self._run_dir / STATE_FILE).unlink(missing_ok=True)

    @property
    def _run_dir(self) -> Path:
        return self.home / "run"

    def watch(self, stop: threading.Event) -> None:
        """Restart what ends until ``stop`` is set, on a full disk too."""
        while not stop.wait(TICK_S):
            with suppress(OSError):
                self.tick()

    def tick(self) -> None:
        """Notice what ended, start what is due, put full logs aside. Raises OSError; the next one goes on."""
        now = time.monotonic()
        for log in (self.home / "logs").glob("*.log"):
            processes.put_full_log_aside(log)
        later = [kept for kept in self._kept.values() if kept.due_s == math.inf and not kept.is_service]
        if later and (now - self._begun_s > self.alone_s or self.due()):
            for kept in later:
                kept.due_s = now
        try:
            for kept in self._kept.values():
                self._look_after(kept, now)
        finally:
            state = {n: {"restarts": k.restarts, "last_exit": k.last_exit} for n, k in self._kept.items()}
            if state != self._written:
                write_private(self._run_dir / STATE_FILE, json.dumps(state), 0o644)
                self._written = state

    def _look_after(self, kept: _Kept, now: float) -> None:
        name, child = kept.program.name, kept.child
        found = processes.find(self._run_dir, name) if kept.is_service else None
        if found is not None or (child is not None and child.poll() is None):
            kept.runs = True
        elif kept.is_service and not processes.pid_file(self._run_dir, name).exists():
            kept.runs, kept.due_s = False, math.inf  # it was stopped
        elif kept.runs:
            if child is not None and not kept.is_service:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)  # what it left behind, as the JVM of a driver
            code = child.returncode if child else None
            self._note_exit(kept, now, "ended" if code is None else f"ended with {code}", code)
        elif now >= kept.due_s:
            try:
                kept.child = self.respawn(name) if kept.is_service else self._spawn(kept.program)
            except (OdographError, OSError) as error:
                self._note_exit(kept, now, str(error))
            if kept.child is not None:
                kept.runs, kept.started_s = True, now
                self.say(f"{name}: started{' again' if kept.is_service else ''}, pid {kept.child.pid}")

    def _spawn(self, program: Program) -> subprocess.Popen[bytes]:
        env = {**(os.environ if self.env is None else self.env), **program.env}
        return processes.spawn(self._run_dir, program.name, program.command, self.log(program.name), env=env)

    def log(self, name: str) -> Path:
        return self.home / "logs" / f"{name}.log"

    def _note_exit(self, kept: _Kept, now: float, how: str, code: int | None = None) -> None:
        if kept.runs and now - kept.started_s >= self.backoff.good_s:
            kept.in_a_row = 0
        pause_s = self.backoff.pause_s(kept.in_a_row)
        kept.child, kept.runs, kept.last_exit, kept.due_s = None, False, code, now + pause_s
        kept.in_a_row += 1
        kept.restarts += 1
        log = self.log(kept.program.name)
        self.say(f"{kept.program.name}: {how}, again in {pause_s:g} s; its log: {log}")

    def _stop(self, kept: _Kept) -> None:
        name = kept.program.name
        if kept.child is None:
            processes.pid_file(self._run_dir, name).unlink(missing_ok=True)
        elif not processes.stop_child(self._run_dir, name, kept.child, STOP_S):
            self.say(f"{name}: did not end within {STOP_S:g} s, killed")


def read_state(home: Path) -> dict[str, dict[str, int | None]]:
    """Restarts and last exit code of each program, as the supervisor last wrote them."""
    state: dict[str, dict[str, int | None]] = read_json(home / "run" / STATE_FILE)
    return state


SUPERVISOR = "supervisor"
POLL_S = 0.25
PROGRAMS_STOP_S = 90.0  # longer than the supervisor gives its programs
COMMANDS = {
    "downlink": ("downlink",),
    "jobs": ("jobs", "stream"),
    "instant": ("jobs", "instant"),
    "events": ("jobs", "events"),
    "maintenance": ("maintenance",),
    "dashboard": ("dashboard",),
    "watch": ("watch",),
}
PROXY = "proxy"  # one address for the dashboards of several hosts
MIRROR = "mirror"  # copies the other region's log, where there are two


def odograph(*arguments: str) -> tuple[str, ...]:
    """``odograph <arguments>`` by this interpreter, whatever PATH says."""
    return (sys.executable, "-m", "infra.cli", *arguments)


def programs(bridges: int = 1, hosts: int = 1) -> tuple[Program, ...]:
    """What ``odograph up`` keeps running; ``bridges`` of them share the fleet.

    On each host beyond the first one a second of each, called ``jobs-2``: a standby, or a dashboard. There
    is one watch.
    """
    commands: dict[str, tuple[str, ...]] = {
        name: ("bridge", "--shard", f"{number}") if bridges > 1 else ("bridge",)
        for number, name in enumerate(bridge_names(bridges), 1)
    }
    commands |= COMMANDS
    if hosts > 1:
        commands[PROXY] = (PROXY,)
    for number in range(2, hosts + 1):
        commands |= {f"{name}-{number}": words for name, words in COMMANDS.items() if name != "watch"}
    return tuple(Program(name, odograph(*words)) for name, words in commands.items())


def alone(home: Path) -> AbstractContextManager[None]:
    """Held by who starts a home's pipeline and stops it at its own end; ServiceError where another has it."""
    why = f"{home}: a demo runs here, and stops everything at its end: wait for it, or take another home"
    return locked(home / "demo.lock", busy=ServiceError(f"{why} (ODOGRAPH_PATHS_HOME)"))


def start_in_background(home: Path) -> bool:
    """Start the supervisor in a session of its own, in place of a killed one; False when it runs already."""
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


def wait_ready(
    pages: Mapping[str, str | int], deadline_s: float, say: Callable[[str], None]
) -> dict[str, str]:
    """Wait until every program is ready; those that are not by then, with the reason.

    ``pages``: where their pages are, as of ``probes.page``.
    """
    end = time.monotonic() + deadline_s
    while (late := still_late(pages, say)) and time.monotonic() < end:
        pages = {name: pages[name] for name in late}
        time.sleep(POLL_S)
    for name, reason in late.items():
        say(f"{name}: not ready after {deadline_s:g} s: {reason}")
    return late


def still_late(pages: Mapping[str, str | int], say: Callable[[str], None]) -> dict[str, str]:
    """Those of the programs that are not ready, with the reason; the others are announced."""
    reasons = {name: readyz(where) for name, where in pages.items()}
    for name in (name for name, reason in reasons.items() if reason is None):
        say(f"{name}: ready, {page(pages[name])}")
    return {name: reason for name, reason in reasons.items() if reason is not None}


def stop_in_background(home: Path) -> list[str]:
    """Stop the supervisor and, should it have been killed, the programs it left; their names."""
    run_dir = home / "run"
    stopped = processes.stop_all(run_dir, PROGRAMS_STOP_S, [SUPERVISOR])
    left = [running.name for running in processes.all_running(run_dir)]
    ours = [name for name in left if name.partition("-")[0] in {"bridge", PROXY, MIRROR, *COMMANDS}]
    return stopped + processes.stop_all(run_dir, PROGRAMS_STOP_S, ours)
