"""What tests share: a lane through the real stack, waiting to a deadline, running commands."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import orjson
import pytest

from infra.settings.files import write_private
from infra.settings.settings import ENDPOINTS_FILE, Endpoints, Settings, load
from infra.sql.migrate import migrate
from infra.stack import kafka, postgres, processes
from infra.stack.access.identity import ensure_keys
from infra.stack.service import free_port
from infra.stack.stack import Stack, with_database
from infra.stack.supervisor import SUPERVISOR, programs
from tests import forked

TEMPLATE_DATABASE = "odograph_template"
POLL_S, LONGEST_REST_S = 0.05, 1.5
REST = 3
"""So many times as long as a check took nobody asks again."""
GROWTH, LONGEST_GROWING_S = 0.1, 1.0
"""Nor for so much of the time that it has waited already: a look at the database takes 10 ms of CPU."""
STOP_S = 60.0
T = TypeVar("T")


def recorded_drives() -> Path:
    """The folder of the real drives, which are no part of this repository: without it the test is skipped."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("EDR_TEST_DRIVES", beside)) / "rsk_twizy"
    if not folder.is_dir():
        pytest.skip(f"no recorded drives in {folder}: set EDR_TEST_DRIVES to the folder of rsk_twizy")
    return folder


def eventually(check: Callable[[], T], deadline_s: float, what: str) -> T:
    """Call ``check`` until it returns something true, and return that; fail at the deadline.

    An AssertionError in ``check`` counts as "not yet" and is shown when the deadline has passed. A check that
    works long (a ledger, a picture of the page) is asked less often: what it waits for needs the cores too.
    """
    first = time.monotonic()
    end = first + deadline_s
    while True:
        begun = time.monotonic()
        try:
            value = check()
            last: object = value
            if value:
                return value
        except AssertionError as error:
            last = error
        now = time.monotonic()
        if now > end:
            raise AssertionError(f"not within {deadline_s:g} s: {what}; last: {last!r}")
        growing_s = min(GROWTH * (now - first), LONGEST_GROWING_S)
        time.sleep(min(max(POLL_S, REST * (now - begun), growing_s), LONGEST_REST_S))


@dataclass(frozen=True, slots=True)
class Lane:
    """A way through the shared stack that no other test sees.

    Its own MQTT root, MQTT client id, Kafka prefix (topics created), database (migrated) and home; ``env``
    makes ``odograph ...`` in a subprocess use it.
    """

    name: str
    home: Path
    settings: Settings
    endpoints: Endpoints
    env: dict[str, str]

    def run(self, *arguments: str, timeout_s: float = 240.0) -> subprocess.CompletedProcess[str]:
        """``odograph <arguments>`` to its end, output captured; the exit code is the caller's to judge."""
        return forked.run(arguments, self.env, timeout_s)

    @contextlib.contextmanager
    def process(self, *arguments: str) -> Iterator[LaneProcess]:
        """``odograph <arguments>`` while the block runs; stopped at its end, killed when that takes long."""
        name = "-".join(a.strip("-/") for a in arguments[:2])
        log = self.home / "logs" / f"{name}.log"
        child = forked.spawn(self.home / "run", name, arguments, log, self.env)
        process = LaneProcess(shlex.join(arguments), child, log)
        try:
            yield process
        finally:
            process.stop()
            processes.pid_file(self.home / "run", name).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class LaneProcess:
    """A process of a lane."""

    command: str
    child: subprocess.Popen[bytes] | forked.Child
    log: Path

    def output(self, lines: int = 40) -> str:
        """The last lines it wrote."""
        return processes.log_tail(self.log, lines)

    def assert_running(self) -> None:
        """Fail with its last lines when it has ended."""
        code = self.child.poll()
        if code is not None:
            raise RuntimeError(f"{self.command} ended with {code}:\n{self.output()}")

    def kill(self) -> None:
        """``kill -9``, the process and its children."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait()

    def stop(self) -> int:
        """SIGTERM and its exit code; killed with its children when it does not end."""
        self.child.terminate()
        try:
            self.child.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.child.pid, signal.SIGKILL)
        return self.child.returncode


def end_at_once(home: Path) -> None:
    """``kill -9`` of all that runs in a home that nobody needs any more; the supervisor first."""
    running = processes.all_running(home / "run")
    for each in sorted(running, key=lambda one: one.name != SUPERVISOR):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(each.pid, signal.SIGKILL)
        processes.wait_gone(each, STOP_S)


def odograph_command() -> list[str]:
    """The command line of this environment, whatever PATH says."""
    return [sys.executable, "-m", "infra.cli"]


def make_template(stack: Stack) -> None:
    """A migrated database that lanes are copied from; nothing may connect to it, else it cannot be copied."""
    superuser = stack.superuser_url()
    postgres.ensure_database(superuser, TEMPLATE_DATABASE)
    owner = with_database(stack.endpoints(), TEMPLATE_DATABASE).db_owner_url
    migrate(owner)
    with postgres.as_superuser(superuser) as connection:
        connection.execute(f"ALTER DATABASE {TEMPLATE_DATABASE} WITH ALLOW_CONNECTIONS false")
        end = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s"
        connection.execute(end, (TEMPLATE_DATABASE,))


def without_fsync(stack: Stack) -> None:
    """What tests commit need not outlive the machine; a killed server finds it all the same."""
    with postgres.as_superuser(stack.superuser_url()) as connection:
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("SELECT pg_reload_conf()")


@contextlib.contextmanager
def open_lane(stack: Stack, topics: bool = True, **overrides: dict[str, object]) -> Iterator[Lane]:
    """A new lane; its topics and database are dropped at the end. ``overrides`` are settings by section.

    Without ``topics`` it is one for tests of tables alone.
    """
    topics &= "kafka" in stack.only
    name = f"t{uuid.uuid4().hex[:10]}"
    home = stack.home / "lanes" / name
    sections = {
        "paths": {"home": str(home), "cache": str(stack.settings.paths.cache)},
        "mqtt": {"root": f"{name}/v1"},
        "kafka": {"prefix": f"{name}."},
        "bridge": {"client_id": f"{name}-bridge"},
        "jobs": {"clock_s": "0"},  # records of a test may be of any hour
    }
    for section, values in overrides.items():
        sections.setdefault(section, {}).update({k: str(v) for k, v in values.items()})
    # Files as they are: page by page through the log it takes three times as long, to drop it too.
    of_template = f"OWNER {postgres.OWNER} TEMPLATE {TEMPLATE_DATABASE} STRATEGY FILE_COPY"
    addresses = replace(with_database(stack.endpoints(), name), http_ports=http_ports())
    log = (addresses.kafka_bootstrap, f"{name}.") if topics else None
    _at_once(
        partial(_administer, stack, f"CREATE DATABASE {name} {of_template}"),
        log and partial(kafka.create_topics, *log),
    )
    write_private(home / ENDPOINTS_FILE, orjson.dumps(asdict(addresses)).decode())
    settings = load(**sections)
    ensure_keys(settings)
    try:
        yield Lane(name, home, settings, addresses, _environment(sections))
    finally:
        processes.stop_all(home / "run", STOP_S)
        _at_once(
            partial(_administer, stack, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)"),
            log and partial(kafka.delete_topics, *log),
        )


def _at_once(*steps: Callable[[], object] | None) -> None:
    """Take these steps at the same time, each to its end; the first error is raised."""
    with ThreadPoolExecutor() as pool:
        taken = [pool.submit(step) for step in steps if step is not None]
    for one in taken:
        one.result()


def _administer(stack: Stack, statement: str) -> None:
    with postgres.as_superuser(stack.superuser_url()) as connection:
        connection.execute(statement.encode())


def http_ports(taken: Collection[int] = ()) -> dict[str, int]:
    """A free port for each program's page, none of ``taken`` and none twice."""
    chosen: dict[str, int] = {}
    for program in programs():
        chosen[program.name] = free_port([*taken, *chosen.values()])
    return chosen


def _environment(sections: dict[str, dict[str, str]]) -> dict[str, str]:
    variables = {
        f"ODOGRAPH_{section}_{key}".upper(): value
        for section, values in sections.items()
        for key, value in values.items()
    }
    root = Path(__file__).parent.parent
    return {**os.environ, **variables, "PYTHONPATH": str(root)}
