"""Recorded drives through the whole pipeline by the recording's time, whatever the speed."""

from __future__ import annotations

import json
from dataclasses import replace
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


def test_the_same_drives_paced_and_at_max_give_the_same_of_everything(lane: Lane, tmp_path: Path) -> None:
    written(tmp_path)
    words = ("--drives", str(tmp_path), "--start", "2026-11-20T08:00", "--json")
    told = []
    # One run with the query that has nothing to find here: instant rules are of signals that no drive has.
    for name, speed, jobs in (("fast", "max", "stream,instant,events"), ("paced", "30", "stream,events")):
        asked = ("--speed", speed, "--run", name, "--jobs", jobs)
        done = lane.run("replay", *words, *asked, timeout_s=DONE_S)
        assert done.returncode == 0, done.stdout + done.stderr
        assert " 0 of " not in done.stderr
        told.append(json.loads(done.stdout)["drives"])
    for drive in told[0]:
        assert (drive["rows"], drive["bad_rows"], drive["jumps"]) == (151, 1, 5)
        assert drive["reasons"] == {"time is not %m/%d/%Y %H:%M:%S": 1, "fix out of reach": 5}
        assert drive["distance_by_trace_m"] == pytest.approx(drive["distance_by_speed_m"], rel=0.02)
        assert (drive["trips"], drive["alerts"]) == (1, 1)
    assert [drive["alerts"] for drive in told[1]] == [1, 1]

    url = with_name(lane.endpoints.db_owner_url, "odograph_run_fast")
    run = replace(runs.load(lane.home, "paced"), vehicles=())
    with databases.connected(url) as fast, databases.connected(with_name(url, run.database)) as paced:
        found = databases.compared(fast, paced, run, lambda table: table.compared)
        verdicts = {verdict.table: verdict for verdict in found}
    differing = [databases.table_line(v) for v in verdicts.values() if not v.equal]
    assert not differing
    incidents = []
    for name in ("fast", "paced"):
        with psycopg.connect(with_name(url, f"odograph_run_{name}")) as connection:
            sql = "SELECT incident_id, vehicle_id, cause, opened_at, alerts FROM serving.incident ORDER BY 1"
            incidents.append(connection.execute(sql).fetchall())
    assert incidents[0] == incidents[1]
    assert len(incidents[0]) == 2
    rows = {name: verdict.run_rows for name, verdict in verdicts.items()}
    assert (rows["vehicle_window"], rows["trip"], rows["harsh_event"], rows["alert"]) == (30, 2, 2, 2)
    assert rows["road_cell_window"] > 0
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT round(distance_m), round(known_share::numeric, 2)::float8, model, phase FROM serving.trip"
        ).fetchall()
        east = connection.execute(
            "SELECT count(*) FROM odograph.vehicle_window WHERE lon_deg > -5.8"
        ).fetchone()
    assert found == [(2_380.0, 0.96, "twizy", "provisional")] * 2
    assert east == (0,)
    assert lane.run("replay", "promote", "fast").returncode == 0
    with psycopg.connect(lane.endpoints.db_dashboard_url) as connection:
        sql = "SELECT model, vehicles, incident_no < 0 FROM serving.incident ORDER BY incident_no"
        assert connection.execute(sql).fetchall() == [("twizy", 1, True)] * 2
    assert lane.run("replay", "rollback", "fast").returncode == 0
    assert lane.run("replay", "drop", "paced").returncode == 0
