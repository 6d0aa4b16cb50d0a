"""Traffic in the database: windows by five minutes, free flow, profile, bands and where they come from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from infra.sql.queries import store_roads
from stream_jobs.app.database import Database, execute, insert_rows
from stream_jobs.app.sinks import EDGE, ROAD, write_rows
from stream_jobs.app.statements import Table
from stream_jobs.roads import network
from stream_jobs.roads.history import (
    RULE,
    Forecast,
    NetworkFile,
    ask_for,
    grade,
    history,
    place_stops,
    predict_open,
    rule_of,
    sum_due,
)
from tests.integration.stream_support import query
from tests.support import Lane
from tests.support_frames import vin

pytestmark = [pytest.mark.integration, pytest.mark.tables]

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)
CELL = "891f8d7a49bffff"
Row = dict[str, Any]


def window(at: datetime, speed_kmh: float, vehicles: int, **key: Any) -> Row:
    """A minute in which ``vehicles`` of their own spend 60 s together."""
    bits = sum(1 << (at.minute * 7 + k) % 63 for k in range(vehicles))
    return {
        **key, "window_start": at, "window_s": 60, "vehicles": vehicles, "vehicle_bits": bits, "samples": 60,
        "distance_m": speed_kmh / 3.6 * 60, "time_s": 60.0, "speed_kmh": speed_kmh,
    }  # fmt: skip


def write(database: Database, table: Table, rows: list[Row]) -> None:
    staged = pa.Table.from_pylist(rows)
    database.run(lambda c: write_rows(c, table, staged, 1))


def compute(lane: Lane, database: Database, until: datetime) -> None:
    while database.run(sum_due):
        pass
    database.run(lambda c: execute(c, RULE, rule_of(lane.settings)))
    for statement, values in history(lane.settings, until):
        database.run(partial(execute, statement=statement, parameters=values))


def test_traffic_is_live_with_three_vehicles_else_as_usual_and_judged_by_off_peak_free_flow(
    lane: Lane, database: Database
) -> None:
    street = [(48.0, 11.0), (48.0, 11.01)]
    both = [(7, "arterial", 60.0, 1000.0, street), (8, "arterial", 60.0, 1000.0, street[::-1])]
    store_roads(lane.endpoints.db_ingest_url, "town", both)
    number = query(lane, "SELECT network_no FROM odograph.road_network")[0]["network_no"]
    cell, edge = {"cell": CELL, "heading_sector": 1}, {"network_no": number, "edge_id": 7}
    off_peak = [MONDAY + timedelta(hours=10, minutes=5 * k) for k in range(20)]
    rush = [MONDAY + timedelta(hours=8, minutes=k) for k in range(5)]
    for table, key in ((ROAD, cell), (EDGE, edge)):
        write(database, table, [window(at, 30.0 + k, 1, **key) for k, at in enumerate(off_peak)])
        write(database, table, [window(at, 20.0, 1, **key) for at in rush])
    write(database, EDGE, [window(rush[0], 3.0, 9, network_no=number, edge_id=-1)])
    compute(lane, database, MONDAY + timedelta(days=1))

    later = MONDAY + timedelta(days=7, hours=8, minutes=4, seconds=30)
    sql = "SELECT * FROM serving.road_cell_at(%s)"
    [usual] = query(lane, sql, later)
    assert (usual["source"], usual["speed_kmh"], usual["vehicles"]) == ("profile", pytest.approx(20.0), 0)
    assert usual["free_flow_kmh"] == pytest.approx(30 + 0.85 * 19)
    assert usual["free_flow_off_peak"]
    assert usual["congestion"] == "severe"
    assert query(lane, sql, MONDAY + timedelta(days=7, hours=3)) == []

    day_later = MONDAY + timedelta(days=7, hours=8)
    write(database, ROAD, [window(day_later + timedelta(minutes=k), 30.0, 1, **cell) for k in (0, 1)])
    write(database, EDGE, [window(day_later + timedelta(minutes=k), 30.0, 1, **edge) for k in (0, 1)])
    assert [r["source"] for r in query(lane, sql, later)] == ["profile"]
    write(database, ROAD, [window(day_later + timedelta(minutes=4), 60.0, 1, **cell)])
    write(database, EDGE, [window(day_later + timedelta(minutes=4), 60.0, 1, **edge)])
    [live] = query(lane, sql, later)
    assert (live["source"], live["vehicles"], live["speed_kmh"]) == ("live", 3, pytest.approx(40.0))
    assert live["travel_time_index"] == pytest.approx((30 + 0.85 * 19) / 40)
    assert live["congestion"] == "slow"

    edges = {r["edge_id"]: r for r in query(lane, "SELECT * FROM serving.road_edge_at(%s)", later)}
    told = {
        number: (row["source"], row["free_flow_basis"], row["congestion"]) for number, row in edges.items()
    }
    assert told == {7: ("live", "off-peak", "slow"), 8: ("none", "limit", "unknown")}
    assert edges[7]["flow_vph"] == pytest.approx(2000 / 1000 * 12)
    [match] = query(lane, "SELECT * FROM serving.road_match WHERE hour = %s", MONDAY + timedelta(hours=8))
    assert (match["matched"], match["not_clear"], match["no_edge"]) == (300, 60, None)


def test_a_window_that_changes_changes_its_five_minutes(lane: Lane, database: Database) -> None:
    key = {"cell": CELL, "heading_sector": 0}
    write(
        database,
        ROAD,
        [window(MONDAY, 30.0, 1, **key), window(MONDAY + timedelta(minutes=4), 50.0, 2, **key)],
    )
    assert database.run(sum_due) == [MONDAY]
    assert database.run(sum_due) == []
    write(database, ROAD, [window(MONDAY, 10.0, 3, **key)])
    assert database.run(sum_due) == [MONDAY]
    [row] = query(lane, "SELECT vehicles, distance_m, time_s FROM odograph.road_cell_interval")
    assert (row["vehicles"], row["distance_m"], row["time_s"]) == (5, pytest.approx(1000.0), 120.0)


def trip(vehicle: int, start: str, end: str, at: datetime, minutes: int = 10) -> Row:
    return {
        "vehicle_id": vin(vehicle), "started_at": at, "ended_at": at + timedelta(minutes=minutes),
        "trip_id": f"{vehicle}-{at:%H%M}", "phase": "final", "start_h3_r7": start, "end_h3_r7": end,
        "end_lat_deg": 48.0, "end_lon_deg": 11.01, "distance_m": 4000.0, "unseen_m": 0.0,
        "duration_s": 60.0 * minutes, "moving_s": 500.0, "standing_s": 100.0, "idle_s": 0.0, "halts": 0,
        "harsh_brake": 0, "harsh_accelerate": 0, "harsh_corner": 0, "frames": 60, "batch_id": 1,
    }  # fmt: skip


def insert(database: Database, table: str, rows: list[Row]) -> None:
    database.run(lambda c: insert_rows(c, table, pa.Table.from_pylist(rows)))


def test_small_flows_and_stops_are_not_shown_and_cannot_be_had_by_subtraction(
    lane: Lane, database: Database
) -> None:
    wednesday = MONDAY + timedelta(days=2, hours=8)
    flows = [("a", "b", range(6)), ("a", "c", range(13)), ("a", "d", range(20, 22)), ("e", "f", range(3))]
    rows = [trip(v, o, d, wednesday + timedelta(minutes=20 * k))
            for k, (o, d, vehicles) in enumerate(flows) for v in vehicles]  # fmt: skip
    insert(database, "odograph.trip", rows)
    found = query(lane, "SELECT * FROM serving.od_flow_on('2026-01-07')")
    shown = {(r["origin_h3_r7"], r["destination_h3_r7"]): (r["suppressed"], r["trips"]) for r in found}
    assert shown == {
        ("a", "b"): (True, None),
        ("a", "c"): (False, 15),
        ("a", "d"): (True, None),
        ("e", "f"): (True, None),
    }
    origins = query(lane, "SELECT * FROM serving.od_origin_on('2026-01-07')")
    assert {r["origin_h3_r7"]: (r["suppressed"], r["trips"]) for r in origins} == {
        "a": (False, 20),
        "e": (True, None),
    }
    places = [(48.137, 11.575)] * 6 + [(48.2, 11.6)] * 2
    insert(database, "odograph.trip_stop", [
        {"vehicle_id": vin(v), "began_at": wednesday, "ended_at": wednesday + timedelta(minutes=30),
         "lat_deg": lat, "lon_deg": lon, "batch_id": 1}
        for v, (lat, lon) in enumerate(places)
    ])  # fmt: skip
    assert database.run(place_stops) == 8
    assert database.run(place_stops) == 0
    spots = query(lane, "SELECT * FROM serving.stop_hot_spot_on('2026-01-07') ORDER BY suppressed")
    assert [(r["h3_r10"], r["stops"], r["dwell_median_min"]) for r in spots] == [
        ("8a1f8d7a498ffff", 5, 30.0),
        (None, None, None),
    ]


def test_an_arrival_time_is_predicted_stored_and_graded(lane: Lane, database: Database) -> None:
    street = [(48.0, 11.0), (48.0, 11.1)]
    store_roads(lane.endpoints.db_ingest_url, "town", [(7, "arterial", 60.0, 7440.0, street)])
    insert(database, "odograph.vehicle_latest", [
        {"vehicle_id": vin(1), "event_time": MONDAY, "lat_deg": 48.0, "lon_deg": 11.0, "heading_deg": 90.0,
         "updated_at": MONDAY}
    ])  # fmt: skip
    to = (48.0, 11.01)
    found = database.run(lambda c: Forecast(c, lane.settings).predict(c, vin(1), to))
    assert found.way.length_m == pytest.approx(744.0, rel=1e-3)
    assert found.way.time_s == pytest.approx(744 / (60 * 0.7) * 3.6, rel=1e-3)
    number = database.run(lambda c: ask_for(c, vin(1), to, found))
    assert predict_open(database, lane.settings) == 1
    assert database.run(lambda c: grade(c, lane.settings, MONDAY)) == 0
    insert(database, "odograph.trip", [trip(1, "a", "b", MONDAY - timedelta(minutes=9), minutes=10)])
    assert database.run(lambda c: grade(c, lane.settings, MONDAY)) == 1
    [quality] = query(lane, "SELECT * FROM serving.eta_quality")
    late_s = found.way.time_s - 60
    assert (quality["from_min"], quality["predictions"]) == (Decimal("0.5"), 1)
    assert quality["bias_s"] == pytest.approx(late_s, abs=0.001)
    assert quality["mape_pct"] == pytest.approx(abs(late_s) / 60 * 100, abs=0.01)
    assert predict_open(database, lane.settings) == 0
    [told] = query(lane, "SELECT * FROM serving.eta")
    assert (told["request_no"], told["outcome"], told["arrived_at"]) == (
        number,
        "arrived",
        MONDAY + timedelta(minutes=1),
    )


def test_the_network_loaded_last_is_in_use_and_lies_in_the_file(lane: Lane, database: Database) -> None:
    file = NetworkFile(lane.settings, database)
    file()
    place = lane.home / "lookups" / network.ROADS_FILE
    assert not place.exists()
    for name, limit in (("old", 30), ("new", 60)):
        edge = (3, "arterial", limit, 700.0, [(48.0, 11.0), (48.0, 11.01)])
        store_roads(lane.endpoints.db_ingest_url, name, [edge])
    file()
    found = network.load(place)
    assert (found.edge_id.tolist(), found.limit_kmh.tolist(), found.lon_deg.tolist()) == (
        [3],
        [60.0],
        [11.0, 11.01],
    )
    version = place.stat().st_mtime_ns
    file()
    assert place.stat().st_mtime_ns == version


def test_a_simulation_puts_the_roads_of_its_town_into_the_database_when_asked(lane: Lane) -> None:
    words = ("simulate", "-c", "5", "--rate", "5", "--limit", "5", "--seed", "7")
    stored = "SELECT network, count(*) FROM odograph.road_edge GROUP BY 1"
    assert lane.run(*words).returncode == 0
    assert query(lane, stored) == []
    assert lane.run(*words, "--roads").returncode == 0
    assert [tuple(row.values()) for row in query(lane, stored)] == [("city-7", 2510)]
