"""The pages in a real browser over real rows: what a reader sees, clicks, and never sends elsewhere."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, expect

from dashboard.shared import maps
from dashboard.shared.theme import STATES
from tests.integration.browser_support import SEEN_S, Visit, canvas, charts_drawn, desk, drawn, near, visit
from tests.integration.dashboard_support import Site
from tests.rows.town import ROVER, vehicle_id
from tests.support import eventually

pytestmark = pytest.mark.integration

ICON_PX = 26
CONTROLS_PX = 80
MAJOR_ROAD = "#b6bfca"
PAGES = ("/?traffic=cells", "/?traffic=roads", "/alerts?view=Rules", "/alerts")
"""Those that no other test opens: test_dashboard_outage opens most."""


def status_of(reader: Visit) -> Locator:
    """The header line of the page."""
    return reader.page.locator(".st-key-status")


def test_every_page_opens_without_an_error(reader: Visit) -> None:
    for path in PAGES:
        reader.small().open(path)
        expect(reader.page.get_by_test_id("stException")).to_have_count(0)
        reader.still()
    assert reader.complaints == []


def check_map(reader: Visit, road: str) -> None:
    least = {road: 1500, STATES["moving"]: 300, STATES["idling"]: 40, STATES["parked"]: 200}

    def complete() -> bool:
        seen = canvas(reader)
        assert [colour for colour, count in least.items() if near(seen, colour).sum() < count] == []
        return True

    eventually(complete, SEEN_S, "roads and vehicles on the map")


def test_figures_map_and_charts_equal_the_rows_and_follow_them_and_the_zoom_stays(
    reader: Visit, site: Site
) -> None:
    reader.open("/")
    shown = {"Vehicles": "41", "Reporting": "37", "On the road": "30", "Idling": "6"}
    shown |= {"Incidents": "5", "Mean speed": "31.5 km/h"}
    for label, value in shown.items():
        expect(reader.metric(label)).to_have_text(value)
    expect(reader.page.get_by_text("late frames 5 in 24 h, 3 not repaired")).to_be_visible()
    check_map(reader, MAJOR_ROAD)
    assert any(url.startswith(f"{reader.base}{maps.ROADS_PATH}") for url in reader.requests)
    charts_drawn(reader, 2)
    check_zoom(reader, site)
    expect(reader.page.get_by_test_id("stException")).to_have_count(0)
    assert reader.complaints == []


def check_zoom(reader: Visit, site: Site) -> None:
    """The reader's own zoom of the map outlives two refreshes."""
    before = roads_drawn(reader)
    reader.page.get_by_title("Zoom In").click()
    eventually(lambda: (roads_drawn(reader) != before).mean() > 0.01, SEEN_S, "another zoom")
    zoomed = settled(reader)
    site.report()  # on a busy machine the fleet would be silent by now
    site.stop()
    expect(reader.metric("Idling")).to_have_text("7")
    expect(reader.page.get_by_text("idling 7")).to_be_visible()
    site.report()
    expect(reader.metric("Idling")).to_have_text("6")
    assert (roads_drawn(reader) != zoomed).mean() < 0.005


def test_the_map_draws_in_the_dark_theme_too(browser: Browser, site: Site) -> None:
    site.report()
    with desk(browser, "dark") as dark, visit(dark, site.base) as reader:
        check_map(reader.open("/"), "#4a5563")
        assert reader.complaints == []


def test_pause_holds_the_figures_and_going_on_brings_the_new_ones(reader: Visit, site: Site) -> None:
    reader.small().open("/")
    expect(reader.metric("Idling")).to_have_text("6")
    reader.page.get_by_text("Pause", exact=True).click()
    expect(status_of(reader)).to_contain_text("PAUSED")
    as_of = reader.page.get_by_text("Data as of").inner_text()
    site.stop()
    with visit(reader.page.context, reader.base) as other:
        expect(other.small().open("/").metric("Idling")).to_have_text("7")
    expect(reader.metric("Idling")).to_have_text("6")
    assert reader.page.get_by_text("Data as of").inner_text() == as_of
    reader.page.get_by_text("Pause", exact=True).click()
    expect(reader.metric("Idling")).to_have_text("7")


def roads_drawn(reader: Visit) -> np.ndarray:
    return near(canvas(reader), MAJOR_ROAD)


def settled(reader: Visit) -> np.ndarray:
    """The roads once two looks show the same."""
    last = [roads_drawn(reader)]

    def same() -> bool:
        last.append(roads_drawn(reader))
        return bool((last[-1] == last[-2]).all())

    eventually(same, SEEN_S, "a map that stands still")
    return last[-1]


def test_a_click_on_a_vehicle_on_the_map_opens_its_card_and_then_its_page(reader: Visit) -> None:
    reader.open("/?states=silent")
    eventually(lambda: drawn(reader, STATES["silent"], 60), SEEN_S, "silent vehicles")
    settled(reader)
    rows, columns = np.nonzero(near(canvas(reader), STATES["silent"])[:, :-CONTROLS_PX])
    one = np.hypot(rows - rows[0], columns - columns[0]) < ICON_PX
    place = {"x": float(columns[one].mean()), "y": float(rows[one].mean())}
    chart = reader.page.get_by_test_id("stDeckGlJsonChart")
    chart.hover(position=place)
    expect(chart.get_by_text("TESTFLEET")).to_contain_text("silent")
    # The map takes a press that it has looked at for 250 ms for no click, and without a graphics card it may
    # look for longer: its clock stands meanwhile.
    reader.page.clock.set_fixed_time(datetime.now(UTC))
    chart.click(position=place)
    expect(reader.page.locator(".st-key-card").get_by_text("TESTFLEET000000")).to_be_visible()
    expect(reader.page).to_have_url(re.compile(r"card=TESTFLEET000000(36|37|38)"))
    reader.page.get_by_role("button", name="Open its page").click()
    expect(reader.page).to_have_url(re.compile(r"/vehicle\?vehicle=TESTFLEET000000(36|37|38)"))
    expect(reader.metric("State")).to_have_text("silent")


def test_a_click_on_a_row_leads_to_the_vehicle_and_the_pause_goes_along(reader: Visit) -> None:
    reader.open("/?paused=1")  # a click into a table that is drawn anew is lost
    expect(status_of(reader)).to_contain_text("PAUSED")
    table = reader.page.locator(".st-key-attention").get_by_test_id("stDataFrame")
    reader.click_row(table, f"card={vehicle_id(7)}", 150)
    reader.page.get_by_role("button", name="Open its page").click()
    expect(reader.page).to_have_url(re.compile(f"/vehicle.*vehicle={vehicle_id(7)}"))
    expect(reader.page.get_by_text("Crash records")).to_be_visible()
    expect(status_of(reader)).to_contain_text("PAUSED")
    records = reader.page.get_by_role("region", name="Crash records")
    reader.click_row(records, f"/crashes.*record={vehicle_id(7)}(/|%2F)1(/|%2F)c-1")
    expect(reader.metric("Delta-V, largest")).to_have_text("-27 km/h")


def test_filters_survive_in_the_address(reader: Visit) -> None:
    reader.small().open("/?states=parked&states=idling")
    expect(reader.page.get_by_text("parked 6")).to_be_visible()
    expect(reader.page.get_by_text("moving 24")).to_have_count(0)
    reader.open("/alerts?severity=MAJOR&status_filter=all")
    expect(reader.page.get_by_text("2 incidents.")).to_be_visible()


def test_a_vehicle_silent_for_years_is_shown_where_and_when_it_drove(reader: Visit) -> None:
    reader.open(f"/vehicle?vehicle={ROVER}")
    expect(reader.page.get_by_text("silent since 2021-03-29 08:29:59 UTC")).to_be_visible()
    expect(reader.metric("Distance")).to_have_text("12.0 km")
    expect(reader.page.get_by_text("Coolant")).to_have_count(0)
    eventually(lambda: drawn(reader, "#3b7dd4", 200), SEEN_S, "the trace")
    reader.open(f"/vehicle?vehicle={ROVER}&span=30+d")
    expect(reader.page.get_by_text("Its path within the last 7 days of the span.")).to_be_visible()


def test_text_of_a_device_is_shown_as_text(reader: Visit) -> None:
    reader.small().open(f"/vehicle?vehicle={vehicle_id(23)}")
    expect(reader.page.get_by_text('<b onclick="x()">b</b> ![i](http://198.51.100.1/i.png)')).to_be_visible()
    assert reader.page.locator("a[href*='198.51']").count() == 0


def test_a_page_opened_first_by_its_own_address_has_the_navigation_and_an_unknown_vehicle_no_data(
    reader: Visit,
) -> None:
    reader.open("/vehicle?vehicle=TESTNONE000000000")
    expect(reader.page.get_by_text("No data of this vehicle.")).to_be_visible()
    names = reader.page.get_by_test_id("stSidebarNavLink").all_inner_texts()
    assert {"Fleet", "Vehicle", "Alerts", "Crashes", "Operations"} <= {
        name.splitlines()[-1] for name in names
    }
