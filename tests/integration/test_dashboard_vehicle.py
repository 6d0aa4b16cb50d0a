"""The page of one vehicle: its health, trips, codes and data quality, against known rows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from playwright.sync_api import expect
from psycopg.rows import dict_row

from dashboard.db import Connection
from dashboard.screens.vehicle import queries
from infra.stack.stack import Stack
from stream_jobs.events.writes import note_rules, rule_notes
from stream_jobs.rules.model import load_rules
from tests import support_rows
from tests.integration.browser_support import Visit
from tests.integration.dashboard_support import Site, reading
from tests.rows import car_data
from tests.rows.fleet import windows
from tests.rows.town import ROVER, roads, vehicle_id
from tests.support import open_lane

pytestmark = pytest.mark.integration

Found = tuple[Connection, datetime]


@pytest.fixture(scope="module")
def found(stack: Stack) -> Iterator[Found]:
    """The known rows with trips, codes and a ledger besides, and the moment they are seen from."""
    now = datetime.now(UTC)
    with open_lane(stack, topics=False) as lane, reading(lane) as opened:
        with psycopg.connect(lane.endpoints.db_ingest_url) as ingest:
            support_rows.fill(ingest, now)
            support_rows.insert(ingest, "trip", car_data.trips(now))
            support_rows.insert(ingest, "alert", car_data.codes(now))
            support_rows.insert(ingest, "audit_hour", car_data.audit_hours(now))
            support_rows.insert(ingest, "audit_vehicle", car_data.audit_vehicles(now))
        yield opened, now


def test_the_last_minute_has_the_extremes_of_its_windows(found: Found) -> None:
    connection, now = found
    told = queries.signals(connection, vehicle_id(0), now).iloc[0]
    assert told["coolant_max_c"] == pytest.approx(113.7, abs=1.0)
    assert told["brake_pad_wear_max_pct"] == 41.0
    assert told["cell_temp_max_c"] is None
    behind = queries.signals(connection, vehicle_id(0), now + timedelta(minutes=3)).iloc[0]
    assert behind["coolant_max_c"] == told["coolant_max_c"]  # windows come after the newest frame
    before = now - timedelta(days=9)
    assert queries.signals(connection, vehicle_id(0), before).iloc[0]["until"] is None


def test_trends_come_with_those_first_that_are_near_their_threshold(found: Found) -> None:
    connection, now = found
    told = queries.trends(connection, vehicle_id(3))
    assert told["metric"].tolist() == ["tyre_rl", "brake_pad_fl", "tyre_rr"]
    hours = queries.trend_hours(connection, vehicle_id(3), "tyre_rl", now - timedelta(days=1), now)
    assert 1 <= len(hours) <= 2
    assert hours["value"].is_monotonic_decreasing


def test_trips_of_the_span_the_newest_first(found: Found) -> None:
    connection, now = found
    told = queries.trips(connection, vehicle_id(0), now - timedelta(minutes=40), now)
    assert told["trip_id"].tolist() == ["trip-8", "trip-30"]


def test_trouble_codes_have_their_code_out_of_the_alerts_name(found: Found) -> None:
    told = queries.codes(found[0], vehicle_id(38))
    assert list(zip(told["code"], told["rule"], told["active"], strict=True)) == [
        ("C1234", "dtc_active", False),
        ("P0301", "dtc_active", False),
    ]


def test_a_gap_is_a_time_without_windows_and_parking_is_none(found: Found) -> None:
    connection, now = found
    told = queries.gaps(connection, vehicle_id(1), now - timedelta(hours=3), now).iloc[0]
    assert (told["gaps"], told["gap_s"], told["longest_s"], told["windows"]) == (1, 300.0, 300.0, 330)
    parked = queries.gaps(connection, vehicle_id(30), now - timedelta(hours=3), now).iloc[0]
    assert (parked["gaps"], parked["windows"]) == (0, 0)


def test_data_quality_counts_what_was_late_doubled_missing_and_of_a_wrong_clock(found: Found) -> None:
    connection, now = found
    end = now + timedelta(minutes=1)
    told = queries.quality(connection, vehicle_id(0), now - timedelta(hours=2), end).iloc[0]
    counts = ("late", "late_open", "quarantined", "dead", "duplicate", "missing")
    assert [told[name] for name in counts] == [5, 3, 0, 1, 7, 1]
    # Five frames of 0.9 s that began five minutes ago, received 4, 3, 2, 1 and 0 minutes ago.
    assert told["delay_p50_s"] == pytest.approx(179.1, abs=0.01)
    fast = queries.quality(connection, vehicle_id(5), now - timedelta(hours=2), end).iloc[0]
    assert (fast["quarantined"], fast["clock_unset"]) == (3, 0)
    assert fast["ahead_p50_s"] > 10 * 365 * 86_400
    unset = queries.quality(connection, vehicle_id(6), now - timedelta(hours=2), end).iloc[0]
    assert (unset["quarantined"], unset["clock_unset"]) == (1, 1)
    nobody = queries.quality(connection, vehicle_id(9), now - timedelta(hours=2), now).iloc[0]
    assert (nobody["late"], nobody["duplicate"]) == (0, None)


def test_a_span_gives_the_same_sums_at_every_level(found: Found) -> None:
    connection, now = found
    start, end = now - timedelta(days=2), now + timedelta(days=1)
    sums = {}
    for step in (10, 600, 3600, 86_400):
        told = queries.history(step)(connection, vehicle_id(0), start, end, step, "Europe/Berlin")
        sums[step] = tuple(round(float(told[c].sum()), 2) for c in ("frames", "distance_m", "windows"))
        weighted = (told["speed_mean_kmh"] * told["frames"]).sum() / told["frames"].sum()
        assert weighted == pytest.approx(sums[10][1] / 3600 * 3.6, rel=0.001)
    assert len(set(sums.values())) == 1
    assert sums[10][0] == 3600


def test_the_extent_of_a_vehicle_comes_out_of_its_days(found: Found) -> None:
    extent = queries.vehicle_extent(found[0], ROVER).iloc[0]
    assert (extent["windows"], extent["frames"]) == (180, 1800)
    assert extent["first_event"] == datetime(2021, 3, 29, 8, 0, tzinfo=UTC)
    assert extent["last_event"] == datetime(2021, 3, 29, 8, 29, 59, 900_000, tzinfo=UTC)
    assert queries.vehicle_extent(found[0], "TESTNONE000000000").empty


def test_the_page_shows_limits_trends_trips_and_quality(reader: Visit, site: Site) -> None:
    now = datetime.now(UTC)
    own, minute = vehicle_id(0), now - timedelta(minutes=2)
    site.execute(
        "DELETE FROM odograph.vehicle_window WHERE vehicle_id = %s AND window_start > %s", own, minute
    )
    fresh = [w for w in windows(now, roads()) if w["vehicle_id"] == own and w["window_start"] > minute]
    with psycopg.connect(site.lane.endpoints.db_ingest_url) as connection:
        support_rows.insert(connection, "vehicle_window", fresh)
        note_rules(connection.cursor(row_factory=dict_row), rule_notes(load_rules(), []))
        support_rows.insert(connection, "trip", car_data.trips(now))
    try:
        reader.open(f"/vehicle?vehicle={vehicle_id(0)}&span=6+h")
        page = reader.page
        expect(page.get_by_text("WARNING: above 105.0 °C (coolant_hot)")).to_be_visible()
        expect(page.get_by_text("Click a row to open the trip.")).to_be_visible()
        expect(reader.metric("Late frames")).to_have_text("5")
        expect(page.get_by_text("times in UTC")).to_be_visible()
        reader.click_row(page.get_by_role("region", name="Trips"), r"/trips\?trip=trip-8")
    finally:
        site.execute("DELETE FROM odograph.trip WHERE trip_id LIKE 'trip-%%'")


def test_a_leaking_tyre_is_told_with_the_time_to_its_threshold(reader: Visit) -> None:
    reader.small().open(f"/vehicle?vehicle={vehicle_id(3)}")
    expect(reader.page.get_by_text("Tyre, rear left: threshold in 6 h 14 min")).to_be_visible()
    assert reader.complaints == []
