"""One service of the local stack: how it starts, when it is ready, how it stops.

Ready means that a protocol round trip succeeds. A service never starts beside a foreign program on its port.
A failed start names the service, the command, the log and its last lines.
"""

import secrets
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from pathlib import Path

from infra.clients.waiting import looks
from infra.contract.errors import ServiceError
from infra.stack import processes
from infra.stack.processes import Running

POLL_S = 0.05
STOP_S = 30.0
LINGER_S = 3.0  # how long the port of a killed predecessor may stay taken


@dataclass(frozen=True, slots=True)
class Service:
    """What there is to know about a service.

    ``probe`` makes a protocol round trip and says who answered, or raises ServiceError. ``prepare`` lays out
    data and configuration before each start. ``again_on`` are texts in the log of a start that failed only
    because a killed predecessor has not ended wholly. ``port_setting`` is the variable that fixes the port.
    """

    name: str
    command: tuple[str, ...]
    port: int
    probe: Callable[[], str]
    prepare: Callable[[], None] = lambda: None
    port_setting: str = ""
    stop_signal: signal.Signals = signal.SIGTERM
    ready_s: float = 60.0
    again_on: tuple[str, ...] = ()


class Runner:
    """Starts and stops the services of one home."""

    def __init__(self, home: Path) -> None:
        self.run_dir = home / "run"
        self.log_dir = home / "logs"
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def log(self, name: str) -> Path:
        return self.log_dir / f"{name}.log"

    def find(self, name: str) -> Running | None:
        return processes.find(self.run_dir, name)

    def start(self, service: Service) -> str:
        """Bring the service to readiness, unless it runs and answers; what its probe said.

        Raises ServiceError where that fails; nothing of it is then left running.
        """
        name, log = service.name, self.log(service.name)
        if self.find(name) is not None:
            try:
                return self._wait_ready(service, 0)
            except ServiceError:
                self.stop(name)  # it runs but does not answer: begin anew
        service.prepare()
        end = time.monotonic() + service.ready_s
        while True:
            self._refuse_foreign(service)
            before = log.stat().st_size if log.exists() else 0
            self.spawn(service)
            log_start = before if log.stat().st_size >= before else 0  # a full log was put aside
            try:
                return self._wait_ready(service, log_start)
            except ServiceError:
                self.stop(name)
                text = processes.log_tail(log, 50, log_start)
                if not any(words in text for words in service.again_on) or time.monotonic() > end:
                    raise
                time.sleep(POLL_S * 10)

    def spawn(self, service: Service) -> subprocess.Popen[bytes]:
        """Start a service that is prepared; wait for nothing."""
        name, log = service.name, self.log(service.name)
        if (old := self._children.pop(name, None)) is not None:
            old.wait(STOP_S)
        child = processes.spawn(self.run_dir, name, service.command, log, stop_signal=service.stop_signal)
        self._children[name] = child
        return child

    def stop(self, name: str) -> bool:
        """Stop a service; False when it did not run."""
        running, child = self.find(name), self._children.pop(name, None)
        if running is not None:
            processes.stop(running, STOP_S)
        ran = running is not None or (child is not None and child.poll() is None)
        if child is not None:  # started a moment ago, it may have no pid file yet
            processes.stop_child(self.run_dir, name, child, STOP_S)
        processes.pid_file(self.run_dir, name).unlink(missing_ok=True)
        return ran

    def _refuse_foreign(self, service: Service) -> None:
        ours_crashed = processes.pid_file(self.run_dir, service.name).exists()
        if not any(port_is_free(service.port) for _ in looks(LINGER_S * ours_crashed, POLL_S)):
            raise ServiceError(
                f"{service.name}: port {service.port} on {HOST} is taken by {port_holder(service.port)}; "
                f"stop it, or set {service.port_setting} to another port (0: any free one)"
            )

    def _wait_ready(self, service: Service, log_start: int) -> str:
        what, log, child = "", self.log(service.name), self._children.get(service.name)
        for _ in looks(service.ready_s, POLL_S):
            if self.find(service.name) is None and (child is None or child.poll() is not None):
                what = "ended at once"
                break
            try:
                return service.probe()
            except ServiceError as error:
                what = f"was not ready after {service.ready_s:g} s ({error})"
        tail = "\n".join(f"  | {line}" for line in processes.log_tail(log, start=log_start).splitlines())
        command = shlex.join(service.command)
        raise ServiceError(f"{service.name} {what}\n  command: {command}\n  log: {log}\n{tail}")


HOST = "127.0.0.1"
FREE_RANGE = range(20_000, 32_000)
"""Below the range from which the kernel takes ports for outgoing connections: a kept port is not stolen."""
STRIDE = 7919  # prime: all ports of the range in an order that begins anywhere


def port_is_free(port: int) -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def free_port(taken: Collection[int] = ()) -> int:
    """A free port that is not in ``taken``."""
    begin, many = secrets.randbelow(len(FREE_RANGE)), len(FREE_RANGE)
    for port in (FREE_RANGE[(begin + STRIDE * k) % many] for k in range(many)):
        if port not in taken and port_is_free(port):
            return port
    raise ServiceError(f"no free port between {FREE_RANGE.start} and {FREE_RANGE.stop} on {HOST}")


def choose_port(fixed: int, kept: int | None, preferred: int, taken: Collection[int]) -> int:
    """A fixed port (not 0) as it is; else the kept, else the preferred one, when free; else any free one."""
    if fixed:
        return fixed
    for port in (kept, preferred):
        if port and port not in taken and port_is_free(port):
            return port
    return free_port(taken)


def listening() -> dict[str, tuple[str, int]]:
    """Address and port of each socket of this machine that takes connections, by its name in ``/proc``."""
    tables = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
    rows = [row.split() for table in tables if table.exists() for row in table.read_text().splitlines()[1:]]
    found = {}
    for row in (row for row in rows if row[3] == "0A"):
        words, _, port = row[1].partition(":")
        raw = b"".join(bytes.fromhex(words[k : k + 8])[::-1] for k in range(0, len(words), 8))
        address = ip_address(raw)
        mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
        found[f"socket:[{row[9]}]"] = (str(mapped or address), int(port, 16))
    return found


def sockets_of(pid: int | str) -> Iterator[str]:
    """The names of a process's sockets, as far as they are ours to see."""
    for fd in Path("/proc").glob(f"{pid}/fd/*"):
        with suppress(OSError):  # the process or the descriptor is gone, or not ours to see
            yield fd.readlink().name


def port_holder(port: int) -> str:
    """Who listens on the port, as ``name (pid 123)``; "another program" where that cannot be seen."""
    sockets = {name for name, (_, number) in listening().items() if number == port}
    for pid in (path.name for path in Path("/proc").glob("[0-9]*") if sockets):
        if not sockets.isdisjoint(sockets_of(pid)):
            with suppress(OSError):
                return f"{Path('/proc', pid, 'comm').read_text().strip()} (pid {pid})"
    return "another program"
