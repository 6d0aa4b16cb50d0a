"""Programs that run on their own: started in a session of their own, found again and stopped by pid file.

A pid file holds three lines: the pid, the start time in clock ticks after boot (so that a reused pid is never
taken for ours) and the signal that asks the program to end. The program's own shell writes it before it
becomes the program: there is no moment at which a started program has no pid file.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from infra.clients.locks import locked
from infra.clients.waiting import looks
from infra.contract.errors import ServiceError
from infra.stack.downloads.cache import remove_tree

LAUNCH = Path(__file__).with_name("launch.sh").read_text()
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
LOG_LIMIT_BYTES = 20 * 1024 * 1024
Children = Mapping[int, Sequence[int]]


@dataclass(frozen=True, slots=True)
class Running:
    """A program that runs: its pid, start time [ticks after boot] and the signal that asks it to end."""

    name: str
    pid: int
    start_ticks: int
    stop_signal: int

    def alive(self) -> bool:
        """Whether this very program still runs (a zombie does not)."""
        return start_ticks(self.pid) == self.start_ticks


def _stat(pid: int) -> list[str]:
    """What /proc says of a process, from its state on (man proc_pid_stat, field 3); raises OSError."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def start_ticks(pid: int) -> int | None:
    """Start time of a process in ticks after boot; None when there is none or it is a zombie."""
    try:
        fields = _stat(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def pid_file(run_dir: Path, name: str) -> Path:
    """Where the pid of ``name`` is kept."""
    return run_dir / f"{name}.pid"


def find(run_dir: Path, name: str) -> Running | None:
    """The running program called ``name``; None when it does not run, whatever its pid file says."""
    try:
        pid, ticks, stop_signal = pid_file(run_dir, name).read_text().split()
        running = Running(name, int(pid), int(ticks), signal.Signals[stop_signal])
    except (FileNotFoundError, ValueError, KeyError):
        return None
    return running if running.alive() else None


def all_running(run_dir: Path) -> list[Running]:
    """Every program of this home that runs, the youngest first."""
    found = [find(run_dir, path.stem) for path in run_dir.glob("*.pid")]
    return sorted((r for r in found if r is not None), key=lambda r: r.start_ticks, reverse=True)


def spawn(
    run_dir: Path, name: str, command: Sequence[str], log: Path, *, env: Mapping[str, str] | None = None,
    stop_signal: signal.Signals = signal.SIGTERM,
) -> subprocess.Popen[bytes]:  # fmt: skip
    """Start ``command`` in a session of its own, output appended to ``log``; its pid file appears at once."""
    for folder in (run_dir, log.parent):
        folder.mkdir(parents=True, exist_ok=True)
    put_full_log_aside(log)
    launcher = ["/bin/sh", "-c", LAUNCH, "launch", str(pid_file(run_dir, name)), stop_signal.name, *command]
    with log.open("ab") as out:
        return subprocess.Popen(
            launcher, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env, start_new_session=True
        )


def put_full_log_aside(log: Path) -> None:
    """A log that is full begins anew, and is ``.log.1`` as it was; its writers append, and know nothing.

    A reader that locks it is not disturbed. What comes in the moment between copy and cut is lost.
    """
    if not log.exists() or log.stat().st_size <= LOG_LIMIT_BYTES:
        return
    new = log.with_suffix(".log.new")
    with suppress(OSError), locked(log, busy=BlockingIOError()):  # it is read, or the disk is full: later
        shutil.copy(log, new)
        new.replace(log.with_suffix(".log.1"))
        os.truncate(log, 0)


def stop(running: Running, deadline_s: float) -> bool:
    """Ask the program to end; kill it and its group at the deadline. False when it had to be killed."""
    ended = True
    if running.alive():
        for number in (running.stop_signal, signal.SIGCONT):
            with suppress(ProcessLookupError):
                os.kill(running.pid, number)
        ended = wait_gone(running, deadline_s)
    with suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)
    if not ended:
        wait_gone(running, 10.0)
    return ended


def stop_child(run_dir: Path, name: str, child: subprocess.Popen[bytes], deadline_s: float) -> bool:
    """Stop a child of this process, with or without its pid file; False when it had to be killed."""
    ticks = start_ticks(child.pid) if child.poll() is None else None
    written = find(run_dir, name)
    stop_signal = signal.SIGTERM if written is None else written.stop_signal
    ended = ticks is None or stop(Running(name, child.pid, ticks, stop_signal), deadline_s)
    child.wait()
    pid_file(run_dir, name).unlink(missing_ok=True)
    return ended


def wait_gone(running: Running, deadline_s: float) -> bool:
    """Wait until the program has ended; False when it still runs after ``deadline_s``."""
    return any(not running.alive() for _ in looks(deadline_s, 0.01))


def stop_all(run_dir: Path, deadline_s: float, names: Collection[str] | None = None) -> list[str]:
    """Stop every program of this home, or those of ``names``, all at once; their names, youngest first."""
    found = [running for running in all_running(run_dir) if names is None or running.name in names]
    with ThreadPoolExecutor(max_workers=max(1, len(found))) as pool:
        list(pool.map(lambda running: stop(running, deadline_s), found))
    for running in found:
        pid_file(run_dir, running.name).unlink(missing_ok=True)
    return [running.name for running in found]


def finished(what: str, command: Sequence[str], limit_s: float, env: Mapping[str, str] | None = None) -> None:
    """Run a command; raises ServiceError, which begins with ``what``, where it fails or takes too long."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False, env=env)
    except subprocess.TimeoutExpired as error:
        raise ServiceError(f"{what}: not done within {limit_s:g} s") from error
    if done.returncode != 0:
        raise ServiceError(f"{what}: {(done.stderr or done.stdout)[-2000:].strip()}")


def uptime_s(running: Running) -> float:
    """Time since the program started [s]."""
    return float(Path("/proc/uptime").read_text().split()[0]) - running.start_ticks / TICKS_PER_S


def memory_mb(pid: int) -> float:
    """Memory of a process and its descendants [MiB], shared pages counted once (proportional set size)."""
    return sum(map(own_pss_kb, tree(pid))) / 1024


def cpu_s(pid: int, children: Children | None = None) -> float:
    """CPU time of a process and all that it started, the ended ones too [s]; ``children``: as of ``tree``."""
    ticks = 0
    for one in tree(pid, children):
        with suppress(OSError):  # it has ended meanwhile
            ticks += sum(map(int, _stat(one)[11:15]))  # from 13 on: of children that it has waited for
    return ticks / TICKS_PER_S


def all_children() -> Children:
    """The children of each process of the machine that has any."""
    found: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            found.setdefault(int(_stat(int(folder.name))[1]), []).append(int(folder.name))
    return found


def tree(pid: int, children: Children | None = None) -> list[int]:
    """A process and its descendants. ``children``: ``all_children``, read once for several trees."""
    children, found = all_children() if children is None else children, [pid]
    for one in found:  # which grows meanwhile
        found += children.get(one, [])
    return found


def own_pss_kb(pid: int) -> int:
    """Proportional set size of the process alone [KiB]; 0 where it cannot be read."""
    with suppress(OSError):  # it has ended meanwhile, or is not ours to look into
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


def log_tail(log: Path, lines: int = 12, start: int = 0) -> str:
    """The last lines of a log, not before byte ``start``."""
    try:
        with log.open("rb") as file:
            file.seek(max(start, file.seek(0, os.SEEK_END) - 16_384))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return "(no log)"
    return "\n".join(text.splitlines()[-lines:]) or "(nothing in the log)"


GUARD_STOP_S = 15.0


@contextmanager
def guarded(home: Path, *, remove: bool = False) -> Iterator[None]:
    """While the block runs a guard watches this process; at its end the programs of ``home`` are stopped."""
    module = (sys.executable, "-m", "infra.stack.processes")
    command = (*module, str(home.resolve()), "remove" if remove else "keep")
    guard = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        guard.communicate()


def main(home: Path, remove: bool) -> None:
    """Wait for the owner's end, then clean up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    for run_dir in (*home.glob("lanes/*/run"), home / "run"):
        stop_all(run_dir, GUARD_STOP_S, ["supervisor"])  # first: it would start again what ends
        stop_all(run_dir, GUARD_STOP_S)
    if remove:
        remove_tree(home)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] == "remove")
