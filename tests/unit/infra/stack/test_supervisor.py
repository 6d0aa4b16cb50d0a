"""The supervisor keeps tiny programs running."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from infra.clients.health import in_background
from infra.contract.errors import ConfigError, ServiceError
from infra.stack import processes
from infra.stack.processes import guarded
from infra.stack.supervisor import Backoff, Program, Supervisor, read_state
from tests.support import eventually

SLEEPER = Program("sleeper", (sys.executable, "-c", "import time; time.sleep(600)"))
FAILING = Program("failing", (sys.executable, "-c", "import sys; sys.exit(3)"))
QUICK = Backoff(first_s=0.01, most_s=0.05)


@contextmanager
def watched(home: Path, *programs: Program) -> Iterator[list[str]]:
    said: list[str] = []
    stop = threading.Event()
    with Supervisor(home, programs, said.append, QUICK) as supervisor:
        thread = threading.Thread(target=supervisor.watch, args=(stop,))
        thread.start()
        try:
            yield said
        finally:
            stop.set()
            thread.join()


def pid_of(home: Path, name: str) -> int:
    return eventually(lambda: processes.find(home / "run", name), 60, f"{name} runs").pid


def test_a_killed_program_is_started_again(tmp_path: Path) -> None:
    with watched(tmp_path, SLEEPER):
        first = pid_of(tmp_path, "sleeper")
        os.kill(first, signal.SIGKILL)
        eventually(lambda: pid_of(tmp_path, "sleeper") != first, 60, "another pid")


@pytest.mark.slow
def test_a_log_that_grows_without_end_is_bounded_while_its_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "LOG_LIMIT_BYTES", 20_000)
    counts = "import itertools, time\nfor n in itertools.count():\n print(n, flush=True)\n time.sleep(1e-4)"
    log = tmp_path / "logs" / "counting.log"
    with watched(tmp_path, Program("counting", (sys.executable, "-c", counts))):
        first = pid_of(tmp_path, "counting")
        aside = log.with_suffix(".log.1")
        eventually(lambda: aside.exists() and int(aside.read_text().split()[0]) > 0, 60, "twice it was full")
        assert pid_of(tmp_path, "counting") == first
    numbers = [int(n) for n in (aside.read_text() + log.read_text()).split()]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] - numbers[0] < len(numbers) + 100, "what came in one moment may be lost"


def test_a_program_that_begins_later_is_kept_running_too(tmp_path: Path) -> None:
    due = threading.Event()
    left = processes.spawn(tmp_path / "run", "sleeper", SLEEPER.command, tmp_path / "logs" / "sleeper.log")
    assert pid_of(tmp_path, "sleeper") == left.pid
    keeper = Supervisor(tmp_path, [SLEEPER], print, QUICK, first=lambda _: False, due=due.is_set)
    with keeper, in_background("watch", keeper.watch):
        assert left.wait(60) == -signal.SIGTERM, "of an earlier supervisor"
        assert processes.find(tmp_path / "run", "sleeper") is None
        due.set()
        first = pid_of(tmp_path, "sleeper")
        os.kill(first, signal.SIGKILL)
        eventually(lambda: pid_of(tmp_path, "sleeper") != first, 60, "another pid")
    assert processes.find(tmp_path / "run", "sleeper") is None


def test_exits_are_counted_and_said_with_the_log(tmp_path: Path) -> None:
    with watched(tmp_path, FAILING) as said:
        eventually(lambda: read_state(tmp_path).get("failing", {}).get("last_exit") == 3, 60, "the exit code")
        eventually(lambda: (read_state(tmp_path)["failing"]["restarts"] or 0) >= 2, 60, "two restarts")
    log = tmp_path / "logs" / "failing.log"
    assert f"failing: ended with 3, again in 0.01 s; its log: {log}" in said


def test_all_programs_end_with_the_supervisor(tmp_path: Path) -> None:
    with watched(tmp_path, SLEEPER):
        pid = pid_of(tmp_path, "sleeper")
    assert processes.start_ticks(pid) is None
    assert list((tmp_path / "run").glob("*.pid")) == []


def test_what_a_killed_supervisor_left_running_is_ended_by_the_next(tmp_path: Path) -> None:
    run_dir, log = tmp_path / "run", tmp_path / "logs" / "sleeper.log"
    left = processes.spawn(run_dir, "sleeper", SLEEPER.command, log)
    assert pid_of(tmp_path, "sleeper") == left.pid
    with watched(tmp_path, SLEEPER):
        assert left.wait(60) == -signal.SIGTERM
        eventually(lambda: pid_of(tmp_path, "sleeper") != left.pid, 60, "its successor")


def test_a_supervisor_that_stops_right_after_its_start_leaves_nothing(tmp_path: Path) -> None:
    with Supervisor(tmp_path, [SLEEPER], lambda _: None) as supervisor:
        child = supervisor._kept["sleeper"].child
    assert child is not None
    assert child.returncode is not None


@pytest.mark.parametrize(("in_a_row", "pause_s"), [(0, 0.5), (1, 1.0), (2, 2.0), (6, 30.0), (100, 30.0)])
def test_the_pause_doubles_up_to_half_a_minute(in_a_row: int, pause_s: float) -> None:
    assert Backoff().pause_s(in_a_row) == pause_s


def test_a_guard_ends_what_its_owner_leaves(tmp_path: Path) -> None:
    with guarded(tmp_path):
        child = processes.spawn(tmp_path / "run", "sleeper", SLEEPER.command, tmp_path / "logs" / "s.log")
        assert pid_of(tmp_path, "sleeper") == child.pid
    assert child.wait(60) == -signal.SIGTERM


@pytest.mark.slow
def test_a_service_that_ends_by_itself_is_started_again_and_a_stopped_one_is_not(tmp_path: Path) -> None:
    run_dir, log = tmp_path / "run", tmp_path / "logs" / "sleeper.log"
    said: list[str] = []

    def respawn(name: str) -> subprocess.Popen[bytes]:
        return processes.spawn(run_dir, name, SLEEPER.command, log)

    first = respawn("sleeper")
    kept = Supervisor(tmp_path, [], said.append, QUICK, services=["sleeper", "never"], respawn=respawn)
    with kept as supervisor:
        pid_of(tmp_path, "sleeper")
        supervisor.tick()
        for killed in range(3):
            os.kill(pid := pid_of(tmp_path, "sleeper"), signal.SIGKILL)
            eventually(lambda: supervisor.tick() or _another(tmp_path, pid), 60, "it runs again")
            assert read_state(tmp_path)["sleeper"]["restarts"] == killed + 1
        processes.stop_all(run_dir, 10.0, ["sleeper"])
        for _ in range(20):
            supervisor.tick()
            time.sleep(0.01)
        assert processes.find(run_dir, "sleeper") is None
    first.wait(10)
    assert sum("started again" in text for text in said) == 3


def _another(home: Path, pid: int) -> bool:
    found = processes.find(home / "run", "sleeper")
    return found is not None and found.pid != pid


def test_a_service_that_cannot_be_started_is_tried_again_after_longer_and_longer(tmp_path: Path) -> None:
    run_dir, said, tries = tmp_path / "run", list[str](), list[str]()
    child = processes.spawn(run_dir, "sleeper", SLEEPER.command, tmp_path / "logs" / "sleeper.log")

    def respawn(name: str) -> None:
        tries.append(name)
        if len(tries) < 5:
            raise (ServiceError, ConfigError)[len(tries) % 2]("the disk is full")

    with Supervisor(tmp_path, [], said.append, QUICK, services=["sleeper"], respawn=respawn) as supervisor:
        pid_of(tmp_path, "sleeper")
        supervisor.tick()
        child.kill()
        child.wait()
        eventually(lambda: supervisor.tick() or len(tries) > 6, 60, "it is tried again and again")
    failed = "sleeper: the disk is full, again in "
    pauses = [text.removeprefix(failed).split()[0] for text in said if text.startswith(failed)]
    assert pauses == ["0.02", "0.04", "0.05", "0.05"], "the pause of its end was 0.01"


def test_on_a_full_disk_programs_go_on_and_what_ends_is_started_again(tmp_path: Path) -> None:
    full = threading.Event()

    def say(_: str) -> None:
        if full.is_set():
            raise OSError(errno.ENOSPC, "no space left on device")

    keeper = Supervisor(tmp_path, [SLEEPER, FAILING], say, QUICK)
    with keeper, in_background("watch", keeper.watch):
        first = pid_of(tmp_path, "sleeper")
        full.set()
        os.kill(first, signal.SIGKILL)
        eventually(lambda: pid_of(tmp_path, "sleeper") != first, 60, "another pid")
        eventually(lambda: (read_state(tmp_path)["failing"]["restarts"] or 0) > 2, 60, "the other's restarts")
        assert read_state(tmp_path)["sleeper"] == {"restarts": 1, "last_exit": -signal.SIGKILL}
        full.clear()
