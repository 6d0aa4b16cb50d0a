"""Promotion of runs on a real database: what serving reads, and that it reads as before once rolled back."""

from __future__ import annotations

import re
import shutil
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from infra.clients.database_url import with_name
from infra.clients.db import Connection
from infra.contract.errors import ConfigError
from infra.sql import tenants
from infra.sql.migrate import FOLDER, migrate
from stream_jobs.replay import databases, promote
from stream_jobs.replay.databases import TABLES, Verdict, compare, connected, keep
from stream_jobs.replay.runs import Run
from tests.integration.promotion_support import (
    alert,
    database_of,
    definitions,
    fleet_minute,
    hour,
    metres,
    read,
    run_of,
    windows,
)
from tests.support import Lane
from tests.support_frames import vin

pytestmark = [pytest.mark.integration, pytest.mark.tables]

RENAMES = "045_names.sql"


def test_two_runs_are_promoted_over_each_other_and_rolled_back_to_what_was(lane: Lane) -> None:
    first = run_of(f"a{uuid.uuid4().hex[:8]}", hour(0), 3)
    second = run_of(f"b{uuid.uuid4().hex[:8]}", hour(2), 3, (vin(1),))
    with (
        connected(lane.endpoints.db_owner_url) as live,
        database_of(lane, first) as one,
        database_of(lane, second) as two,
    ):
        for vehicle in (1, 2):
            windows(live, vehicle, [hour(h) for h in range(5)], 1.0)
            windows(one, vehicle, [hour(h) for h in range(5)], 2.0)
            windows(two, vehicle, [hour(h) for h in range(5)], 3.0)
        for connection, frames in ((live, 10), (one, 20), (two, 30)):
            fleet_minute(connection, [hour(h) for h in range(5)], frames)
        alert(live, 1, "old", hour(1))
        alert(live, 1, "later", hour(4))
        alert(one, 1, "new", hour(1))
        before = definitions(live)
        tenants.give(lane.endpoints.db_owner_url, "north", [vin(2)])
        own = [(2, h, 2.0 if h < 3 else 1.0) for h in range(5)]

        assert promote.promote(live, one, first) == 11  # 6 windows, 3 minutes, an alert and its change
        assert metres(lane) == [(v, h, 2.0 if h < 3 else 1.0) for v in (1, 2) for h in range(5)]
        fleet = "SELECT array_agg(frames ORDER BY minute) FROM serving.fleet_trend"
        assert read(lane, fleet) == [([20, 20, 20, 10, 10],)]
        assert metres(lane, "north") == own  # who sees a fleet reads the run as well
        alerts = "SELECT rule, alert_no < 0 FROM serving.alert_life ORDER BY 1"
        assert read(lane, alerts) == [("later", False), ("new", True)]
        changes = "SELECT rule, change FROM serving.alert_change ORDER BY 1"
        assert read(lane, changes) == [("later", "opened"), ("new", "opened")]

        promote.copy_in(live, two, second)  # and the process was killed: nobody sees it
        assert metres(lane) == [(v, h, 2.0 if h < 3 else 1.0) for v in (1, 2) for h in range(5)]
        # As if an older version had copied it, which knew no incidents: what it lacks is added.
        live.execute(
            f"DROP TABLE {second.schema}.incident; ALTER TABLE {second.schema}.alert DROP incident_no"
        )
        assert promote.promote(live, two, second) == 0
        expected = [(1, h, 3.0 if h >= 2 else 2.0) for h in range(5)]
        expected += [(2, h, 2.0 if h < 3 else 1.0) for h in range(5)]
        assert metres(lane) == expected
        assert read(lane, fleet) == [([20, 20, 20, 10, 10],)]  # of some vehicles: nothing of the fleet
        reading = "SELECT run_id, vehicles FROM serving.reading ORDER BY promoted_at"
        assert read(lane, reading) == [(first.run_id, None), (second.run_id, [vin(1)])]
        with pytest.raises(ConfigError, match="is read now"):
            promote.forget(live, first)

        promote.rollback(live, first.run_id)
        assert metres(lane) == [(v, h, 3.0 if v == 1 and h >= 2 else 1.0) for v in (1, 2) for h in range(5)]
        promote.rollback(live, second.run_id)
        assert metres(lane, "north") == [(2, h, 1.0) for h in range(5)]
        assert metres(lane) == [(v, h, 1.0) for v in (1, 2) for h in range(5)]
        assert definitions(live) == before
        promote.promote(live, one, first)  # its rows are still there
        assert metres(lane)[0] == (1, 0, 2.0)
        promote.rollback(live, first.run_id)
        promote.forget(live, first)
        schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = %s"
        assert live.execute(schemas, (first.schema,)).fetchone() == (0,)


def test_the_first_row_that_differs_is_named_with_both_values(lane: Lane) -> None:
    run = run_of(f"c{uuid.uuid4().hex[:8]}", hour(0), 3)
    table = TABLES[0]
    values = run.parameters()
    with connected(lane.endpoints.db_owner_url) as live, database_of(lane, run) as own:
        for connection in (live, own):
            windows(connection, 1, [hour(h) for h in range(5)], 1.0)
        assert compare(live, own, table, values).equal
        own.execute("UPDATE odograph.vehicle_window SET batch_id = 7, revision = 2, restated_at = now()")
        windows(own, 1, [hour(6)], 5.0)  # beyond its span
        assert compare(live, own, table, values).equal

        own.execute(
            "UPDATE odograph.vehicle_window SET distance_m = 1.25 WHERE window_start = %s", (hour(1),)
        )
        own.execute("DELETE FROM odograph.vehicle_window WHERE window_start = %s", (hour(2),))
        found = compare(live, own, table, values)
        assert (found.live_rows, found.run_rows, found.slices, found.slices_differing) == (3, 2, 3, 2)
        assert found.rows_differing == 2
        assert found.by_column == {"distance_m": 1, "(row missing)": 1}
        assert found.first is not None
        assert found.first.text() == (
            f"vehicle_window (vehicle_id={vin(1)}, window_start=2026-11-20T01:00:00+00:00): "
            "distance_m is live 1.0, run 1.25"
        )
        check_verdicts(lane, live, run, found)


def check_verdicts(lane: Lane, live: Connection, run: Run, found: Verdict) -> None:
    """The dashboard reads the last comparison of a run, until the run is dropped."""
    keep(live, run, [replace(found, slices_differing=0, first=None)])
    keep(live, run, [found])
    kept = "SELECT run_id, table_name, equal, run_rows, by_column, first_difference, read_by_serving "
    kept += "FROM serving.replay_verdict"
    assert found.first is not None
    columns = {"distance_m": 1, "(row missing)": 1}
    expected = (run.run_id, "vehicle_window", False, 2, columns, found.first.text(), "not promoted")
    assert read(lane, kept) == [expected]
    promote.forget(live, run)
    assert read(lane, kept) == []


def test_a_run_promoted_before_its_objects_were_renamed_is_read_on_and_rolled_back(
    lane: Lane, tmp_path: Path
) -> None:
    for path in FOLDER.glob("*.sql"):
        if path.name < RENAMES:
            shutil.copy(path, tmp_path)
    owner_url, name = lane.endpoints.db_owner_url, f"names_{uuid.uuid4().hex[:8]}"
    with connected(owner_url) as live:
        live.execute(f"CREATE DATABASE {name} TEMPLATE template0")
    url = with_name(owner_url, name)
    migrate(url, tmp_path)
    metres = "SELECT distance_m FROM serving.vehicle_window"
    with connected(url) as old:
        before = definitions(old)
        windows(old, 1, [hour(0)], 1.0)
        old.execute(
            "INSERT INTO odograph.journey_behind (vehicle_id, from_time, to_time, received_at, frames) "
            "VALUES ('v', now(), now(), now(), 3)"
        )
        promoted_as_before(old)
        assert old.execute(metres).fetchall() == [(2.0,)]
    shutil.copy(FOLDER / RENAMES, tmp_path)
    assert RENAMES in migrate(url, tmp_path)  # what comes later changes other views
    with connected(url) as new:
        assert new.execute(metres).fetchall() == [(2.0,)]
        assert not [name for _, name, text in definitions(new) if "reading." in text]
        assert new.execute("SELECT frames FROM odograph.late_vehicle_frames").fetchall() == [(3,)]
        assert new.execute("SELECT orphaned FROM serving.recompute_run").fetchall() == []
        promote.rollback(new, "old")
        assert new.execute(metres).fetchall() == [(1.0,)]
        left = [text.replace("unfounded", "orphaned") for *_, text in before]
        assert [text.replace("unfounded AS orphaned", "orphaned") for *_, text in definitions(new)] == left
    databases.drop(owner_url, name)


def promoted_as_before(old: Connection) -> None:
    """A promoted run whose distances are twice the live ones, by the names of then."""
    old.execute(
        "INSERT INTO odograph.replay_run (run_id, since, until, changed, state, promoted_at) "
        "VALUES ('old', now(), now() + interval '1 day', '', 'promoted', now())"
    )
    with old.transaction():
        old.execute("SET LOCAL search_path = pg_catalog")
        known = [table for table in TABLES if not table.name.startswith("incident")]  # those came later
        for table in known:
            columns = databases.names(old, table.name)
            doubled = ", ".join(f"{c} * 2 AS {c}" if c == "distance_m" else c for c in columns)
            old.execute(f"CREATE VIEW reading.{table.name} AS SELECT {doubled} FROM odograph.{table.name}")
        listed = "|".join(table.name for table in known)
        kept = {}
        for kind, name, before in definitions(old):
            after = re.sub(rf"\bodograph\.({listed})\b(?!_)", r"reading.\1", before)
            if after != before:
                old.execute(after)
                kept[kind, name] = before
        texts = {(kind, name): text for kind, name, text in definitions(old)}
        for (kind, name), before in kept.items():
            row = (kind, name, before, texts[kind, name])
            old.execute("INSERT INTO odograph.reading_before VALUES (%s, %s, %s, %s)", row)
