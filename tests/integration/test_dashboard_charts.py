"""The charts of live pages in a real browser: their lines are drawn, and go on with new rows."""

from __future__ import annotations

import re
import urllib.request

import pytest
from playwright.sync_api import Locator

from dashboard.palette import SERIES
from tests.integration.browser_support import SEEN_S, Visit, near, pixels_of
from tests.integration.dashboard_support import Site
from tests.rows.town import vehicle_id
from tests.support import eventually

pytestmark = pytest.mark.integration

LEGEND_PX = 60
"""More pixels than a legend's stroke of the same colour has."""
PAGES = {
    "/": ("fleet.trends", 2),
    f"/vehicle?vehicle={vehicle_id(0)}": ("vehicle.health", 5),
    "/operations": ("operations.past", 2),
}
"""By address: the live part that the charts belong to, and how many charts there are at least."""


@pytest.mark.parametrize("path", PAGES)
def test_every_chart_draws_its_lines_and_goes_on_with_new_rows(reader: Visit, site: Site, path: str) -> None:
    part, least = PAGES[path]
    reader.open(path)
    charts = reader.page.get_by_test_id("stVegaLiteChart")
    eventually(lambda: charts.count() >= least, SEEN_S, "charts")
    eventually(lambda: all(lines(chart) for chart in charts.all()), SEEN_S, "lines in every chart")
    before = runs(site, part)
    eventually(lambda: runs(site, part) > before, SEEN_S, "a refresh")
    reader.still()
    assert all(lines(chart) for chart in charts.all())
    assert reader.complaints == []


def lines(chart: Locator) -> bool:
    """Whether its first series is there."""
    return int(near(pixels_of(chart), SERIES[0], 40).sum()) > LEGEND_PX


def runs(site: Site, part: str) -> float:
    """How often the server has drawn this part."""
    with urllib.request.urlopen(site.base + "/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found = re.search(rf'part_seconds_count{{part="{re.escape(part)}"}} (\S+)', text)
    return float(found[1]) if found else 0.0
