"""The page without sign-in."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from load_tests.drills.poison.gates import host_promises
from tests.integration.browser_support import Visit
from tests.integration.dashboard_support import Site

pytestmark = pytest.mark.integration


def test_without_sign_in_the_page_is_local_says_so_and_asks_for_a_name(reader: Visit, site: Site) -> None:
    reader.open("/alerts?alert=5")
    expect(reader.page.get_by_text("Local only: no sign-in is set up").first).to_be_visible()
    reader.page.get_by_role("button", name="Acknowledge").click()
    expect(reader.page.get_by_text("name: a line of 1 to 80 characters is wanted")).to_be_visible()
    reader.page.get_by_label("Your name").first.fill("B. Okoro")
    reader.page.get_by_role("button", name="Acknowledge").click()
    expect(reader.page.get_by_text("acknowledged by B. Okoro")).to_be_visible()
    site.execute(
        "UPDATE odograph.alert SET acknowledged_at = NULL, acknowledged_by = NULL WHERE alert_no = 5"
    )


def test_no_route_and_no_socket_for_a_site_under_a_rebound_name(site: Site) -> None:
    promises = [*host_promises(site.lane.endpoints.http_ports["dashboard"])]
    assert [f"{each.text}: {each.found}" for each in promises if not each.holds] == []
    assert len(promises) == 6
