"""Processes forked from one that has loaded what they need: to load it takes a command a second of CPU, a job
of Spark three.
"""

from __future__ import annotations

import atexit
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing import forkserver, get_context
from pathlib import Path
from typing import Final

from infra import cli
from infra.stack import processes

LOADED: Final = (
    "tests.forked", "tests.integration.recompute_support", "tests.integration.promotion_support",
    "tests.forked_town", *(f"{package}.cli" for package in cli.PACKAGES),
    "bridge.dead_letters.work", "bridge.downlink.service", "bridge.uplink.service", "dashboard.server",
    "edge_simulator.day", "edge_simulator.recordings.replay", "edge_simulator.sending.fleet_processes",
    "infra.stack.doctor", "stream_jobs.app.jobs", "stream_jobs.audit.run", "stream_jobs.crashes.bundle",
    "stream_jobs.events.store", "stream_jobs.maintenance.process", "stream_jobs.privacy.erase",
    "stream_jobs.replay.command",
)  # fmt: skip
"""Imported once a worker, in the server that the processes are forked from."""
FILES: Final = 65_536
BEGUN_S: Final = 0.005


def begin_to_load() -> None:
    """Start the server that processes are forked from, where it does not run: it loads for seconds."""
    get_context("forkserver").set_forkserver_preload([*LOADED])
    forkserver.ensure_running()


class Child:
    """A forked process, as ``subprocess.Popen`` has it."""

    def __init__(self, work: Callable[..., object], *given: object) -> None:
        begin_to_load()
        self._process = get_context("forkserver").Process(target=work, args=given)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout_s: float | None = None) -> int:
        self._process.join(timeout_s)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout_s or 0)
        return self._process.exitcode

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()
        self._process.join()


class Command(Child):
    """``odograph <arguments>`` while it runs; what it says is for its end."""

    def __init__(self, arguments: Sequence[str], env: Mapping[str, str]) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="odograph-said-"))
        self._texts = [self._folder / name for name in ("out", "err")]
        super().__init__(_command, arguments, dict(env), *self._texts)

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def communicate(self, timeout_s: float | None = None) -> tuple[str, str]:
        """Wait for its end; what it wrote to stdout and to stderr. Once only."""
        self.wait(timeout_s)
        out, err = (text.read_text() for text in self._texts)
        shutil.rmtree(self._folder)
        return out, err


def run(
    arguments: Sequence[str], env: Mapping[str, str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """``odograph <arguments>`` to its end, as ``subprocess.run`` with its output captured."""
    command = Command(arguments, env)
    try:
        said = command.communicate(timeout_s)
    except subprocess.TimeoutExpired:
        command.kill()
        raise
    return subprocess.CompletedProcess(["odograph", *arguments], command.returncode, *said)


def spawn(run_dir: Path, name: str, arguments: Sequence[str], log: Path, env: Mapping[str, str]) -> Child:
    """``odograph <arguments>`` as ``infra.stack.processes`` starts it."""
    for folder in (run_dir, log.parent):
        folder.mkdir(parents=True, exist_ok=True)
    log.touch()
    child = Child(_program, arguments, dict(env), log)
    with suppress(ProcessLookupError):  # it has ended already
        while os.getpgid(child.pid) != child.pid:
            time.sleep(BEGUN_S)
    ticks = processes.start_ticks(child.pid)
    processes.pid_file(run_dir, name).write_text(f"{child.pid}\n{ticks}\nSIGTERM\n")
    return child


def _program(arguments: Sequence[str], env: Mapping[str, str], log: Path) -> None:
    os.setsid()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES if most < 0 else min(FILES, most), most))
    _command(arguments, env, log, log)


def _command(arguments: Sequence[str], env: Mapping[str, str], out: Path, err: Path) -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND), number)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    sys.argv = ["odograph", *arguments]
    try:
        cli.main()
    finally:
        atexit._run_exitfuncs()  # a forked process does not call them
