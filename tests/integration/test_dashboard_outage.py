"""The database away, empty, back: what each page says meanwhile, and that it recovers by itself."""

from __future__ import annotations

import re
import urllib.request
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial

import psycopg
import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Route, expect

from dashboard.basemap import COLOURS
from infra.stack.stack import Stack
from tests import support_rows
from tests.integration.browser_support import SEEN_S, Visit, canvas, desk, drawn, near, visit
from tests.integration.dashboard_support import REFRESH_S, START_S, Site, status
from tests.rows import journeys
from tests.rows.town import vehicle_id
from tests.support import eventually, open_lane

pytestmark = pytest.mark.integration

MAJOR_ROAD = "#b6bfca"
SHOWN = {
    "/trips?span=7+days": "Click a row to open the trip.",
    "/alerts?alert=1": "Evidence",
    "/alerts?view=Silences": "Silenced alerts are stored and shown all the same",
    "/operations": "Streaming queries, last batch",
    f"/trips?trip={journeys.ROVER_TRIP}": "On the way",
    "/replay": "Shadow runs against live",
    f"/crashes?record={vehicle_id(7)}/1/c-1": "Custody log",
    f"/vehicle?vehicle={vehicle_id(0)}": "Against its limits",
    "/routing": "Moment: the five minutes up to it",
    "/": "not acknowledged: ",
}
"""Pages, and words of each that come out of rows; those with maps last: an open one goes on drawing."""
MAPPED = tuple(SHOWN)[4:]
ROADS_CAME = """() => performance.getEntriesByType('resource').some(
    asked => asked.name.includes('/map/roads.json') && asked.responseStatus === 200)"""


def status_of(reader: Visit) -> Locator:
    """The header line of the page."""
    return reader.page.locator(".st-key-status")


def test_a_page_opened_while_the_database_is_away_fills_when_it_is_back(reader: Visit, site: Site) -> None:
    site.link.refuse()
    reader.page.goto(reader.base)
    expect(status_of(reader)).to_contain_text("DATABASE AWAY")
    site.link.heal()
    expect(reader.metric("Vehicles")).to_have_text("41")
    expect(status_of(reader)).to_contain_text("LIVE")
    eventually(lambda: drawn(reader, MAJOR_ROAD, 1500), SEEN_S, "roads")


@pytest.mark.parametrize("paths", [tuple(SHOWN)[k::3] for k in range(3)])
def test_every_page_keeps_what_it_knew_while_the_database_is_away_and_recovers_by_itself(
    light: BrowserContext, site: Site, paths: tuple[str, ...]
) -> None:
    site.report()
    with ExitStack() as open_pages:
        readers: dict[str, Visit] = {}
        for path in paths:
            readers[path] = reader = open_pages.enter_context(visit(light, site.base))
            reader.page.set_viewport_size({"width": 1000, "height": 600})  # the maps of all go on drawing
            reader.open(path)
            expect(reader.page.get_by_text(SHOWN[path]).first).to_be_visible()
            if path in MAPPED:  # else its roads may be asked for only after the link was cut
                eventually(partial(reader.page.evaluate, ROADS_CAME), SEEN_S, "roads")
        site.link.refuse()
        for path, reader in readers.items():
            expect(status_of(reader)).to_contain_text("DATABASE AWAY")
            expect(reader.page.get_by_text(SHOWN[path]).first).to_be_visible()
        eventually(lambda: status(site.base, "/readyz") == 503, SEEN_S, "not ready")
        assert status(site.base, "/livez") == 200
        site.link.heal()
        for reader in readers.values():
            expect(status_of(reader)).not_to_contain_text("DATABASE AWAY")
            expect(reader.page.get_by_test_id("stException")).to_have_count(0)
            assert (reader.complaints, reader.outside()) == ([], [])
        eventually(lambda: status(site.base, "/readyz") == 200, SEEN_S, "ready again")


def test_metrics_count_the_database_as_up(site: Site) -> None:
    assert status(site.base, "/readyz") == 200
    with urllib.request.urlopen(site.base + "/metrics", timeout=10) as answer:
        assert "odograph_dashboard_database_up 1.0" in answer.read().decode()


def check_coast(reader: Visit) -> None:
    """The world is of one colour, none of the sea's, until its coast is there."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    reader.page.route("**/map/coast.json", hold)
    reader.page.goto(reader.base)
    ground, sea = (COLOURS["dark"][name] for name in ("ground", "sea"))
    eventually(lambda: near(canvas(reader), ground, 2).mean() > 0.8 and held, SEEN_S, "the ground")
    assert not drawn(reader, sea, 1000)
    held[0].continue_()
    eventually(lambda: near(canvas(reader), sea, 2).mean() > 0.3, SEEN_S, "the sea")
    assert near(canvas(reader), ground, 2).mean() > 0.1


def test_an_empty_database_is_no_data_not_zero_and_the_first_rows_appear(
    stack: Stack, browser: Browser
) -> None:
    terms: dict[str, object] = {"refresh_s": REFRESH_S}
    with open_lane(stack, topics=False, dashboard=terms) as lane, lane.process("dashboard") as process:
        base = f"http://127.0.0.1:{lane.endpoints.http_ports['dashboard']}"
        eventually(lambda: process.assert_running() or status(base, "/readyz") == 200, START_S, "ready")
        with desk(browser, "dark") as dark, visit(dark, base) as reader:
            reader.page.goto(base + "/operations")
            expect(reader.page.get_by_text("No batch within a day")).to_be_visible()
            check_coast(reader)
            expect(reader.page.get_by_text("No data yet")).to_be_visible()
            starting = re.compile("No vehicle has reported yet. Not ready yet: bridge, .*jobs")
            expect(reader.page.get_by_text(starting)).to_be_visible()
            with psycopg.connect(lane.endpoints.db_ingest_url) as connection:
                support_rows.fill(connection, datetime.now(UTC))
            expect(reader.metric("Vehicles")).to_have_text("41")
            assert reader.complaints == []
