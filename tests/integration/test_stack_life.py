"""A small stack as a person runs it, by commands; what happens to services, and comes right again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from paho.mqtt import publish, subscribe
from pydantic import SecretStr

from infra.clients import database_url
from infra.clients.health import in_background
from infra.contract.errors import ConfigError, ServiceError
from infra.settings.sections import Db
from infra.settings.settings import Settings, endpoints, load
from infra.stack import postgres, probes
from infra.stack.processes import guarded
from infra.stack.stack import SERVICES, Stack
from infra.stack.supervisor import TICK_S, Supervisor, read_state
from tests import forked
from tests.support import eventually

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

HEAP_MB = 256
ONE_VEHICLE = """
INSERT INTO odograph.vehicle (vehicle_id, state, state_at, boot_id) VALUES ('V', 'online', now(), 1)
"""
TOPIC = "odograph.status"
RETAINED = "fault/v1/kept"


@pytest.fixture(scope="module")
def own(stack: Stack) -> Iterator[Stack]:
    """A second stack, made by `odograph up`, furnished with one row, one record and one retained message."""
    home = Path(tempfile.mkdtemp(prefix="odograph-life-"))
    paths = {"home": str(home), "cache": str(stack.settings.paths.cache)}
    small = Stack(load(paths=paths, kafka={"heap_mb": HEAP_MB}), say=lambda _: None, preferred={})
    with guarded(home, remove=True):
        first = odograph(small, "up", "--services-only")
        assert first.returncode == 0, first.stderr
        assert "applied 001_tables.sql" in first.stderr
        furnish(small.settings)
        yield small
        small.down()


def odograph(stack: Stack, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    own = {"ODOGRAPH_PATHS_HOME": str(stack.home), "ODOGRAPH_KAFKA_HEAP_MB": str(HEAP_MB)}
    return forked.run(arguments, os.environ | own | variables, 120)


def furnish(settings: Settings) -> None:
    found = endpoints(settings)
    with psycopg.connect(found.db_ingest_url) as connection:
        connection.execute(ONE_VEHICLE)
    producer = Producer({"bootstrap.servers": found.kafka_bootstrap, "acks": "all"})
    producer.produce(TOPIC, b"kept", b"V")
    assert producer.flush(20) == 0
    publish.single(RETAINED, b"kept", qos=1, retain=True, hostname=found.mqtt_host, port=found.mqtt_port)


def assert_data_is_there(stack: Stack) -> None:
    found = endpoints(stack.settings)
    with psycopg.connect(found.db_ingest_url) as connection:
        assert connection.execute("SELECT vehicle_id FROM odograph.vehicle").fetchall() == [("V",)]
    assert first_record(found.kafka_bootstrap) == b"kept"


def first_record(bootstrap: str) -> bytes | None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test"})
    try:
        consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        message = consumer.poll(30)
        assert message is not None, "no record within 30 s"
        assert message.error() is None
        return message.value()
    finally:
        consumer.close()


def test_a_committed_row_is_on_disk_when_the_server_says_so(own: Stack) -> None:
    with psycopg.connect(endpoints(own.settings).db_owner_url) as connection:
        assert connection.execute("SHOW fsync").fetchone() == ("on",)
        assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)


def test_down_stops_every_service_and_up_finds_data_and_ports_as_they_were(own: Stack) -> None:
    ports = own.ports()
    assert odograph(own, "down").stderr.strip() == "stopped: kafka, mosquitto, postgres"
    assert odograph(own, "down").stderr.strip() == "nothing ran"
    assert odograph(own, "status").returncode == 1
    with pytest.raises(ServiceError, match="odograph up"):
        endpoints(own.settings)
    for name in SERVICES:  # pid files of another time mislead nobody
        (own.home / "run" / f"{name}.pid").write_text(f"{os.getpid()}\n1\nSIGKILL\n")
    assert odograph(own, "up", "--services-only").returncode == 0
    assert own.ports() == ports
    assert_data_is_there(own)
    found = endpoints(own.settings)
    kept = subscribe.simple(RETAINED, hostname=found.mqtt_host, port=found.mqtt_port, keepalive=10)
    assert kept.payload == b"kept"


def test_up_twice_is_fine(own: Stack) -> None:
    again = odograph(own, "up", "--services-only")
    assert again.returncode == 0
    assert again.stdout == ""
    assert again.stderr.count("runs already") == 3


def test_status_shows_each_service_with_address_pid_and_memory_and_the_records_of_topics(own: Stack) -> None:
    told = json.loads(odograph(own, "status", "--json").stdout)
    parts = {part["name"]: part for part in told["parts"]}
    ports = json.loads((own.home / "ports.json").read_text())
    for name in ("postgres", "mosquitto", "kafka"):
        assert parts[name]["state"] == "ready"
        assert parts[name]["address"] == f"127.0.0.1:{ports[name]}"
        assert parts[name]["pid"] == int((own.home / "run" / f"{name}.pid").read_text().split()[0])
        assert parts[name]["memory_mb"] > 1
    assert parts["bridge"]["state"] == "stopped"
    assert (told["topics"]["odograph.telemetry"], told["topics"][TOPIC]) == (0, 1)


def test_doctor_names_what_is_wrong_and_the_next_step(own: Stack) -> None:
    found = odograph(own, "doctor", "--json")
    findings = {finding["name"]: finding for finding in json.loads(found.stdout)}
    assert found.returncode == 1
    assert {name for name, finding in findings.items() if not finding["fine"]} == {
        "supervisor",
        "bridge",
        "downlink",
        "jobs",
        "instant",
        "events",
        "maintenance",
        "dashboard",
        "watch",
    }
    assert findings["bridge"]["next_step"] == "start it: odograph up"
    assert findings["database as ingest"]["detail"].startswith("PostgreSQL 17, TimescaleDB")


def test_config_shows_what_is_in_force_and_no_secret(own: Stack) -> None:
    shown = odograph(own, "config", "--json", ODOGRAPH_DB_URL="postgresql://me:s3cret@db/odograph")
    values = json.loads(shown.stdout)
    assert values["ODOGRAPH_KAFKA_HEAP_MB"] == {"value": "256", "source": "environment"}
    assert "s3cret" not in shown.stdout + shown.stderr


def test_a_wrong_setting_is_one_line_and_exit_code_2(own: Stack) -> None:
    wrong = odograph(own, "status", ODOGRAPH_KAFKA_HEAP_MB="much")
    assert wrong.returncode == 2
    assert len(wrong.stderr.splitlines()) == 1
    assert "ODOGRAPH_KAFKA_HEAP_MB" in wrong.stderr


@pytest.mark.parametrize("name", ["mosquitto", "postgres"])
def test_a_killed_service_comes_back_with_its_data(own: Stack, name: str) -> None:
    """Kafka below, and by `up` in test_regions.py: its broker is missed for 6 s."""
    victim = own.runner.find(name)
    assert victim is not None
    others = [own.runner.find(other) for other in SERVICES if other != name]
    os.kill(victim.pid, signal.SIGKILL)
    own.up()
    assert [own.runner.find(other) for other in SERVICES if other != name] == others
    assert own.runner.find(name) not in (None, victim)
    assert_data_is_there(own)


def test_services_that_end_by_themselves_are_started_again_by_the_supervisor(own: Stack) -> None:
    said: list[str] = []
    keeper = Supervisor(own.home, [], said.append, services=own.kept, respawn=own.respawn)
    with keeper, in_background("watch", keeper.watch):
        before = {name: own.runner.find(name) for name in SERVICES}
        for victim in before.values():
            assert victim is not None
            os.kill(victim.pid, signal.SIGKILL)
        for name, victim in before.items():
            eventually(lambda n=name, v=victim: own.runner.find(n) not in (None, v), 60, f"{name} runs again")
        own.up()  # waits until they answer, starts none
        assert_data_is_there(own)
        assert {name: kept["restarts"] for name, kept in read_state(own.home).items()} == dict.fromkeys(
            SERVICES, 1
        )
        own.runner.stop("mosquitto")  # on purpose
        time.sleep(5 * TICK_S)
        assert own.runner.find("mosquitto") is None
    assert sum("started again" in text for text in said) == len(SERVICES)
    own.up()


def test_a_foreign_program_on_a_fixed_port_is_named_and_nothing_is_started(own: Stack) -> None:
    own.runner.stop("mosquitto")
    with socket.socket() as foreign:
        foreign.bind(("127.0.0.1", 0))
        foreign.listen()
        port = foreign.getsockname()[1]
        fixed = Stack(
            load(paths=own.settings.paths.model_dump(mode="json"), mqtt={"port": port}),
            say=lambda _: None,
            preferred={},
        )
        with pytest.raises(ServiceError, match=rf"port {port} .*pid {os.getpid()}.*ODOGRAPH_MQTT_PORT"):
            fixed.up()
    assert own.runner.find("mosquitto") is None
    own.up()


def test_a_kept_port_taken_by_a_foreign_program_is_given_up(own: Stack) -> None:
    own.runner.stop("mosquitto")
    with socket.socket() as foreign:
        foreign.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        foreign.bind(("127.0.0.1", own.ports()["mosquitto"]))
        foreign.listen()
        addresses = own.up()
        assert addresses.mqtt_port != foreign.getsockname()[1]
        probes.mqtt_echo(addresses.mqtt)


def test_a_failed_start_names_service_command_and_last_log_lines(own: Stack) -> None:
    own.runner.stop("postgres")
    version = own.home / "data" / "postgres" / "cluster" / "PG_VERSION"
    version.write_text("9\n")
    with pytest.raises(ServiceError) as failed:
        own.up()
    version.write_text("17\n")
    own.up()
    lines = str(failed.value).splitlines()
    assert lines[0] == "postgres ended at once"
    assert lines[1].startswith("  command: unshare ")
    assert any("incompatible with server" in line for line in lines)


def test_an_external_service_is_not_started_and_each_role_logs_in_itself(own: Stack, tmp_path: Path) -> None:
    found = endpoints(own.settings)
    roles = {"ingest_url": found.db_ingest_url, "dashboard_url": found.db_dashboard_url}
    sections = {
        "paths": {"home": str(tmp_path), "cache": str(own.settings.paths.cache)},
        "mqtt": {"url": f"mqtt://{found.mqtt_host}:{found.mqtt_port}"},
        "kafka": {"bootstrap": found.kafka_bootstrap},
    }

    def outside(**db: str) -> Stack:
        return Stack(load(**sections, db={"url": found.db_owner_url} | db), say=lambda _: None, preferred={})

    with pytest.raises(ConfigError, match=r"ODOGRAPH_DB_DISPATCH_URL .not set: odograph_dispatch"):
        outside(**roles).up()
    with pytest.raises(ConfigError, match=r"ODOGRAPH_DB_DISPATCH_URL: .* is no member of odograph_dispatch"):
        outside(**roles, dispatch_url=postgres_as(own, "stranger")).up()
    stack = outside(**roles, dispatch_url=found.db_dispatch_url + "?application_name=kept")
    addresses = stack.up()
    assert stack.embedded == ()
    with psycopg.connect(addresses.db_dispatch_url) as connection:
        shown = connection.execute("SELECT current_user, current_setting('application_name')").fetchone()
    assert shown == ("odograph_dispatch", "kept")
    assert (addresses.db_ingest_url, addresses.db_dashboard_url) == tuple(roles.values())
    assert json.loads((tmp_path / "endpoints.json").read_text())["kafka_bootstrap"] == found.kafka_bootstrap
    shutil.rmtree(tmp_path)


def test_of_an_external_database_roles_are_made_where_its_owner_may(own: Stack, tmp_path: Path) -> None:
    url = own.superuser_url()
    postgres.ensure_database(url, "outside")
    with psycopg.connect(url, autocommit=True) as superuser:
        superuser.execute("ALTER ROLE odograph_dispatch NOLOGIN")
    db = Db(url=SecretStr(database_url.with_name(url, "outside")),
            ingest_url=SecretStr(endpoints(own.settings).db_ingest_url),
            dashboard_url=SecretStr(endpoints(own.settings).db_dashboard_url))  # fmt: skip
    words = postgres.passwords(tmp_path / "secrets.json")
    postgres.ensure_logins(db, words)
    postgres.check_logins(db, words)
    with psycopg.connect(postgres.addresses(db.given(), words)["db_dispatch_url"]) as connection:
        row = connection.execute("SELECT current_user, current_setting('statement_timeout')").fetchone()
    assert row == ("odograph_dispatch", "8s")
    own.up()  # sets the passwords of its own home again


def postgres_as(own: Stack, name: str) -> str:
    """The address of a user that is no member of anything."""
    with psycopg.connect(own.superuser_url(), autocommit=True) as superuser:
        superuser.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'x'")
    return database_url.with_user(endpoints(own.settings).db_owner_url, name, "x")
