"""Where a drill takes place: services and programs of its own, and faults put into them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from infra.contract.errors import ServiceError
from infra.settings.sections import Profile
from infra.settings.settings import Endpoints, Sections, Settings, load
from infra.stack import probes, processes
from infra.stack.downloads.cache import remove_tree
from infra.stack.downloads.fetch import fetch_all
from infra.stack.hosts.cluster import ALONE, Cluster
from infra.stack.processes import guarded
from infra.stack.stack import Stack
from infra.stack.supervisor import odograph
from load_tests.drills.small_disk import small_disk

POLL_S = 0.05
READY_S = 60.0
STOP_S = 60.0
Say = Callable[[str], None]
T = TypeVar("T")


def until(check: Callable[[], T], deadline_s: float, what: str) -> T:
    """Call ``check`` until it returns something true, and return that; raises ServiceError if it does not."""
    end = time.monotonic() + deadline_s
    while not (value := check()):
        if time.monotonic() > end:
            raise ServiceError(f"drill: not within {deadline_s:g} s: {what}")
        time.sleep(POLL_S)
    return value


@dataclass(slots=True)
class Site:
    """A home with running services. ``env`` makes ``odograph ...`` in a subprocess use it."""

    home: Path
    settings: Settings
    endpoints: Endpoints
    env: dict[str, str]
    stack: Stack
    say: Say = lambda _: None
    _children: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def cluster(self) -> Cluster:
        """The servers where there are several of a service; what it has not, the stack has."""
        return self.stack.cluster

    @property
    def run_dir(self) -> Path:
        """Where pid files lie."""
        return self.home / "run"

    def start(self, name: str, command: tuple[str, ...], **more: str) -> subprocess.Popen[bytes]:
        """Start a program, with ``more`` in its environment; its output goes to the log of that name."""
        log = self.home / "logs" / f"{name}.log"
        return self.adopt(name, processes.spawn(self.run_dir, name, command, log, env=self.env | more))

    def adopt(self, name: str, child: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        """A program of this site from now on, ended with it."""
        self._children[name] = child
        return child

    def bridge(self, mutant: str | None = None, number: int | None = None) -> None:
        """Start a bridge, with a defect where one is named; returns when it is ready.

        ``number``: which of several that share the fleet.
        """
        name = "bridge" if number is None else f"bridge-{number}"
        patched = (sys.executable, "-m", "load_tests.drills.mutant_bridge", str(mutant))
        self.start(name, patched if mutant else odograph("bridge"), ODOGRAPH_BRIDGE_SHARD=f"{number or 1}")
        self.wait_ready(name)

    def wait_ready(self, name: str, deadline_s: float = READY_S) -> None:
        """Until a program's health page says it is ready; raises ServiceError, also when it has ended."""
        child, port = self._children[name], self.endpoints.http_ports[name]

        def ready() -> bool:
            if child.poll() is not None:
                log = self.home / "logs" / f"{name}.log"
                raise ServiceError(f"{name} ended with {child.returncode}:\n{processes.log_tail(log)}")
            return probes.readyz(port) is None

        until(ready, deadline_s, f"{name} is ready ({probes.readyz(port)})")

    def pid(self, name: str) -> int:
        """Of a program or service that runs; 0 while it does not."""
        found = processes.find(self.run_dir, name) or self.stack.runner.find(name)
        return found.pid if found else 0

    def running(self, name: str) -> int:
        """The pid of a program or service; raises ServiceError where it does not run.

        A signal to pid 0 would be one to the drill itself, and to all of its process group.
        """
        if not (pid := self.pid(name)):
            raise ServiceError(f"drill: {name} does not run; log: {self.home}/logs/{name}.log")
        return pid

    def kill(self, name: str) -> None:
        """``kill -9`` a program or service; raises ServiceError where it does not run."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.running(name), signal.SIGKILL)
        child = self._children.get(name)
        if child is not None:
            child.wait()
        else:
            until(lambda: not self.pid(name), 10, f"{name} is gone")

    def kill_group(self, name: str) -> None:
        """``kill -9`` a program or service with all of its process group."""
        child = self._children.get(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid if child else self.running(name), signal.SIGKILL)
        if child is not None:
            child.wait()

    @contextlib.contextmanager
    def paused_group(self, name: str) -> Iterator[None]:
        """A program of this site and all of its process group stand still in the block."""
        self.signal_group(name, signal.SIGSTOP)
        try:
            yield
        finally:
            self.signal_group(name, signal.SIGCONT)

    def signal_group(self, name: str, number: signal.Signals) -> None:
        """A signal to a program of this site and all of its process group."""
        os.killpg(self._children[name].pid, number)

    def ended_by_itself(self, name: str) -> bool:
        """Whether a program of this site runs no more."""
        return self._children[name].poll() is not None

    def log(self, name: str) -> str:
        """All that a program has written."""
        return (self.home / "logs" / f"{name}.log").read_text(errors="replace")

    def stop(self, name: str) -> int | None:
        """Ask a program of this site to end; its exit code, None where it was never started."""
        if (child := self._children.get(name)) is None:
            return None
        processes.stop_child(self.run_dir, name, child, STOP_S)
        return child.returncode

    def ended(self, name: str, deadline_s: float) -> int:
        """Wait for the end of a program of this site; its exit code. Raises ServiceError where it goes on."""
        try:
            return self._children[name].wait(deadline_s)
        except subprocess.TimeoutExpired as error:
            log = self.home / "logs" / f"{name}.log"
            raise ServiceError(f"drill: {name} does not end within {deadline_s:g} s; log: {log}") from error

    @contextlib.contextmanager
    def paused(self, name: str) -> Iterator[None]:
        """SIGSTOP for the block, SIGCONT after it; raises ServiceError where it does not run."""
        pid = self.running(name)
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def restart_service(self, name: str) -> None:
        """Bring a service back that was killed; returns when it answers."""
        self.stack.runner.start(self.stack.servers()[name])

    def metrics(self, name: str = "bridge") -> dict[str, float]:
        """A program's metrics, each summed over its labels; empty while its page is away."""
        url = f"http://127.0.0.1:{self.endpoints.http_ports[name]}/metrics"
        try:
            with urllib.request.urlopen(url, timeout=2) as page:
                text = page.read().decode()
        except OSError:
            return {}
        return _summed(text)

    def wait_metrics(self, name: str = "bridge") -> dict[str, float]:
        """A program's metrics as soon as its page answers; raises ServiceError where it does not."""
        return until(lambda: self.metrics(name), READY_S, f"{name} answers with its metrics")

    def run_file(self, run_id: str) -> dict[str, Any]:
        """What the simulator says so far; empty before its first second."""
        path = self.home / "runs" / run_id / "run.json"
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return found

    def simulate(self, run_id: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a simulator that writes down each message before it publishes it."""
        return self.start(run_id, odograph("simulate", *arguments, "--log-frames", "--run-id", run_id))

    def end_programs(self) -> None:
        """Stop what was started here, services apart."""
        for name in list(self._children):
            self.stop(name)


def _summed(text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            name = name.partition("{")[0]
            found[name] = found.get(name, 0.0) + float(value)
    return found


@dataclass(frozen=True, slots=True)
class Disk:
    """A folder of the home that lies on a small tmpfs of its own; MB."""

    folder: str
    megabytes: int


EXTERNAL: Sections = {"mqtt": {"url": ""}, "kafka": {"bootstrap": ""}, "db": {"url": ""}}
"""A drill breaks services: it never touches those that the settings name."""


@contextlib.contextmanager
def opened(
    base: Settings,
    name: str,
    say: Say,
    keep: bool = False,
    disk: Disk | None = None,
    profile: Profile = ALONE,
    **overrides: dict[str, object],
) -> Iterator[Site]:
    """A site below the home in force with its services; all is stopped at its end.

    Its folder is gone then, if not ``keep``, and stays where the block raises: the logs say why.

    ``profile``: of which services there are several.
    """
    home = base.paths.home.resolve() / "drills" / f"{name}-{time.time_ns() // 1_000_000}"
    sections: Sections = {"paths": {"home": str(home), "cache": str(base.paths.cache)}}
    for part in (EXTERNAL, {"kafka": {"heap_mb": 512}, "cluster": profile.model_dump()}, overrides):
        for section, values in part.items():
            sections[section] = sections.get(section, {}) | values
    settings = load(**sections)
    home.mkdir(parents=True)
    for folder in (home, home.parent, home.parent.parent):
        folder.chmod(0o711)  # the services' users must reach their folders
    with contextlib.ExitStack() as ending:
        if disk:
            ending.enter_context(small_disk(home / disk.folder, disk.megabytes))
        ending.enter_context(guarded(home))
        say(f"starting services in {home}")
        stack = Stack(settings, say=lambda _: None, preferred={})
        fetch_all(settings.paths.cache, stack.kinds)
        ending.callback(stack.down)
        addresses = stack.up()
        for section, found in stack.cluster.sections().items():
            sections[section] = sections.get(section, {}) | found
        env = _environment(sections) | stack.cluster.env()
        site = Site(home, stack.settings, addresses, env, stack, say)
        try:
            yield site
        finally:
            site.end_programs()
    if not keep:
        remove_tree(home)


def _environment(sections: Sections) -> dict[str, str]:
    own = {
        f"ODOGRAPH_{section}_{key}".upper(): str(value)
        for section, values in sections.items()
        for key, value in values.items()
    }
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("ODOGRAPH_")}
    return {**inherited, **own}
