"""Trips, routing and replay: their questions against known rows, and their pages in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import numpy as np
import psycopg
import pytest
from playwright.sync_api import Browser, Locator, expect

from dashboard import replay_queries, routing_queries, trip_queries
from dashboard.palette import CONGESTION, STATES
from dashboard.queries import Connection, Database
from infra.stack.stack import Stack
from tests import support_rows
from tests.integration.browser_support import Visit, chromium, desk, near, pixels_of, visit
from tests.integration.test_dashboard_pages import START_S, status
from tests.rows import journeys
from tests.rows.town import ROVER, ROVER_START, vehicle_id
from tests.support import Lane, eventually, open_lane

pytestmark = pytest.mark.integration

ROVER_DAY = date(2021, 3, 29)
SEEN_S = 30.0
TRIP = f"/trips?trip={journeys.ROVER_TRIP}"
REPLAY = "/replay?day=2021-03-29&at=08:15:00"


@pytest.fixture(scope="module")
def moment() -> datetime:
    return datetime.now(UTC)


@pytest.fixture(scope="module")
def filled(stack: Stack, moment: datetime) -> Iterator[Lane]:
    with open_lane(stack) as lane:
        with psycopg.connect(lane.endpoints.db_ingest_url) as connection:
            support_rows.fill(connection, moment)
        with psycopg.connect(lane.endpoints.db_owner_url) as owner:
            support_rows.insert(owner, "replay_verdict", journeys.verdicts(moment))
        yield lane


@pytest.fixture(scope="module")
def connection(filled: Lane) -> Iterator[Connection]:
    database = Database(lambda: filled.endpoints.db_dashboard_url)
    with database.connection() as opened:
        yield opened
    database.close()


@pytest.fixture(scope="module")
def base(filled: Lane) -> Iterator[str]:
    with filled.process("dashboard") as process:
        address = f"http://127.0.0.1:{filled.endpoints.http_ports['dashboard']}"
        eventually(lambda: process.assert_running() or status(address, "/readyz") == 200, START_S, "ready")
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def reader(browser: Browser, base: str) -> Iterator[Visit]:
    with desk(browser) as context, visit(context, base) as opened:
        yield opened
        assert opened.complaints == []
        assert opened.outside() == []


def test_trips_are_found_by_day_vehicle_and_harshness(connection: Connection, moment: datetime) -> None:
    day = journeys.yesterday(moment).date()
    assert len(trip_queries.trips(connection, None, 1, day, "UTC", False)) == 44
    assert len(trip_queries.trips(connection, vehicle_id(9), 1, day, "UTC", False)) == 2
    harsh = trip_queries.trips(connection, None, 1, day, "UTC", True)
    assert set(harsh["vehicle_id"]) == {vehicle_id(0)}
    assert list(trip_queries.trips(connection, None, 1, ROVER_DAY, "UTC", False)["trip_id"]) == [
        journeys.ROVER_TRIP
    ]
    assert trip_queries.trips(connection, ROVER, 24, None, "UTC", False).empty  # not within the last day


def test_days_are_cut_in_the_readers_zone(connection: Connection) -> None:
    late, early = date(2021, 3, 28), date(2021, 3, 29)
    found = [
        len(trip_queries.trips(connection, ROVER, 1, day, "Pacific/Honolulu", False)) for day in (late, early)
    ]
    assert found == [1, 0]


def test_sums_are_over_all_trips_and_litres_only_over_what_burnt_them(
    connection: Connection, moment: datetime
) -> None:
    day = journeys.yesterday(moment).date()
    sums = trip_queries.trip_sums(connection, None, 1, day, "UTC", False).iloc[0]
    assert (sums["trips"], sums["vehicles"], sums["distance_km"]) == (44, 12, 352.0)
    assert (sums["idle_pct"], sums["harsh_events"]) == (12.5, 6)
    assert sums["fuel_l_per_100km"] == pytest.approx(7.5)
    assert sums["energy_kwh_per_100km"] == pytest.approx(15.0)


def test_a_trip_has_its_windows_its_events_and_the_stops_beside_it(connection: Connection) -> None:
    trip = trip_queries.trip(connection, journeys.ROVER_TRIP).iloc[0]
    span = (ROVER, trip["started_at"], trip["ended_at"])
    assert (len(trip_queries.trip_points(connection, *span)), trip["distance_m"]) == (180, 11_980.0)
    assert list(trip_queries.harsh_events(connection, *span)["kind"]) == ["brake", "corner"]
    assert list(trip_queries.idle_episodes(connection, *span)["duration_s"]) == [130.0]
    assert list(trip_queries.stops_around(connection, *span)["dwell_s"].fillna(-1)) == [1200.0, -1.0]
    assert trip_queries.trip_alerts(connection, *span).empty
    assert trip_queries.trip(connection, "nonesuch").empty


def test_speeds_are_judged_by_the_bands_of_the_road_views(connection: Connection) -> None:
    cell = journeys.rover_baselines(datetime.now(UTC))[0]["cell"]
    speeds = [40.0, 30.0, 22.0, 10.0, None, 40.0]
    cells = [cell] * 5 + ["89000000000ffff"]
    found = trip_queries.speed_ratio(connection, cells, [0, 1, 2, 3, 0, 0], speeds)
    assert list(found["congestion"]) == ["free", "slow", "congested", "severe", "unknown", "unknown"]
    assert list(found["free_flow_kmh"].fillna(0)) == [40.0, 40.0, 40.0, 40.0, 40.0, 0.0]


def test_a_stretch_of_a_day_has_windows_by_their_end_on_whole_steps(connection: Connection) -> None:
    since = ROVER_START + timedelta(minutes=10)
    found = replay_queries.places(connection, since, since + timedelta(minutes=2), 60)
    assert [(ms - since.timestamp() * 1000) / 1000 for ms in sorted(found["at_ms"])] == [0, 60, 120]
    before = replay_queries.places_before(connection, ROVER_START + timedelta(minutes=40), True)
    assert list(before["vehicle_id"]) == [ROVER]
    assert before["at_ms"].iloc[0] == round((ROVER_START + timedelta(minutes=30)).timestamp() * 1000)
    assert replay_queries.places_before(connection, since, False).empty
    known = replay_queries.day_windows(connection, ROVER_DAY, "UTC").iloc[0]
    assert (known["first_at"], known["vehicles"]) == (ROVER_START, 41)


def test_alerts_of_a_stretch_are_those_that_were_active_in_it(
    connection: Connection, moment: datetime
) -> None:
    ago = moment - timedelta(seconds=2750)
    found = replay_queries.alerts_between(connection, ago, ago + timedelta(seconds=400))
    assert sorted(found["rule"]) == ["coolant_high", "speeding"]


def test_traffic_of_a_stored_moment_and_hours_of_its_day(connection: Connection, moment: datetime) -> None:
    day = journeys.yesterday(moment)
    cells = routing_queries.cells_at(connection, day + timedelta(hours=8, minutes=2))
    assert (len(cells), set(cells["source"])) == (126, {"live"})
    assert routing_queries.cells_at(connection, day + timedelta(hours=11)).empty
    hours = routing_queries.road_hours(connection, day.date()).set_index("hour")
    assert len(hours) == 17
    # 14 km/h at 8 and 35 at any other hour, where free flow is 42 or, for every ninth cell, not known
    assert hours.loc[day + timedelta(hours=8), "travel_time_index"] == pytest.approx(42 / 14)
    assert hours.loc[day + timedelta(hours=9), "travel_time_index"] == pytest.approx(42 / 35)
    assert routing_queries.edges_at(connection, day).empty


def test_flows_of_few_vehicles_are_suppressed(connection: Connection, moment: datetime) -> None:
    flows = routing_queries.flows(connection, journeys.yesterday(moment).date())
    assert list(flows["suppressed"]) == [False] * 4 + [True] * 2
    assert list(flows["trips"].dropna()) == [10, 10, 5, 5]
    newest = routing_queries.last_trip_day(connection, "UTC")["day"].iloc[0]
    assert newest == journeys.yesterday(moment).date()


def test_predictions_are_graded_by_horizon_and_open_ones_listed(connection: Connection) -> None:
    quality = routing_queries.eta_quality(connection)
    assert list(quality["from_min"]) == [0.5, 2, 5, 10]
    # a minute before: 30 s too late and 15 s too early in turn
    assert quality["mape_pct"].iloc[0] == pytest.approx((50 + 25) / 2)
    assert quality["bias_pct"].iloc[0] == pytest.approx((50 - 25) / 2)
    assert list(routing_queries.etas(connection)["vehicle_id"]) == [vehicle_id(4)]


def part(reader: Visit, name: str) -> Locator:
    """A part of the trip's or the day's picture."""
    return reader.page.locator(f"[data-part='{name}']")


def shows(reader: Visit, colour: str, least: int) -> bool:
    return int(near(pixels_of(part(reader, "map")), colour).sum()) >= least


def test_a_row_opens_the_trip_and_its_way_has_the_colours_of_its_speeds(reader: Visit) -> None:
    reader.open("/trips?day=2021-03-29")
    expect(reader.metric("Distance")).to_have_text("12 km")
    reader.page.get_by_test_id("stDataFrame").click(position={"x": 60, "y": 52})
    expect(reader.page).to_have_url(re.compile(TRIP.replace("?", r"\?")))
    expect(reader.metric("Harsh events")).to_have_text("2")
    for band, least in {"free": 60, "severe": 60, "unknown": 60}.items():
        eventually(lambda c=CONGESTION[band], n=least: shows(reader, c, n), SEEN_S, f"{band} on the way")


def test_the_cursor_of_chart_map_and_slider_is_one(reader: Visit) -> None:
    reader.open(TRIP)
    told = part(reader, "told")
    expect(told).to_contain_text("08:00:10 · 22 km/h · 55 % of free flow (40): congested")
    part(reader, "slider").fill("40")
    expect(told).to_contain_text("harsh braking, grade 2: 0.47 g at 38 km/h")
    before = near(pixels_of(part(reader, "map")), "#b3135a")
    chart = part(reader, "chart")
    box = chart.bounding_box()
    assert box is not None
    chart.hover(position={"x": box["width"] - 12, "y": 60})
    expect(told).to_contain_text("no free-flow speed here yet")
    expect(part(reader, "slider")).to_have_value("179")
    eventually(
        lambda: (near(pixels_of(part(reader, "map")), "#b3135a") != before).sum() > 40, SEEN_S, "the cursor"
    )
    rows, columns = np.nonzero(near(pixels_of(part(reader, "map")), CONGESTION["free"]))
    part(reader, "map").hover(position={"x": float(columns[0]), "y": float(rows[0])})
    expect(told).to_contain_text(": free")


def test_a_trip_that_is_not_known_is_said_to_be_none(reader: Visit) -> None:
    reader.open("/trips?trip=nonesuch")
    expect(reader.page.get_by_text("No trip has this number")).to_be_visible()
    expect(reader.page.get_by_text("All trips")).to_be_visible()


def test_a_day_is_played_paused_scrubbed_and_followed_under_the_badge_replay(reader: Visit) -> None:
    reader.open(REPLAY)
    expect(reader.page.locator(".st-key-status")).to_contain_text("REPLAY")
    expect(part(reader, "badge")).to_have_text("REPLAY")
    expect(part(reader, "at")).to_contain_text("2021-03-29 08:15:00 UTC")
    expect(part(reader, "say")).to_have_text("moving 1")
    eventually(lambda: shows(reader, STATES["moving"], 60), SEEN_S, "the vehicle")
    part(reader, "play").click()
    expect(part(reader, "at")).to_contain_text(re.compile(r"08:1[6-9]|08:2"))
    part(reader, "play").click()
    held = part(reader, "at").inner_text()
    expect(reader.page).to_have_url(re.compile(r"at=08%3A[12]"))
    assert part(reader, "at").inner_text() == held
    start_ms = round(ROVER_START.timestamp() * 1000)
    part(reader, "slider").fill(str(start_ms + 60 * 60_000))
    expect(part(reader, "at")).to_contain_text("09:00:00")
    expect(part(reader, "say")).to_have_text("silent 1")
    eventually(lambda: shows(reader, STATES["silent"], 20), SEEN_S, "the silent vehicle")


def test_a_vehicle_is_followed_and_its_card_leads_to_its_page(reader: Visit) -> None:
    reader.open(f"{REPLAY}&follow={ROVER}")
    expect(part(reader, "who")).to_contain_text(ROVER)
    expect(part(reader, "who")).to_contain_text("moving,")
    expect(part(reader, "follow")).to_have_text("Following")
    part(reader, "open").click()
    expect(reader.page).to_have_url(re.compile(f"vehicle={ROVER}"))


def test_a_shadow_run_is_compared_with_live(reader: Visit) -> None:
    reader.open("/replay")
    expect(reader.page.get_by_text("r2, vehicle_window differs")).to_be_visible()
    expect(reader.page.get_by_text("window_s is live 10, run 20")).to_be_visible()


def test_the_time_slider_shows_the_traffic_of_its_moment(reader: Visit, moment: datetime) -> None:
    day = f"{journeys.yesterday(moment):%Y-%m-%d}"
    reader.open(f"/routing?day={day}&at=07:55")
    expect(reader.page.get_by_text(f"No traffic is known at {day} 07:55:00 UTC")).to_be_visible()
    slider = reader.page.get_by_role("slider")
    slider.focus()
    slider.press("ArrowRight")
    expect(reader.page.get_by_text(f"Up to {day} 08:00:00 UTC: 126 seen")).to_be_visible()
    expect(reader.page).to_have_url(re.compile("at=08"))


def test_flows_and_arrivals_are_shown_as_counted(reader: Visit, moment: datetime) -> None:
    reader.open("/routing?show=Origins+and+destinations")
    expect(reader.page.get_by_text("4 flows are shown, 2 of too few vehicles are suppressed")).to_be_visible()
    reader.page.get_by_text("Arrival times", exact=True).click()
    expect(reader.page.get_by_text("16 predictions of vehicles that arrived")).to_be_visible()
