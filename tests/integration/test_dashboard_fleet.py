"""The page of the fleet: search and card, many silent vehicles; rows that maps fetch."""

from __future__ import annotations

import gzip
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from playwright.sync_api import expect

from dashboard.shared.theme import SEVERITIES, STATES
from tests import support_rows
from tests.integration.browser_support import SEEN_S, Visit, drawn
from tests.integration.dashboard_support import Site, traffic_of_now
from tests.rows.fleet import SILENT_FROM, silence, speed_kmh
from tests.rows.town import vehicle_id
from tests.support import eventually

pytestmark = pytest.mark.integration


def fetched(site: Site, path: str) -> Any:
    with urllib.request.urlopen(site.base + path, timeout=10) as answer:
        return json.loads(gzip.decompress(answer.read()))


def test_search_and_card_lead_to_any_vehicle(reader: Visit) -> None:
    reader.open("/")
    reader.page.get_by_label("Find a vehicle").fill("00000005")
    reader.page.get_by_label("Find a vehicle").press("Enter")
    found = reader.page.locator(".st-key-found").get_by_test_id("stDataFrame")
    reader.click_row(found, "card=")
    card = reader.page.locator(".st-key-card")
    expect(card.get_by_text(vehicle_id(5))).to_be_visible()
    expect(card.get_by_text(f"{speed_kmh(5):.0f} km/h")).to_be_visible()
    card.get_by_role("button", name="Close").click()
    expect(card).to_have_count(0)
    assert "card=" not in reader.page.url


def test_a_card_is_part_of_the_address_and_maps_fetch_vehicles_and_bubbles_by_theirs(
    reader: Visit, site: Site
) -> None:
    reader.small().open(f"/?card={vehicle_id(0)}")
    card = reader.page.locator(".st-key-card")
    expect(card.get_by_text("Coolant 112.5 degC, limit 105")).to_be_visible()
    expect(card.get_by_text("63 km/h where 50 is allowed")).to_be_visible()
    expect(reader.page.get_by_text("idling 6")).to_be_visible()
    assert reader.complaints == []
    rows = fetched(site, "/map/vehicles.json?at=older-than-all&states=parked,idling")
    assert sorted({row["icon"] for row in rows}) == ["idling", "parked"]
    assert len(rows) == 12
    town = fetched(site, "/map/clusters/5/16/10.json?at=older-than-all")["features"]
    assert [bubble["properties"]["n"] for bubble in town] == ["40"]
    with pytest.raises(urllib.error.HTTPError, match="404"):
        fetched(site, "/map/clusters/5/16/99.json?at=")


def test_rows_that_another_dashboard_has_made_are_those_of_now(site: Site) -> None:
    """No page of this one shows the traffic: the browser has the addresses from another one."""
    site.report()
    traffic_of_now(site)
    assert {row["vehicle_id"] for row in fetched(site, "/map/vehicles.json?at=anothers")}
    assert {row["tip"].partition(":")[0] for row in fetched(site, "/map/cells.json?at=anothers")}
    assert fetched(site, "/map/edges.json?at=anothers") == []


def test_four_hundred_silent_vehicles_are_a_line_on_the_map_and_one_incident_in_the_list(
    reader: Visit, site: Site
) -> None:
    with flood(site) as number:
        reader.open("/")
        line = reader.page.locator(f".st-key-fleet_{number}")
        expect(line).to_contain_text("MINOR · 400 vehicles")
        expect(reader.metric("Incidents")).to_have_text("6")
        eventually(lambda: drawn(reader, STATES["silent"], 2000), SEEN_S, "the silent vehicles")
        assert not drawn(reader, SEVERITIES["MINOR"], 400)  # a pin has about 300 pixels
        reader.page.set_viewport_size({"width": 390, "height": 844})
        expect(line).to_be_visible()
        assert reader.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        line.get_by_role("button").click()
        expect(reader.page).to_have_url(re.compile(rf"/alerts\?incident={number}"))
        expect(reader.page.get_by_text("MINOR · active, new · silence")).to_be_visible()
        expect(reader.metric("Vehicles")).to_have_text("400")
        expect(reader.page.get_by_text("6 incidents.")).to_be_visible()
    assert reader.complaints == []


@contextmanager
def flood(site: Site) -> Iterator[int]:
    """400 more vehicles, silent since the same minute; their alerts joined as the event store does it."""
    now = datetime.now(UTC)
    with psycopg.connect(site.lane.endpoints.db_ingest_url) as connection:
        for table, rows in silence(now).items():
            support_rows.insert(connection, table, rows)
        support_rows.join(connection)
    try:
        with psycopg.connect(site.lane.endpoints.db_dashboard_url) as connection:
            found = connection.execute(
                "SELECT incident_no, vehicles FROM serving.incident WHERE cause = 'silence'"
            )
            ((number, many),) = found.fetchall()
        assert many == 400
        yield number
    finally:
        site.execute("DELETE FROM odograph.incident WHERE cause = 'silence'")
        for table in ("alert", "vehicle_latest", "vehicle"):
            site.execute(f"DELETE FROM odograph.{table} WHERE vehicle_id >= %s", vehicle_id(SILENT_FROM))
