"""Recorded drives through the whole pipeline by the recording's time, as fast as it goes."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest

from infra.clients.database_url import with_name
from stream_jobs.replay import databases, runs
from tests.support import Lane

pytestmark = pytest.mark.slow

DONE_S = 400.0
HEADER = "Date,Time,Soc,Speed,Mode,LAT,LON,ALT,GpsSpeed,Temperature,SpeedLimit"
SECONDS = 150
JUMPED = range(60, 65)
"""Rows whose fixes lie a degree further east."""


def written(folder: Path) -> None:
    """Two drives: 36 km/h, 72 where 40 are allowed, and a stop within 2 s."""
    for number in range(2):
        metres, lines = 0.0, [HEADER]
        for k in range(SECONDS):
            kmh = 0 if k >= 140 else 36 if k < 40 else {138: 54, 139: 18}.get(k, 72)
            metres += kmh / 3.6
            lon = -6.7 + number / 10 + (k in JUMPED)
            fix = f"{34 + metres / 110_925:.6f},{lon:.6f}"
            at = f"03/29/2021,11:{k // 60:02}:{k % 60:02}"
            lines.append(f"{at},87.5,{kmh},D,{fix},140,{kmh},20,40")
        lines.insert(30, "03/29/2021,late,87.5,36,D,34,-6.7,140,36,20,40")
        (folder / f"drive{number}.csv").write_text("\n".join(lines) + "\n")


def test_drives_at_max_give_the_windows_trips_events_and_alerts_of_what_was_driven(
    lane: Lane, tmp_path: Path
) -> None:
    """That a run by the clock of its records gives the same is shown in test_stream_jobs.py."""
    written(tmp_path)
    words = ("--drives", str(tmp_path), "--start", "2026-11-20T08:00", "--run", "fast", "--json")
    done = lane.run("replay", *words, "--jobs", "stream,instant,events", timeout_s=DONE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 of " not in done.stderr
    for drive in json.loads(done.stdout)["drives"]:
        assert (drive["rows"], drive["bad_rows"], drive["jumps"]) == (151, 1, 5)
        assert drive["reasons"] == {"time is not %m/%d/%Y %H:%M:%S": 1, "fix out of reach": 5}
        assert drive["distance_by_trace_m"] == pytest.approx(drive["distance_by_speed_m"], rel=0.02)
        assert (drive["trips"], drive["alerts"]) == (1, 1)

    run = runs.load(lane.home, "fast")
    with psycopg.connect(with_name(lane.endpoints.db_owner_url, run.database)) as connection:
        rows = dict[str, int]()
        for table in filter(lambda table: table.compared, databases.TABLES):
            counted = f"SELECT count(*) FROM odograph.{table.name} WHERE {databases.within(table)}"
            (rows[table.name],) = connection.execute(counted.encode(), run.parameters()).fetchone() or (0,)
        found = connection.execute(
            "SELECT round(distance_m), round(known_share::numeric, 2)::float8, model, phase FROM serving.trip"
        ).fetchall()
        east = connection.execute(
            "SELECT count(*) FROM odograph.vehicle_window WHERE lon_deg > -5.8"
        ).fetchone()
        incidents = connection.execute("SELECT count(*) FROM serving.incident").fetchone()
    assert (rows["vehicle_window"], rows["trip"], rows["harsh_event"], rows["alert"]) == (30, 2, 2, 2)
    assert rows["road_cell_window"] > 0
    assert found == [(2_380.0, 0.96, "twizy", "provisional")] * 2
    assert (east, incidents) == ((0,), (2,))
    assert lane.run("replay", "promote", "fast").returncode == 0
    with psycopg.connect(lane.endpoints.db_dashboard_url) as connection:
        sql = "SELECT model, vehicles, incident_no < 0 FROM serving.incident ORDER BY incident_no"
        assert connection.execute(sql).fetchall() == [("twizy", 1, True)] * 2
    assert lane.run("replay", "rollback", "fast").returncode == 0
    assert lane.run("replay", "drop", "fast").returncode == 0
