"""Trips, routing and replay in a real browser: what is drawn, followed, played and compared."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import orjson
import pandas as pd
import psycopg
import pytest
from playwright.sync_api import BrowserContext, Locator, expect

from dashboard.basemap import COLOURS
from dashboard.shared import maps
from dashboard.shared.theme import CONGESTION, STATES, TONES, rgba
from infra.settings.files import write_private
from infra.settings.settings import ENDPOINTS_FILE
from infra.stack.stack import with_database
from stream_jobs.replay import databases, runs
from stream_jobs.replay.runs import Run
from tests import support_rows
from tests.integration.browser_support import SEEN_S, Visit, drawn, near, pixels_of, visit
from tests.integration.dashboard_support import Site, watched
from tests.rows import journeys
from tests.rows.town import ROVER, ROVER_START
from tests.support import eventually

pytestmark = pytest.mark.integration

TRIP = f"/trips?trip={journeys.ROVER_TRIP}"
REPLAY = "/replay?day=2021-03-29&at=08:15:00"


def part(reader: Visit, name: str) -> Locator:
    """A part of the trip's or the day's picture."""
    return reader.page.locator(f"[data-part='{name}']")


def shows(reader: Visit, colour: str, least: int) -> bool:
    return int(near(pixels_of(part(reader, "map")), colour).sum()) >= least


def test_a_days_trips_are_files_and_a_report_and_a_row_opens_the_trip(reader: Visit, site: Site) -> None:
    reader.open("/trips?day=2021-03-29&paused=1")  # a click into a table that is drawn anew is lost
    expect(reader.metric("Distance")).to_have_text("12 km")
    check_files(reader)
    check_report(reader)
    reader.click_row(reader.page.get_by_test_id("stDataFrame"), re.escape(TRIP))
    expect(reader.metric("Harsh events")).to_have_text("2")
    run = site.lane.run("report", "--day", "2022-01-01", "-o", "-")
    assert (run.returncode, run.stdout) == (1, "")
    assert "nothing is stored of any vehicle on 2022-01-01 (UTC)" in run.stderr
    reader.open("/trips?day=2021-03-29&vehicle=testfleet")
    expect(reader.page.get_by_text("The first 20: say more of it.")).to_be_visible()


def test_a_trip_is_a_gpx_file_has_one_cursor_and_its_way_the_colours_of_its_speeds(
    reader: Visit, site: Site
) -> None:
    reader.open(TRIP)
    check_gpx(reader, site)
    for band, least in {"free": 60, "severe": 60, "unknown": 60}.items():
        eventually(lambda c=CONGESTION[band], n=least: shows(reader, c, n), SEEN_S, f"{band} on the way")
    check_cursor(reader)
    for _ in range(5):
        part(reader, "out").click()
    for kind in ("sea", "ground"):  # of the coast that it was driven along
        eventually(lambda c=COLOURS["light"][kind]: shows(reader, c, 20_000), SEEN_S, f"{kind} from afar")


def check_files(reader: Visit) -> None:
    """All rows of the list as CSV and as Parquet."""
    csv = pd.read_csv(_download(reader, "Trips: all rows as CSV"))
    parquet = pd.read_parquet(_download(reader, "Trips: all rows as Parquet"))
    for found in (csv, parquet):
        assert list(found["trip_id"]) == [journeys.ROVER_TRIP]
        assert list(found["distance_m"]) == [11_980.0]
    assert list(csv["started_at"]) == ["2021-03-29T08:00:00.000000Z"]


def check_gpx(reader: Visit, site: Site) -> None:
    """The trip's way is a file, and the command writes the same; it lists times in UTC, whatever the zone."""
    given = _download(reader, "The trip's way: all rows as GPX").read_bytes()
    assert given.count(b"<trkpt") == 180
    span = ("--from", "2021-03-29T08:00", "--to", "2021-03-29T09:00")
    run = site.lane.run("trips", ROVER, *span, "--export", "gpx")
    assert (run.returncode, run.stdout.encode().strip()) == (0, given), run.stderr
    with psycopg.connect(site.lane.endpoints.db_owner_url, autocommit=True) as owner:
        zone = f"ALTER DATABASE {owner.info.dbname} {{}}"
        owner.execute(zone.format("SET timezone = 'Asia/Tokyo'").encode())
        try:
            listed = site.lane.run("trips", ROVER, *span).stdout
        finally:
            owner.execute(zone.format("RESET timezone").encode())
    assert listed.splitlines()[1].split()[1:4] == ["2021-03-29", "08:00:00", "08:30:00"]


def check_report(reader: Visit) -> None:
    """The day's report opens in a tab of its own."""
    with reader.page.expect_popup() as opened:
        reader.page.get_by_text("Day's report").click()
    report = opened.value
    report.on("request", lambda request: reader.requests.append(request.url))
    expect(report.get_by_role("heading", level=1)).to_have_text("Fleet, Monday 2021-03-29")
    for label, value in {"Vehicles": "1", "Distance": "12.0 km", "Trips": "1", "Harsh braking": "1"}.items():
        expect(report.locator("dl div").filter(has_text=label).locator("dd")).to_have_text(value)
    expect(report.get_by_role("row").filter(has_text=ROVER)).to_contain_text("Twizy 45")
    report.close()


def _download(reader: Visit, title: str) -> Path:
    with reader.page.expect_download() as started:
        reader.page.get_by_title(title).click()
    assert started.value.suggested_filename.endswith(f".{title.rpartition(' ')[2].lower()}")
    return started.value.path()


def check_cursor(reader: Visit) -> None:
    """The cursor of chart, map and slider is one."""
    told = part(reader, "told")
    expect(told).to_contain_text("08:00:10 · 22 km/h · 55 % of free flow (40): congested")
    part(reader, "slider").fill("40")
    expect(told).to_contain_text("harsh braking · 0.47 g (limit 0.30, grade 2) at 38 km/h")
    before = near(pixels_of(part(reader, "map")), "#b3135a")
    chart = part(reader, "chart")
    box = chart.bounding_box()
    assert box is not None
    chart.hover(position={"x": box["width"] - 10, "y": 60})
    expect(told).to_contain_text("no free-flow speed here yet")
    expect(part(reader, "slider")).to_have_value("179")
    eventually(
        lambda: (near(pixels_of(part(reader, "map")), "#b3135a") != before).sum() > 40, SEEN_S, "the cursor"
    )
    rows, columns = np.nonzero(near(pixels_of(part(reader, "map")), CONGESTION["free"]))
    inside = len(rows) // 2  # not where a piece meets the next one
    part(reader, "map").hover(position={"x": float(columns[inside]), "y": float(rows[inside])})
    expect(told).to_contain_text(": free")


def test_a_trip_that_is_not_known_is_said_to_be_none(reader: Visit) -> None:
    reader.open("/trips?trip=nonesuch")
    expect(reader.page.get_by_text("No trip has this number")).to_be_visible()
    expect(reader.page.get_by_text("All trips")).to_be_visible()


def looks(site: Site) -> int:
    """How many sessions looked at the vehicle, by the audit log."""
    asked = "SELECT count(*) FROM serving.audit_log WHERE action = 'vehicle viewed' AND vehicle_id = %s"
    with psycopg.connect(site.lane.endpoints.db_ingest_url) as connection:
        ((count,),) = connection.execute(asked, (ROVER,)).fetchall()
    return int(count)


def test_a_day_is_played_paused_and_scrubbed_and_a_vehicles_card_leads_to_its_page(
    reader: Visit, site: Site
) -> None:
    before = looks(site)
    reader.open(f"{REPLAY}&follow={ROVER}")
    expect(reader.page.locator(".st-key-status")).to_contain_text("REPLAY")
    expect(part(reader, "badge")).to_have_text("REPLAY")
    expect(part(reader, "at")).to_contain_text("2021-03-29 08:15:00 UTC")
    expect(part(reader, "say")).to_have_text("moving 1")
    expect(part(reader, "who")).to_contain_text(ROVER)
    expect(part(reader, "who")).to_contain_text("moving,")
    expect(part(reader, "follow")).to_have_text("Following")
    assert looks(site) == before + 1
    eventually(lambda: shows(reader, STATES["moving"], 60), SEEN_S, "the vehicle")
    part(reader, "play").click()
    expect(part(reader, "at")).not_to_contain_text("08:15")
    part(reader, "play").click()
    held = part(reader, "at").inner_text()
    expect(reader.page).to_have_url(
        re.compile(r"at=(08%3A(1[6-9]|[2-5])|09|1|2)")
    )  # how far, the machine says
    assert part(reader, "at").inner_text() == held
    start_ms = round(ROVER_START.timestamp() * 1000)
    part(reader, "slider").fill(str(start_ms + 60 * 60_000))
    expect(part(reader, "at")).to_contain_text("09:00:00")
    expect(part(reader, "say")).to_have_text("silent 1")
    part(reader, "open").click()
    expect(reader.page).to_have_url(re.compile(f"vehicle={ROVER}"))


def test_a_shadow_run_is_compared_with_live(reader: Visit, site: Site) -> None:
    with psycopg.connect(site.lane.endpoints.db_owner_url) as owner:
        support_rows.insert(owner, "replay_verdict", journeys.verdicts(datetime.now(UTC)))
    reader.open("/replay")
    expect(reader.page.get_by_text("r2, vehicle_window differs")).to_be_visible()
    expect(reader.page.get_by_text("window_s is live 10, run 20")).to_be_visible()


@pytest.fixture
def run(site: Site) -> Iterator[str]:
    """A replay that is over: the known rows of three days ago, its vehicles far from all known roads."""
    lane, name = site.lane, "watched"
    times = dict.fromkeys(
        ("since_ms", "until_ms", "received_since_ms", "received_until_ms", "late_until_ms"), 0
    )
    kept = Run(name, "drives", **times, vehicles=(), speed=None, jobs=("stream",), settings={}, code="")
    runs.save(lane.home, kept)
    databases.create(lane.endpoints.db_owner_url, kept.database)
    own = with_database(lane.endpoints, kept.database)
    write_private(runs.folder_of(lane.home, name) / ENDPOINTS_FILE, orjson.dumps(asdict(own)).decode())
    with psycopg.connect(own.db_owner_url) as connection:  # the known rows have these too
        connection.execute(
            "TRUNCATE " + ", ".join(f"odograph.{t}" for t in databases.REFERENCES) + " CASCADE"
        )  # type: ignore[arg-type]
    with psycopg.connect(own.db_ingest_url) as connection:
        support_rows.fill(connection, datetime.now(UTC) - timedelta(days=3))
        connection.execute("UPDATE odograph.vehicle_latest SET lat_deg = lat_deg - 20")
        connection.execute("DELETE FROM odograph.vehicle_latest WHERE vehicle_id = %s", [ROVER])
    yield name
    databases.drop(lane.endpoints.db_owner_url, kept.database)


def test_the_dashboard_of_a_run_stands_at_the_runs_own_time_and_looks_where_its_vehicles_are(
    light: BrowserContext, site: Site, run: str
) -> None:
    with watched(site.lane, run) as base, visit(light, base) as reader:
        reader.open("/")
        expect(reader.page.locator(".st-key-status")).to_contain_text(f"REPLAY {run}")
        expect(reader.metric("Reporting")).to_have_text("37")
        eventually(lambda: drawn(reader, STATES["moving"], 300), SEEN_S, "its vehicles")
        assert (reader.complaints, reader.outside()) == ([], [])


def test_the_slider_shows_the_traffic_of_its_moment_judged_by_the_limit_until_free_flow_is_known(
    reader: Visit, site: Site
) -> None:
    site.execute("UPDATE odograph.road_cell_baseline SET cell = 'x' || cell")
    try:
        check_slider(reader, site)
        page = reader.page
        expect(page.get_by_text("free (over 90 % of the speed limit, else of 50 km/h)")).to_be_visible()
        expect(page.get_by_text("Free-flow speed is known of 0 of 126 places (0%)")).to_be_visible()
        shade = on_ground(CONGESTION["severe"], maps.ALPHA["live"])
        eventually(lambda: drawn(reader, shade, 2000), SEEN_S, "cells in the colours of their bands")
    finally:
        site.execute("UPDATE odograph.road_cell_baseline SET cell = substr(cell, 2)")


def check_slider(reader: Visit, site: Site) -> None:
    """A step of the slider brings the traffic of the next five minutes, and the address follows."""
    day = f"{journeys.yesterday(site.made_at):%Y-%m-%d}"
    reader.open(f"/routing?day={day}&at=07:55")
    expect(reader.page.get_by_text(f"No traffic is known at {day} 07:55:00 UTC")).to_be_visible()
    slider = reader.page.get_by_role("slider")
    slider.focus()
    slider.press("ArrowRight")
    expect(reader.page.get_by_text(f"Up to {day} 08:00:00 UTC: 126 seen")).to_be_visible()
    expect(reader.page).to_have_url(re.compile("at=08"))


def on_ground(colour: str, alpha: int) -> str:
    """A colour that the light ground shines through."""
    pairs = zip(rgba(colour)[:3], rgba(TONES["light"]["ground"])[:3], strict=True)
    return "#" + "".join(f"{round((a * alpha + b * (255 - alpha)) / 255):02x}" for a, b in pairs)


def test_flows_and_arrivals_are_shown_as_counted(reader: Visit) -> None:
    reader.open("/routing?show=Origins+and+destinations")
    expect(reader.page.get_by_text("4 flows are shown, 2 of too few vehicles are suppressed")).to_be_visible()
    reader.open("/routing?show=Arrival+times")
    expect(reader.page.get_by_text("16 predictions of vehicles that arrived")).to_be_visible()
