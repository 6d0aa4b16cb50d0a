"""Programs by pid file: started, found, stopped, and never mistaken."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from infra.contract.errors import ServiceError
from infra.stack import processes
from tests.support import eventually

PYTHON = sys.executable
SLEEPER = (PYTHON, "-c", "import time; time.sleep(600)")
STUBBORN = (
    PYTHON,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True);"
    " time.sleep(600)",
)
CHILD = "[sys.executable, '-c', 'import time; time.sleep(600)']"
PARENT = (PYTHON, "-c", f"import subprocess, sys; subprocess.run({CHILD})")


def start(tmp_path: Path, name: str, command: tuple[str, ...]) -> processes.Running:
    child = processes.spawn(tmp_path / "run", name, command, tmp_path / f"{name}.log")
    running = eventually(lambda: processes.find(tmp_path / "run", name), 60, "the pid file")
    assert running.pid == child.pid
    child.returncode = -1  # stopped by pid below, as by another process: nobody waits for this child object
    return running


def test_a_started_program_is_found_with_its_own_pid(tmp_path: Path) -> None:
    running = start(tmp_path, "sleeper", SLEEPER)
    assert processes.stop(running, 10)


def test_a_stopped_program_is_gone(tmp_path: Path) -> None:
    running = start(tmp_path, "sleeper", SLEEPER)
    assert processes.stop(running, 10)
    assert processes.find(tmp_path / "run", "sleeper") is None


def test_a_program_that_ignores_the_signal_is_killed_at_the_deadline(tmp_path: Path) -> None:
    running = start(tmp_path, "stubborn", STUBBORN)
    eventually(lambda: "ready" in processes.log_tail(tmp_path / "stubborn.log"), 60, "the handler is set")
    assert not processes.stop(running, 0.2)
    assert not running.alive()


def test_a_command_that_fails_or_lasts_too_long_is_an_error_of_a_service() -> None:
    with pytest.raises(ServiceError, match=r"^disk: .*No such file"):
        processes.finished("disk", ("ls", "/none"), 60)
    with pytest.raises(ServiceError, match=r"^disk: not done within 0\.1 s$"):
        processes.finished("disk", ("sleep", "600"), 0.1)


def test_a_suspended_program_is_stopped_too(tmp_path: Path) -> None:
    running = start(tmp_path, "sleeper", SLEEPER)
    os.kill(running.pid, signal.SIGSTOP)
    assert processes.stop(running, 10)


def test_children_of_a_stopped_program_end_with_it(tmp_path: Path) -> None:
    running = start(tmp_path, "parent", PARENT)
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
    child = int(eventually(lambda: children.read_text().split(), 60, "the child")[0])
    processes.stop(running, 10)
    eventually(lambda: processes.start_ticks(child) is None, 60, "the child has ended")


def test_cpu_time_of_a_child_that_has_ended_still_counts(tmp_path: Path) -> None:
    busy = "import time; list(iter(lambda: time.process_time() < 0.3, False))"
    done = f"subprocess.run([sys.executable, '-c', {busy!r}]); print('done', flush=True)"
    code = f"import subprocess, sys, time; {done}; time.sleep(600)"
    parent = start(tmp_path, "parent", (PYTHON, "-c", code))
    eventually(lambda: "done" in (tmp_path / "parent.log").read_text(), 60, "the child has ended")
    assert processes.tree(parent.pid) == [parent.pid]
    assert processes.cpu_s(parent.pid) >= 0.3
    processes.stop(parent, deadline_s=10)


def test_a_pid_that_now_belongs_to_another_program_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / "old.pid").write_text(f"{os.getpid()}\n1\nSIGTERM\n")
    assert processes.find(tmp_path, "old") is None


def test_a_torn_pid_file_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "torn.pid").write_text("12")
    assert processes.find(tmp_path, "torn") is None


def test_all_programs_of_a_home_are_stopped_the_youngest_first(tmp_path: Path) -> None:
    first = start(tmp_path, "first", SLEEPER)
    eventually(lambda: uptime_ticks() > first.start_ticks, 60, "a tick of the clock")
    start(tmp_path, "second", SLEEPER)
    assert processes.stop_all(tmp_path / "run", 10) == ["second", "first"]


def test_the_tail_of_a_log_begins_with_this_start(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("old\nnew\n")
    assert processes.log_tail(log, start=4) == "new"


def test_a_full_log_is_put_aside(tmp_path: Path) -> None:
    log = tmp_path / "sleeper.log"
    with log.open("wb") as file:
        file.truncate(processes.LOG_LIMIT_BYTES + 1)
    processes.stop(start(tmp_path, "sleeper", SLEEPER), 10)
    assert (tmp_path / "sleeper.log.1").exists()
    assert log.stat().st_size == 0


def uptime_ticks() -> int:
    return int(float(Path("/proc/uptime").read_text().split()[0]) * os.sysconf("SC_CLK_TCK"))
