"""Programs in empty homes, with nothing but their settings: they share what `odograph install` made."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from infra.clients import database_url
from infra.contract import downlink
from infra.settings.files import write_private
from infra.settings.settings import PREFIX
from infra.stack import kafka, postgres
from infra.stack.probes import readyz
from infra.stack.service import free_port
from infra.stack.stack import Stack
from stream_jobs.app.database import Connection, Database
from tests import forked
from tests.support import LaneProcess, eventually

pytestmark = pytest.mark.integration

PROGRAMS = {
    "bridge": ("bridge",),
    "downlink": ("downlink",),
    "jobs": ("jobs", "stream"),
    "events": ("jobs", "events"),
    "maintenance": ("maintenance",),
    "dashboard": ("dashboard",),
}
DEAD = "127.0.0.1:1"
"""An address of a cluster where nobody answers."""


class Site:
    """Settings by program: each names what it needs and no more."""

    def __init__(self, stack: Stack, folder: Path) -> None:
        found, self.name, self.folder = stack.endpoints(), f"a{uuid.uuid4().hex[:10]}", folder
        postgres.ensure_database(stack.superuser_url(), self.name)
        owner = database_url.with_name(stack.superuser_url(), self.name).replace("@", f"@{DEAD},")
        self.owner_url = owner
        self.kafka = {"KAFKA_BOOTSTRAP": f"{DEAD},{found.kafka_bootstrap}", "KAFKA_PREFIX": f"{self.name}."}
        self.mqtt = {
            "MQTT_URL": f"mqtt://{found.mqtt_host}:{found.mqtt_port}",
            "MQTT_ROOT": f"{self.name}/v1",
        }
        self.owner = {"DB_URL": owner}
        self.ingest, self.dashboard, self.dispatch = (
            {f"DB_{role}_URL".upper(): database_url.with_user(owner, f"{self.name}_{role}", "p@ss")}
            for role in ("ingest", "dashboard", "dispatch")
        )

    def environment(self, home: str, *parts: dict[str, str]) -> dict[str, str]:
        """Of a program in a home of its own."""
        given = {"PATHS_HOME": str(self.folder / home), "BRIDGE_CLIENT_ID": f"{self.name}-bridge"}
        for part in parts:
            given |= part
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(f"{PREFIX}PATHS_HOME")
        }
        root = Path(__file__).parent.parent.parent
        return kept | {f"{PREFIX}{k}": v for k, v in given.items()} | {"PYTHONPATH": str(root)}

    def run(self, *words: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """``odograph <words>`` to its end."""
        return forked.run(words, env, 120)

    @contextmanager
    def program(self, name: str, port: int, *parts: dict[str, str]) -> Iterator[LaneProcess]:
        """A program while the block runs."""
        env = self.environment(name, {"HEALTH_PORT": str(port), "DASHBOARD_PORT": str(port)}, *parts)
        log = self.folder / f"{name}.log"
        running = LaneProcess(name, forked.spawn(self.folder / "run", name, PROGRAMS[name], log, env), log)
        try:
            yield running
        finally:
            running.kill()


def test_all_of_it_is_installed_once_and_each_program_runs_by_its_own_settings(
    stack: Stack, tmp_path: Path
) -> None:
    site = Site(stack, tmp_path)
    lacking = site.run("install", env=site.environment("install", site.kafka, site.owner))
    assert (lacking.returncode, "ODOGRAPH_DB_INGEST_URL, ODOGRAPH_DB_DA" in lacking.stderr) == (2, True)
    everything = (site.kafka, site.owner, site.ingest, site.dashboard, site.dispatch)
    made = site.run("install", env=site.environment("install", *everything))
    assert made.returncode == 0, made.stderr
    assert f"created topic {site.name}.telemetry" in made.stderr
    again = site.run("install", env=site.environment("other", *everything))
    assert (again.returncode, again.stderr) == (0, "all there\n")

    jobs = (site.kafka, site.ingest, site.owner)
    needs = {
        "bridge": (site.mqtt, site.kafka),
        "downlink": (site.mqtt, site.kafka, {"DOWNLINK_KEY_FILE": str(tmp_path / "key.pem")}),
        "jobs": jobs,
        "events": (site.kafka, site.ingest),
        "maintenance": jobs,
        "dashboard": (site.dashboard,),
    }
    key, public = Ed25519PrivateKey.generate(), tmp_path / "key.pub"
    write_private(tmp_path / "key.pem", downlink.private_pem(key))
    public.write_bytes(downlink.Signer(key).public_pem())
    ports: dict[str, int] = {}
    with ExitStack() as running:
        for name, parts in needs.items():
            ports[name] = free_port(ports.values())
            running.enter_context(site.program(name, ports[name], *parts))
        for name, port in ports.items():
            eventually(lambda port=port: readyz(port) is None, 120, f"{name} is ready: {tmp_path}/{name}.log")
        words = ("simulate", "-c", "2", "--rate", "2", "--duration", "2s", "--run-id", "alone")
        verified = {"DOWNLINK_PUBLIC_KEY_FILE": str(public)}
        drive = site.run(*words, env=site.environment("simulator", site.mqtt, verified))
        assert drive.returncode == 0, drive.stderr

        def users() -> set[str]:
            with psycopg.connect(site.owner_url) as connection:
                seen = connection.execute("SELECT count(*) FROM odograph.vehicle_latest").fetchone()
                assert seen == (2,)
                query = "SELECT DISTINCT usename FROM pg_stat_activity WHERE datname = %s"
                return {user for (user,) in connection.execute(query, (site.name,))}

        assert f"{site.name}_ingest" in eventually(users, 120, "both vehicles have a row")
    kafka.delete_topics(stack.endpoints().kafka_bootstrap, f"{site.name}.")


@pytest.mark.tables
def test_a_server_that_takes_no_writes_any_more_is_left_for_the_one_that_does(database: Database) -> None:
    sessions: list[int] = []

    def work(connection: Connection) -> None:
        sessions.append(connection.info.backend_pid)
        if len(sessions) == 1:
            connection.execute("SET TRANSACTION READ ONLY")
        connection.execute("INSERT INTO odograph.consumer_offset VALUES ('somebody', 'alerts', 0, 1)")

    database.run(work)
    assert len(set(sessions)) == len(sessions) == 2
