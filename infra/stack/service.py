"""One service of the local stack: how it starts, when it is ready, how it stops.

Ready means that a protocol round trip succeeds. A service never starts beside a foreign program on its port.
A failed start names the service, the command, the log and its last lines.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from infra.contract.errors import ServiceError
from infra.stack import ports, processes
from infra.stack.processes import Running

POLL_S = 0.05
STOP_S = 30.0
LINGER_S = 3.0
"""How long the port of a killed predecessor may stay taken."""


def _nothing() -> None:
    """Nothing to prepare."""


@dataclass(frozen=True, slots=True)
class Service:
    """What there is to know about a service.

    ``probe`` makes a protocol round trip and says who answered, or raises ServiceError. ``prepare`` lays out
    data and configuration before each start. ``again_on`` is a text in the log of a start that failed only
    because a killed predecessor has not ended wholly. ``port_setting`` is the variable that fixes the port.
    """

    name: str
    command: tuple[str, ...]
    port: int
    port_setting: str
    probe: Callable[[], str]
    prepare: Callable[[], None] = _nothing
    stop_signal: signal.Signals = signal.SIGTERM
    ready_s: float = 60.0
    again_on: str = ""
    env: dict[str, str] = field(default_factory=dict)


class Runner:
    """Starts and stops the services of one home."""

    def __init__(self, home: Path) -> None:
        self.run_dir = home / "run"
        self.log_dir = home / "logs"
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def log(self, name: str) -> Path:
        """The log of a service or process."""
        return self.log_dir / f"{name}.log"

    def find(self, name: str) -> Running | None:
        """The running service, if it runs."""
        return processes.find(self.run_dir, name)

    def start(self, service: Service) -> str:
        """Bring the service to readiness; what its probe said. Does nothing to one that runs and answers.

        Raises ServiceError where that fails; nothing of it is then left running.
        """
        if self.find(service.name) is not None:
            try:
                return self._wait_ready(service, 0)
            except ServiceError:
                self.stop(service.name)  # it runs but does not answer: begin anew
        service.prepare()
        end = time.monotonic() + service.ready_s
        while True:
            self._refuse_foreign(service)
            log_start = self._spawn(service)
            try:
                return self._wait_ready(service, log_start)
            except ServiceError:
                self.stop(service.name)
                text = processes.log_tail(self.log(service.name), 50, log_start)
                if not service.again_on or service.again_on not in text or time.monotonic() > end:
                    raise
                time.sleep(POLL_S * 10)

    def stop(self, name: str, deadline_s: float = STOP_S) -> bool:
        """Stop a service; False when it did not run."""
        running, child = self.find(name), self._children.get(name)
        if running is None and child is not None:
            running = processes.of_child(name, child)  # started a moment ago: no pid file yet
        if running is not None:
            processes.stop(running, deadline_s)
        processes.remove_pid_file(self.run_dir, name)
        self._reap(name)
        return running is not None

    def _reap(self, name: str) -> None:
        child = self._children.pop(name, None)
        if child is not None:
            child.wait(STOP_S)

    def _spawn(self, service: Service) -> int:
        log = self.log(service.name)
        start = log.stat().st_size if log.exists() else 0
        self._reap(service.name)
        self._children[service.name] = processes.spawn(
            self.run_dir,
            service.name,
            service.command,
            log,
            env={**os.environ, **service.env},
            stop_signal=service.stop_signal,
        )
        return start if log.stat().st_size >= start else 0

    def _refuse_foreign(self, service: Service) -> None:
        end = time.monotonic() + LINGER_S
        ours_crashed = processes.pid_file(self.run_dir, service.name).exists()
        while not ports.is_free(service.port):
            if not ours_crashed or time.monotonic() > end:
                raise ServiceError(
                    f"{service.name}: port {service.port} on {ports.HOST} is taken by"
                    f" {ports.holder(service.port)}; stop it, or set {service.port_setting} to another port"
                    " (0: any free one)"
                )
            time.sleep(POLL_S)

    def _wait_ready(self, service: Service, log_start: int) -> str:
        end = time.monotonic() + service.ready_s
        last = "no answer"
        while time.monotonic() < end:
            if not self._running(service.name):
                raise self._failure(service, "ended at once", log_start)
            try:
                return service.probe()
            except ServiceError as error:
                last = str(error)
            time.sleep(POLL_S)
        raise self._failure(service, f"was not ready after {service.ready_s:g} s ({last})", log_start)

    def _running(self, name: str) -> bool:
        child = self._children.get(name)
        return self.find(name) is not None or (child is not None and child.poll() is None)

    def _failure(self, service: Service, what: str, log_start: int) -> ServiceError:
        log = self.log(service.name)
        return ServiceError(
            f"{service.name} {what}\n  command: {shlex.join(service.command)}\n  log: {log}\n"
            + "\n".join(f"  | {line}" for line in processes.log_tail(log, start=log_start).splitlines())
        )
