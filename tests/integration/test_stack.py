"""The real services answer, and a lane is a world of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from confluent_kafka.cimpl import NewPartitions
from psycopg import errors

from infra.clients.kafka import LogEnds, admin, producer
from infra.contract.errors import ConfigError, ServiceError
from infra.contract.topics import KAFKA_TOPICS, partition_of
from infra.settings.settings import load
from infra.sql import migrate, queries
from infra.stack import kafka, probes
from infra.stack.stack import Stack
from tests.support import Lane, eventually, open_lane

pytestmark = pytest.mark.integration

ONE_VEHICLE = """
INSERT INTO odograph.vehicle (vehicle_id, state, state_at, boot_id) VALUES ('V', 'online', now(), 1)
"""


@pytest.fixture(scope="module")
def lane(stack: Stack) -> Iterator[Lane]:
    """One for all of them: what a test makes in it has a name that no other looks for."""
    with open_lane(stack) as opened:
        yield opened


def test_mosquitto_echoes_a_message(lane: Lane) -> None:
    assert probes.mqtt_echo(lane.endpoints.mqtt).endswith("echoes")


def test_kafka_has_one_broker_in_service(lane: Lane) -> None:
    assert probes.kafka_cluster(lane.endpoints.kafka_bootstrap).endswith("1 broker")


def test_the_database_is_timescale(lane: Lane) -> None:
    assert re.fullmatch(
        r"PostgreSQL 17, TimescaleDB 2\.\d+\.\d+", probes.database(lane.endpoints.db_owner_url)
    )


def test_a_database_without_tls_is_told_from_one_with_it(lane: Lane) -> None:
    with pytest.raises(ServiceError, match="sessions are not encrypted"):
        probes.database_tls(lane.endpoints.db_owner_url)


def test_the_services_listen_on_loopback_only(stack: Stack) -> None:
    listening = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    found = {int(f[1].split(":")[1], 16): f[1].split(":")[0] for f in listening if f[3] == "0A"}
    chosen = stack.ports()
    places = {name: found.get(chosen[name]) for name in ("mosquitto", "postgres")}
    assert places == dict.fromkeys(places, "0100007F")


def test_up_on_a_running_stack_changes_nothing(stack: Stack) -> None:
    before = [stack.runner.find(name) for name in stack.embedded]
    addresses = stack.up()
    assert [stack.runner.find(name) for name in stack.embedded] == before
    assert addresses == stack.endpoints()


def test_files_with_passwords_are_for_their_owner_only(stack: Stack) -> None:
    modes = {name: (stack.home / name).stat().st_mode & 0o777 for name in ("endpoints.json", "secrets.json")}
    assert modes == {"endpoints.json": 0o600, "secrets.json": 0o600}


def test_a_home_of_before_gets_a_login_for_each_program_that_writes(stack: Stack) -> None:
    file, login = stack.home / "secrets.json", "odograph_watch"
    before = json.loads(file.read_text())
    file.write_text(json.dumps({name: word for name, word in before.items() if name != "watch"}))
    with psycopg.connect(stack.superuser_url(), autocommit=True, dbname="odograph") as superuser:
        superuser.execute(f"REVOKE {login} FROM odograph_ingest")
        superuser.execute(f"ALTER ROLE {login} NOLOGIN PASSWORD NULL")
        superuser.execute("CREATE TABLE user_sql.of_before (a integer)")
        superuser.execute("ALTER TABLE user_sql.of_before OWNER TO odograph_ingest")
    urls = stack.up().db_program_urls
    assert {name: word for name, word in json.loads(file.read_text()).items() if name != "watch"} == {
        name: word for name, word in before.items() if name != "watch"
    }
    for name, url in urls.items():
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT session_user").fetchone() == (f"odograph_{name}",)
    with psycopg.connect(urls["jobs"]) as connection:
        connection.execute("ALTER TABLE user_sql.of_before ADD b integer")  # users' SQL goes on
        connection.execute("DROP TABLE user_sql.of_before")
        query = "SELECT pg_has_role('odograph_ingest', %s, 'USAGE')"
        assert connection.execute(query, (login,)).fetchone() == (True,)


def test_no_password_stands_in_a_command_line(stack: Stack) -> None:
    secrets, commands = json.loads((stack.home / "secrets.json").read_text()).values(), b""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            commands += path.read_bytes()
    assert b"postgres" in commands
    assert [secret for secret in secrets if secret.encode() in commands] == []


def test_topics_are_created_once(lane: Lane) -> None:
    prefix = lane.settings.kafka.prefix
    assert kafka.create_topics(lane.endpoints.kafka_bootstrap, prefix) == []
    assert kafka.missing_topics(lane.endpoints.kafka_bootstrap, prefix) == []


def test_copies_that_the_settings_ask_for_and_a_topic_has_not_are_named_with_what_to_do(lane: Lane) -> None:
    bootstrap, prefix = lane.endpoints.kafka_bootstrap, lane.settings.kafka.prefix
    assert kafka.topic_faults(bootstrap, prefix, load().kafka) == []
    three = load(kafka={"replication_factor": 3}).kafka
    lacking = rf"{prefix}telemetry has 1 of 3 copies: ODOGRAPH_KAFKA_REPLICATION_FACTOR .*kafka-reassign-part"
    assert re.search(lacking, "; ".join(kafka.topic_faults(bootstrap, prefix, three)))
    with pytest.raises(ServiceError, match=lacking):
        kafka.create_topics(bootstrap, prefix, three)
    assert kafka.topic_faults(bootstrap, prefix, load().kafka) == []  # and no topic waits for a second copy
    with pytest.raises(ServiceError, match=r"x\.telemetry cannot be created: .*ODOGRAPH_KAFKA_REPLICATION_F"):
        kafka.create_topics(bootstrap, f"{prefix}x.", three)


def test_the_partitions_of_a_topic_are_asked_of_the_cluster(lane: Lane) -> None:
    bootstrap, prefix = lane.endpoints.kafka_bootstrap, f"{lane.settings.kafka.prefix}wide."
    kafka.create_topics(bootstrap, prefix, load(kafka={"partitions": 6}).kafka)
    (few,) = kafka.topic_faults(bootstrap, prefix, load(kafka={"partitions": 7}).kafka)
    assert few.startswith(
        f"{prefix}telemetry has 6 of 7 partitions (ODOGRAPH_KAFKA_PARTITIONS): give it more"
    )
    with LogEnds(bootstrap, prefix) as log:
        assert log.ends("telemetry") == dict.fromkeys(range(6), 0)
        client = admin(bootstrap)
        more = NewPartitions(f"{prefix}telemetry", 12)
        client.create_partitions([more])[f"{prefix}telemetry"].result(30)
        last = next(f"{n}".encode() for n in range(1000) if partition_of(f"{n}".encode(), 12) == 11)
        writer = producer(bootstrap)

        def grown() -> bool:
            writer.produce(f"{prefix}telemetry", b"", last)
            assert writer.flush(10) == 0
            return log.ends("telemetry").get(11, 0) > 0

        assert eventually(grown, 30, "the twelfth partition counts")
        assert log.appended("telemetry") == sum(log.ends("telemetry").values()) > 0
    kafka.delete_topics(bootstrap, prefix)


def test_a_lane_is_empty_has_database_and_topics_of_its_own_and_no_other_sees_them(
    stack: Stack, lane: Lane
) -> None:
    with open_lane(stack) as other:
        with psycopg.connect(other.endpoints.db_owner_url) as connection:
            assert connection.execute("SELECT current_database()").fetchone() == (other.name,)
            assert connection.execute("SELECT count(*) FROM odograph.vehicle").fetchone() == (0,)
            connection.execute(ONE_VEHICLE)
        with psycopg.connect(lane.endpoints.db_owner_url) as connection:
            assert connection.execute("SELECT count(*) FROM odograph.vehicle").fetchone() == (0,)
        topics = admin(other.endpoints.kafka_bootstrap).list_topics(timeout=10).topics
        found = {name: len(t.partitions) for name, t in topics.items() if name.startswith(other.name)}
        assert found == {f"{other.name}.{t.name}": t.partitions for t in KAFKA_TOPICS}
        counts = kafka.records_by_topic(other.endpoints.kafka_bootstrap, other.settings.kafka.prefix)
        assert counts == {f"{other.name}.{t.name}": 0 for t in KAFKA_TOPICS}


def test_the_dashboard_reads_views_and_nothing_else(lane: Lane) -> None:
    with psycopg.connect(lane.endpoints.db_dashboard_url, autocommit=True) as connection:
        assert connection.execute("SELECT count(*) FROM serving.fleet_latest").fetchone() == (0,)
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute("SELECT count(*) FROM odograph.vehicle")


def test_the_dashboard_cannot_write_even_when_it_lifts_its_own_limit(lane: Lane) -> None:
    insert = "INSERT INTO odograph.dead_letter VALUES (0, 0, 'x', NULL, NULL, NULL, now(), 0)"
    with psycopg.connect(lane.endpoints.db_dashboard_url, autocommit=True) as connection:
        with pytest.raises(errors.ReadOnlySqlTransaction):
            connection.execute("CREATE TEMP TABLE mine (a integer)")
        connection.execute("SET default_transaction_read_only = off")
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute(insert)


def test_the_dashboard_cannot_hold_the_database_for_long(lane: Lane) -> None:
    with psycopg.connect(lane.endpoints.db_dashboard_url) as connection:
        assert connection.execute("SHOW statement_timeout").fetchone() == ("15s",)


def test_the_jobs_write_rows_but_change_no_table(lane: Lane) -> None:
    with psycopg.connect(lane.endpoints.db_ingest_url, autocommit=True) as connection:
        connection.execute("CREATE TEMP TABLE staging (LIKE odograph.vehicle)")
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute("DROP TABLE odograph.vehicle")


def test_migrations_that_are_in_are_not_applied_again(lane: Lane) -> None:
    assert migrate.migrate(lane.endpoints.db_owner_url) == []
    assert migrate.pending(lane.endpoints.db_owner_url) == []


def test_a_file_changed_after_it_was_applied_is_refused(lane: Lane, tmp_path: Path) -> None:
    file = tmp_path / "900_more.sql"
    file.write_text("CREATE TABLE odograph.more (a integer)")
    assert migrate.migrate(lane.endpoints.db_owner_url, tmp_path) == ["900_more.sql"]
    file.write_text("CREATE TABLE odograph.more (a bigint)")
    with pytest.raises(ConfigError, match=r"900_more\.sql changed after it was applied"):
        migrate.migrate(lane.endpoints.db_owner_url, tmp_path)


def test_a_file_that_fails_leaves_nothing_behind(lane: Lane, tmp_path: Path) -> None:
    (tmp_path / "901_half.sql").write_text("CREATE TABLE odograph.half (a integer); SELECT 1/0")
    with pytest.raises(ServiceError, match=r"901_half\.sql: division by zero"):
        migrate.migrate(lane.endpoints.db_owner_url, tmp_path)
    with psycopg.connect(lane.endpoints.db_owner_url) as connection:
        assert connection.execute("SELECT to_regclass('odograph.half')").fetchone() == (None,)


def test_who_restates_windows_may_decompress_as_many_rows_as_it_takes(lane: Lane) -> None:
    for url in (lane.endpoints.db_ingest_url, lane.endpoints.db_owner_url):
        with psycopg.connect(url) as connection:
            setting = "SHOW timescaledb.max_tuples_decompressed_per_dml_transaction"
            assert connection.execute(setting).fetchone() == ("0",)


def test_continuous_aggregates_are_left_alone_in_the_apache_edition(lane: Lane) -> None:
    span = (datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 3, tzinfo=UTC))
    assert queries.refresh(lane.endpoints.db_owner_url, *span, 60) == 0
    with psycopg.connect(lane.endpoints.db_owner_url, autocommit=True) as connection:
        connection.execute("CREATE VIEW odograph.stand_in AS SELECT 1 AS n")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="not supported under the current"):
            connection.execute(queries.SQL["refresh"], ("odograph.stand_in", *span))


def test_community_files_wait_for_the_community_edition(lane: Lane, tmp_path: Path) -> None:
    (tmp_path / "902_policies.community.sql").write_text("CREATE TABLE odograph.policies (a integer)")
    with psycopg.connect(lane.endpoints.db_owner_url) as connection:
        licensed = migrate.license_of(connection) == "timescale"
    applied = migrate.migrate(lane.endpoints.db_owner_url, tmp_path)
    assert applied == (["902_policies.community.sql"] if licensed else [])
