"""Traffic in the database: windows by five minutes, free flow, profile, bands and where they come from."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from infra.sql.figures import store_roads
from stream_jobs.roads import network
from stream_jobs.roads.history_sql import RULE
from stream_jobs.roads.keeper import NetworkKeeper, history, rule_of, sum_due
from stream_jobs.sinks import EDGE, ROAD, Database, WindowTable, execute, write_windows
from tests.integration.stream_support import query
from tests.support import Lane

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)
CELL = "891f8d7a49bffff"
Row = dict[str, Any]


@pytest.fixture
def database(lane: Lane) -> Iterator[Database]:
    database = Database(lane.endpoints.db_ingest_url, "roads", threading.Event())
    yield database
    database.close()


def window(at: datetime, speed_kmh: float, vehicles: int, **key: Any) -> Row:
    """A minute in which ``vehicles`` of their own spend 60 s together."""
    bits = sum(1 << (at.minute * 7 + k) % 63 for k in range(vehicles))
    return {
        **key, "window_start": at, "window_s": 60, "vehicles": vehicles, "vehicle_bits": bits, "samples": 60,
        "distance_m": speed_kmh / 3.6 * 60, "time_s": 60.0, "speed_kmh": speed_kmh, "batch_id": 1,
    }  # fmt: skip


def write(database: Database, table: WindowTable, rows: list[Row]) -> None:
    staged = pa.Table.from_pylist(rows)
    database.run(lambda c: write_windows(c, table, staged))


def compute(lane: Lane, database: Database, until: datetime) -> None:
    while database.run(sum_due):
        pass
    database.run(lambda c: execute(c, RULE, rule_of(lane.settings)))
    for statement, values in history(lane.settings, until):
        database.run(lambda c, s=statement, v=values: execute(c, s, v))


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


def test_the_network_loaded_last_is_in_use_and_lies_in_the_file(lane: Lane, database: Database) -> None:
    keeper = NetworkKeeper(lane.settings, database)
    keeper()
    place = network.place_of(lane.home)
    assert network.version_of(place) is None
    for name, limit in (("old", 30), ("new", 60)):
        edge = (3, "arterial", limit, 700.0, [(48.0, 11.0), (48.0, 11.01)])
        store_roads(lane.endpoints.db_ingest_url, name, [edge])
    keeper()
    found = network.load(place)
    assert (found.edge_id.tolist(), found.limit_kmh.tolist(), found.lon_deg.tolist()) == (
        [3],
        [60.0],
        [11.0, 11.01],
    )
    version = network.version_of(place)
    keeper()
    assert network.version_of(place) == version
