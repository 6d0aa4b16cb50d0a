"""The dashboard's way to a real TimescaleDB: empty, read only, broken, standing still."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from urllib.parse import urlsplit

import psycopg
import pytest

from dashboard import db
from dashboard.db import Connection, Database, SlowError, query
from dashboard.screens.crashes import queries as crash_queries
from dashboard.screens.fleet import queries as fleet_queries
from dashboard.screens.operations import queries as operations_queries
from dashboard.screens.vehicle import queries as vehicle_queries
from dashboard.shared import queries as shared_queries
from infra.contract.errors import ServiceError
from infra.sql import tenants
from infra.stack.stack import Stack
from load_tests.drills.link import Link
from tests.integration.dashboard_support import reading
from tests.rows.town import vehicle_id
from tests.support import Lane, eventually, open_lane

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def lane(stack: Stack) -> Iterator[Lane]:
    """An empty database: no test of this module writes a row."""
    with open_lane(stack, topics=False) as opened:
        yield opened


def test_an_empty_database_answers_every_query_with_nothing_known(lane: Lane) -> None:
    with reading(lane) as connection:
        check_nothing_known(connection)


def check_nothing_known(connection: Connection) -> None:
    fresh = shared_queries.freshness(connection).iloc[0]
    assert fresh["data_as_of"] is None
    assert fresh["watermark"] is None
    figures = fleet_queries.fleet_figures(connection).iloc[0]
    assert (figures["vehicles"], figures["frames_per_s"]) == (0, None)
    assert shared_queries.road_networks(connection).iloc[0]["version"] is None
    start, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    empty = [
        fleet_queries.fleet_latest(connection),
        fleet_queries.fleet_hour(connection),
        shared_queries.road_edges(connection),
        fleet_queries.road_cells(connection),
        shared_queries.alerts(connection),
        shared_queries.vehicle(connection, vehicle_id(0)),
        vehicle_queries.vehicle_extent(connection, vehicle_id(0)),
        vehicle_queries.history(10)(connection, vehicle_id(0), start, end, 10, "UTC"),
        vehicle_queries.vehicle_trace(connection, vehicle_id(0), start, end),
        crash_queries.crash_list(connection, vehicle_id(0), None),
        operations_queries.queries_now(connection),
        operations_queries.queries_history(connection),
        operations_queries.rejected(connection),
        operations_queries.alert_latency(connection),
    ]
    assert [len(frame) for frame in empty] == [0] * len(empty)


def test_the_dashboard_can_not_write(lane: Lane) -> None:
    database = Database(lambda: lane.endpoints.db_dashboard_url)
    with pytest.raises(ServiceError, match="refused"), database.connection() as connection:
        connection.execute("CREATE TABLE public.mine (n integer)")
    with pytest.raises(ServiceError, match="refused"), database.connection() as connection:
        connection.execute("SELECT * FROM odograph.vehicle_latest")
    database.close()


def test_before_the_first_fleet_its_readers_are_told_so(lane: Lane) -> None:
    database = Database(lambda: lane.endpoints.db_dashboard_url, tenant=tenants.session_of(["north"]))
    for asked in (shared_queries.freshness, operations_queries.watermark_defence):  # a view, a function
        with pytest.raises(ServiceError, match="no fleet has been set yet"), database.connection() as opened:
            asked(opened)
    database.close()


def test_a_connection_that_broke_while_idle_is_replaced(lane: Lane) -> None:
    database = Database(lambda: lane.endpoints.db_dashboard_url)
    with database.connection() as connection:
        broken = connection.info.backend_pid
    with psycopg.connect(lane.endpoints.db_dashboard_url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", (broken,))
    with database.connection() as connection:
        assert len(fleet_queries.fleet_latest(connection)) == 0
        assert connection.info.backend_pid != broken
    database.close()


def test_a_database_that_accepts_and_never_answers_is_away_after_the_client_s_own_limit(lane: Lane) -> None:
    address = urlsplit(lane.endpoints.db_dashboard_url)
    with Link(str(address.hostname), int(address.port or 0)) as link:
        url = lane.endpoints.db_dashboard_url.replace(f":{address.port}/", f":{link.port}/")
        database = Database(lambda: url, answer_s=0.2)
        with pytest.raises(ServiceError, match=r"did not answer for 0\.2 s"), database.connection() as asked:
            stalled(link, asked)
        with pytest.raises(ServiceError, match="is away"), database.connection():
            pass
        link.heal()
        eventually(lambda: answers(database), 60, "an answer")
        database.close()


def test_a_question_that_takes_too_long_is_given_up_over_a_connection_that_is_used_again(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(db, "STATEMENT_S", 0.2)
    database = Database(lambda: lane.endpoints.db_dashboard_url)
    with database.connection() as connection:
        used = connection.info.backend_pid
    with pytest.raises(SlowError, match="slow took too long"):
        database.run(query("slow", "SELECT pg_sleep(60)"))
    with database.connection() as connection:
        assert connection.info.backend_pid == used
    database.close()


def stalled(link: Link, connection: Connection) -> None:
    """A question to a database that stands still from now on."""
    link.stall()
    fleet_queries.fleet_latest(connection)


def answers(database: Database) -> bool:
    """Whether a question is answered."""
    try:
        with database.connection() as connection:
            return len(fleet_queries.fleet_latest(connection)) == 0
    except ServiceError:
        return False
