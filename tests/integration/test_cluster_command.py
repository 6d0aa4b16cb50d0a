"""``odograph cluster up``: servers of several hosts, and programs that find them; a broker and an executor
are killed under load; data outlives a stop of its servers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psycopg
import pytest

from infra.clients.health import in_background
from infra.settings.settings import Endpoints, load
from infra.stack import probes
from infra.stack.hosts import proxy
from infra.stack.processes import guarded
from infra.stack.service import HOST, free_port
from infra.stack.stack import Stack
from load_tests.drills.cluster import executors
from tests import forked
from tests.forked_site import ForkedSupervisor
from tests.integration.killing import kill
from tests.support import end_at_once, eventually

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

SIZE = ("--kafka", "2", "--mqtt", "2", "--workers", "1", "--services-only")
STARTED = ("bridge-1", "bridge-2", "jobs", "maintenance", "events", "events-2")
FRAMES = 2000
QUICK = {"ODOGRAPH_JOBS_ARCHIVE_TRIGGER_S": "2", "ODOGRAPH_JOBS_PUBLISH_S": "0"}
IN_SYNC = re.compile(r"leads \d+ partitions, (\d+) of \1 copies in sync")


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A cluster's home with its servers."""
    place = Path(tempfile.mkdtemp(prefix="odograph-cluster-"))
    with guarded(place, remove=True):
        begun = odograph(place, "cluster", "up", *SIZE)
        assert begun.returncode == 0, begun.stderr
        yield place
        end_at_once(place)


@contextlib.contextmanager
def driving(home: Path) -> Iterator[None]:
    """Some of the cluster's programs, into which a small fleet has driven."""
    stack = Stack(load(paths={"home": str(home)}), print)
    chosen = [program for program in stack.programs() if program.name in STARTED]
    ports, env = addresses(home).http_ports, {**os.environ, "ODOGRAPH_PATHS_HOME": str(home), **QUICK}
    keeper = ForkedSupervisor(home, chosen, print, env=env)
    with keeper:
        with in_background("watch", keeper.watch):
            for name in STARTED:
                eventually(lambda name=name: probes.readyz(ports[name]) is None, 300, f"{name} is ready")
            size = ("-c", "20", "--rate", "100", "--duration", f"{FRAMES / 100:g}s", "--run-id", "one")
            with ThreadPoolExecutor(1) as pool:
                drive = pool.submit(odograph, home, "simulate", *size)
                eventually(lambda: in_windows(home) > 0, 120, "the workers have taken in frames")
                broken(stack)
            assert drive.result().returncode == 0, drive.result().stderr
            yield
        kill(home, *STARTED)  # nobody needs what they would still put in order


def broken(stack: Stack) -> None:
    """What c1 and c2 do, once: a broker and an executor are killed amid the load; the broker comes back."""
    broker, found = stack.runner.find("kafka-2"), executors(stack.cluster)
    assert broker is not None
    assert found
    for pid in (broker.pid, *found):
        os.kill(pid, signal.SIGKILL)
    again = odograph(stack.home, "cluster", "up", *SIZE)
    assert again.returncode == 0, again.stderr


def odograph(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "ODOGRAPH_PATHS_HOME": str(home)}
    return forked.run(arguments, env, 300)


def addresses(home: Path) -> Endpoints:
    return Endpoints(**json.loads((home / "endpoints.json").read_text()))


def parts(home: Path) -> dict[str, dict[str, Any]]:
    found = json.loads(odograph(home, "cluster", "status", "--json").stdout)["parts"]
    return {part["name"]: part for part in found}


def in_windows(home: Path) -> int:
    with psycopg.connect(addresses(home).db_owner_url) as connection:
        found = connection.execute("SELECT coalesce(sum(frames), 0) FROM serving.vehicle_window").fetchone()
    return int(found[0]) if found else 0


def test_frames_reach_the_windows_though_a_broker_and_an_executor_are_killed_and_all_are_accounted_for(
    home: Path,
) -> None:
    with driving(home):
        eventually(lambda: in_windows(home) == FRAMES, 180, "every frame is in a window")
        audit = odograph(home, "audit", "--wait", "--json")
        assert audit.returncode == 0, audit.stderr
        assert json.loads(audit.stdout)["residual"] == 0
        eventually(lambda: IN_SYNC.fullmatch(parts(home)["kafka-2"]["role"]), 60, "its copies are in sync")
        check_roles(parts(home))
    (environment,) = home.glob("servers/spark-worker-1/environments/environment-*")  # of two executors
    assert (environment / "bin" / "python3").is_file()
    assert not [*home.glob("checkpoints/*")], "they lie on HDFS"
    assert "Unable to use shared archive" not in (home / "logs" / "jobs.log").read_text()


def check_roles(found: dict[str, dict[str, Any]]) -> None:
    servers = {
        "kafka-controller", "kafka-1", "kafka-2", "mosquitto-1", "mosquitto-2", "postgres-1", "postgres-2",
        "hdfs-name", "hdfs-data", "spark-master", "spark-worker-1",
    }  # fmt: skip
    assert {name for name, part in found.items() if part["kind"] == "service"} == servers
    assert {found[name]["state"] for name in servers} == {"ready"}
    assert found["postgres-1"]["role"].startswith("primary, standby sync, ")
    assert found["postgres-2"]["role"] == "standby"
    assert {found[name]["role"] for name in ("events", "events-2")} == {"holder, epoch 1", "standby"}
    assert found["downlink-2"]["state"] == "stopped"


def test_a_second_start_keeps_the_data_and_another_size_is_refused(home: Path) -> None:
    """Of the servers that hold windows and checkpoints; the others run on."""
    stack = Stack(load(paths={"home": str(home)}), print)
    assert stack.cluster.pair is not None
    stopped = [*stack.cluster.pair.names(), "hdfs-name"]
    assert [name for name in stopped if not stack.runner.stop(name)] == []
    other = odograph(home, "cluster", "up", "--kafka", "3")
    assert (other.returncode, "ODOGRAPH_PATHS_HOME" in other.stderr) == (2, True), other.stderr
    again = odograph(home, "up", "--services-only")
    assert again.returncode == 0, again.stderr
    assert in_windows(home) == FRAMES
    assert parts(home)["postgres-2"]["role"] == "standby"


def test_an_address_of_several_leads_to_those_that_live() -> None:
    with answering("a") as first, answering("b") as second:
        port = free_port()
        with in_background(
            "proxy", lambda stop: asyncio.run(until(stop, port, [first, second, free_port()]))
        ):
            eventually(lambda: asked(port) is not None, 10, "the proxy listens")
            assert {asked(port) for _ in range(6)} == {"a", "b"}


async def until(stop: threading.Event, port: int, targets: list[int]) -> None:
    serving = asyncio.create_task(proxy.serve(port, targets))
    while not stop.is_set():
        await asyncio.sleep(0.05)
    serving.cancel()


@contextlib.contextmanager
def answering(text: str) -> Iterator[int]:
    """A server that says ``text`` to everybody; its port."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer((HOST, 0), Answer)
    with server, in_background("answers", lambda _: server.serve_forever(0.05)):
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


def asked(port: int) -> str | None:
    try:
        with urlopen(f"http://{HOST}:{port}/", timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return None
