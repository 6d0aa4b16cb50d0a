"""The update of cohorts on a real database: closed minutes are judged, each once, whatever is killed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from infra.contract.messages import decode_alert
from infra.settings.sections import Cohort
from stream_jobs.app.database import Database
from stream_jobs.maintenance.rollups import roll_up_changes
from stream_jobs.rules.cohort.update import CohortUpdate
from tests.integration.rollup_support import insert_bucket
from tests.integration.stream_support import query
from tests.support import Lane
from tests.support_frames import vin

pytestmark = [pytest.mark.integration, pytest.mark.tables]

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
HOT_FROM_MIN = 10
WAIT_S = 35.0


def insert_minutes(lane: Lane, vehicles: int) -> None:
    """25 minutes of vans of which the first is 12 degC hotter than the others from minute 10 on."""
    running = {"rpm_mean": 1500, "rpm_n": 10, "engine_load_mean_pct": 30, "engine_load_n": 10}
    with psycopg.connect(lane.endpoints.db_owner_url) as connection:
        for number in range(1, vehicles + 1):
            connection.execute(
                "INSERT INTO odograph.vehicle VALUES (%s, 'van', 'diesel', 'van', 'online', %s, 1)",
                [vin(number), BEGIN],
            )
            for minute in range(25):
                hot = 12 if number == 1 and minute >= HOT_FROM_MIN else 0
                values = running | {"coolant_mean_c": 88.5 + number % 3 + hot, "coolant_n": 10}
                at = BEGIN + timedelta(minutes=minute)
                insert_bucket(connection, "vehicle_minute", at, number, ambient_mean_c=30, **values)


def close_until(lane: Lane, minute: int) -> None:
    """The query telemetry says that nothing before this minute is open any more."""
    with psycopg.connect(lane.endpoints.db_owner_url) as connection:
        connection.execute(
            "INSERT INTO odograph.query_progress (query, at, query_id, batch_id, input_rows, watermark)"
            " VALUES ('telemetry', now(), gen_random_uuid(), 0, 1, %s)",
            [BEGIN + timedelta(minutes=minute, seconds=3 + WAIT_S)],
        )


class Topic:
    """Where the update puts its findings; it may fail after it has taken them."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.rules: list[str] = []
        self.fails = False

    def write(self, records: Sequence[tuple[str, bytes]]) -> None:
        found = [decode_alert(value) for _, value in records]
        self.ids += [alert["alert_id"] for alert in found]
        self.rules += [
            f"{alert['rule']} {key == vin(1)}" for alert, (key, _) in zip(found, records, strict=True)
        ]
        if self.fails:
            raise RuntimeError("killed between Kafka and the database")


def test_closed_minutes_are_judged_once_and_again_with_the_same_ids_after_a_crash_in_between(
    lane: Lane, database: Database
) -> None:
    insert_minutes(lane, vehicles=8)
    topic = Topic()
    update = CohortUpdate(Cohort(), database, topic.write, WAIT_S)
    assert update() == 0
    close_until(lane, 14)
    assert (update(), update()) == (0, 0)
    close_until(lane, 26)
    topic.fails = True
    with pytest.raises(RuntimeError, match="killed"):
        update()
    topic.fails = False
    assert CohortUpdate(Cohort(), database, topic.write, WAIT_S)() == 2
    assert update() == 0
    assert topic.rules == ["cohort_coolant True"] * 4
    assert topic.ids[:2] == topic.ids[2:]

    sql = f"SELECT * FROM serving.cohort_residual WHERE vehicle_id = '{vin(1)}' ORDER BY bucket"
    found = query(lane, sql)
    assert [(row["bucket"] - BEGIN, row["streak"], row["raised"]) for row in found] == [
        (timedelta(minutes=10), 1, False),
        (timedelta(minutes=15), 2, True),
        (timedelta(minutes=20), 3, True),
    ]
    usual = {"value": 101.5, "median": 89.5, "scale": 2.0, "z": 6.0, "limit_high": 97.5, "others": 7}
    assert {key: found[0][key] for key in usual} == usual
    assert query(lane, "SELECT done_until FROM odograph.cohort_progress") == [
        {"done_until": BEGIN + timedelta(minutes=25)}
    ]


def test_what_is_not_rolled_up_yet_waits(lane: Lane, database: Database) -> None:
    insert_minutes(lane, vehicles=7)
    close_until(lane, 25)
    with psycopg.connect(lane.endpoints.db_owner_url) as connection:
        connection.execute(
            "INSERT INTO odograph.window_change (minute, vehicles) VALUES (%s, %s)",
            [BEGIN + timedelta(minutes=17), [vin(1)]],
        )
    topic = Topic()
    update = CohortUpdate(Cohort(), database, topic.write, WAIT_S)
    assert (update(), update()) == (0, 0)
    roll_up_changes(database, "UTC")
    assert update() == 2
