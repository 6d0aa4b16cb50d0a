"""Trips, routing and replay: each question against known rows."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from dashboard.db import Connection
from dashboard.screens.replay import queries as replay_queries
from dashboard.screens.routing import queries as routing_queries
from dashboard.screens.trips import queries as trip_queries
from tests.rows import journeys
from tests.rows.town import ROVER, ROVER_START, vehicle_id

pytestmark = pytest.mark.integration

ROVER_DAY = date(2021, 3, 29)


def test_trips_are_found_by_day_vehicle_and_harshness(connection: Connection, now: datetime) -> None:
    day = journeys.yesterday(now).date()
    assert len(trip_queries.trips(connection, None, 1, day, "UTC", False)) == 44
    assert len(trip_queries.trips(connection, [vehicle_id(9)], 1, day, "UTC", False)) == 2
    harsh = trip_queries.trips(connection, None, 1, day, "UTC", True)
    assert set(harsh["vehicle_id"]) == {vehicle_id(0)}
    assert list(trip_queries.trips(connection, None, 1, ROVER_DAY, "UTC", False)["trip_id"]) == [
        journeys.ROVER_TRIP
    ]
    assert trip_queries.trips(connection, [ROVER], 24, None, "UTC", False).empty  # not within the last day


def test_days_are_cut_in_the_readers_zone(connection: Connection) -> None:
    late, early = date(2021, 3, 28), date(2021, 3, 29)
    found = [
        len(trip_queries.trips(connection, [ROVER], 1, day, "Pacific/Honolulu", False))
        for day in (late, early)
    ]
    assert found == [1, 0]


def test_sums_are_over_all_trips_and_litres_only_over_what_burnt_them(
    connection: Connection, now: datetime
) -> None:
    day = journeys.yesterday(now).date()
    sums = trip_queries.trip_sums(connection, None, 1, day, "UTC", False).iloc[0]
    assert (sums["trips"], sums["vehicles"], sums["distance_km"]) == (44, 12, 352.0)
    assert (sums["idle_pct"], sums["harsh_per_100km"]) == (12.5, pytest.approx(6 / 3.52))
    assert sums["fuel_l_per_100km"] == pytest.approx(7.5)
    assert sums["energy_kwh_per_100km"] == pytest.approx(15.0)


def test_a_trip_has_its_windows_its_events_and_the_stops_beside_it(connection: Connection) -> None:
    trip = trip_queries.trip(connection, journeys.ROVER_TRIP).iloc[0]
    span = (ROVER, trip["started_at"], trip["ended_at"])
    assert (len(trip_queries.trip_points(connection, *span, 5000)), trip["distance_m"]) == (180, 11_980.0)
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
    for window_s in (10, 20):  # the length in force, and another since they were made
        found = replay_queries.places(connection, since, since + timedelta(minutes=2), 60, window_s)
        assert [(ms - since.timestamp() * 1000) / 1000 for ms in sorted(found["at_ms"])] == [0, 60, 120]
    last = ROVER_START + timedelta(minutes=30)  # where its last window ends
    found = replay_queries.places(connection, last, last + timedelta(minutes=2), 60, 10)
    assert found["at_ms"].tolist() == [last.timestamp() * 1000]
    before = replay_queries.places_before(connection, ROVER_START + timedelta(minutes=40), True)
    assert list(before["vehicle_id"]) == [ROVER]
    assert before["at_ms"].iloc[0] == round((ROVER_START + timedelta(minutes=30)).timestamp() * 1000)
    assert replay_queries.places_before(connection, since, False).empty
    known = replay_queries.day_windows(connection, ROVER_DAY, "UTC").iloc[0]
    assert (known["first_at"], known["vehicles"]) == (ROVER_START, 41)


def test_alerts_of_a_stretch_are_those_that_were_active_in_it(connection: Connection, now: datetime) -> None:
    ago = now - timedelta(seconds=2750)
    found = replay_queries.alerts_between(connection, ago, ago + timedelta(seconds=400))
    assert sorted(found["severity"]) == ["MAJOR", "WARNING"]


def test_traffic_of_a_stored_moment_and_hours_of_its_day(connection: Connection, now: datetime) -> None:
    day = journeys.yesterday(now)
    cells = routing_queries.cells_at(connection, day + timedelta(hours=8, minutes=2))
    assert (len(cells), set(cells["source"])) == (126, {"live"})
    assert routing_queries.cells_at(connection, day + timedelta(hours=11)).empty
    hours = routing_queries.road_hours(connection, day.date()).set_index("hour")
    assert len(hours) == 17
    # 14 km/h at 8 and 35 at any other hour, where free flow is 42 or, for every ninth cell, not known
    assert hours.loc[day + timedelta(hours=8), "travel_time_index"] == pytest.approx(42 / 14)
    assert hours.loc[day + timedelta(hours=9), "travel_time_index"] == pytest.approx(42 / 35)
    assert routing_queries.edges_at(connection, day).empty


def test_flows_of_few_vehicles_are_suppressed(connection: Connection, now: datetime) -> None:
    flows = routing_queries.flows(connection, journeys.yesterday(now).date())
    assert list(flows["suppressed"]) == [False] * 4 + [True] * 2
    assert set(flows["hidden"]) == {2}  # of all, though only so many rows are read
    assert list(flows["trips"].dropna()) == [10, 10, 5, 5]
    newest = routing_queries.last_trip_day(connection, "UTC")["day"].iloc[0]
    assert newest == journeys.yesterday(now).date()


def test_predictions_are_graded_by_horizon_and_open_ones_listed(connection: Connection) -> None:
    quality = routing_queries.eta_quality(connection)
    assert list(quality["from_min"]) == [0.5, 2, 5, 10]
    # a minute before: 30 s too late and 15 s too early in turn
    assert quality["mape_pct"].iloc[0] == pytest.approx((50 + 25) / 2)
    assert quality["bias_pct"].iloc[0] == pytest.approx((50 - 25) / 2)
    assert list(routing_queries.etas(connection)["vehicle_id"]) == [vehicle_id(4)]


def test_hours_of_a_day_tell_who_reported_in_them(connection: Connection) -> None:
    found = replay_queries.day_hours(connection, ROVER_DAY, "UTC")
    assert list(found["hour"]) == [ROVER_START]
    assert list(found["vehicles"]) == [1]


def test_spans_tell_which_days_there_are(connection: Connection, now: datetime) -> None:
    assert replay_queries.day_span(connection)["first_at"].iloc[0] == ROVER_START
    span = routing_queries.road_span(connection).iloc[0]
    assert (span["first_at"].hour, span["last_at"].hour) == (5, 21)
    assert replay_queries.verdicts(connection).empty
