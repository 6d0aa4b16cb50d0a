"""The charts of live pages in a real browser: their lines are drawn, and stay through a refresh."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator

from dashboard.shared.theme import SERIES
from infra.stack.probes import metrics
from infra.stack.watch.samples import Metrics
from tests.integration.browser_support import SEEN_S, Visit, near, pixels_of
from tests.integration.dashboard_support import Site, batches_until_now
from tests.rows.town import vehicle_id
from tests.support import eventually

pytestmark = pytest.mark.integration

LEGEND_PX = 60
"""More pixels than a legend's stroke of the same colour has."""
VEHICLE = f"/vehicle?vehicle={vehicle_id(0)}"
PAGES = {"/": 2, VEHICLE: 5, "/operations": 2}
"""How many charts a page has at least."""


@pytest.mark.parametrize("path", ["/", "/operations"])
def test_every_chart_draws_its_lines(reader: Visit, site: Site, path: str) -> None:
    batches_until_now(site)
    drawn(reader.open(path), PAGES[path])
    assert reader.complaints == []


def test_charts_of_a_vehicle_are_drawn_and_stay_through_a_refresh(reader: Visit, site: Site) -> None:
    charts = drawn(reader.open(VEHICLE), PAGES[VEHICLE])
    before = runs(site, "vehicle.health")
    eventually(lambda: runs(site, "vehicle.health") > before, SEEN_S, "a refresh")
    reader.still()
    assert all(lines(chart) for chart in charts.all())
    assert reader.complaints == []


def drawn(reader: Visit, least: int) -> Locator:
    """The charts of the page, when each of them has its lines."""
    charts = reader.page.get_by_test_id("stVegaLiteChart")
    eventually(lambda: charts.count() >= least, SEEN_S, "charts")
    eventually(lambda: all(lines(chart) for chart in charts.all()), SEEN_S, "lines in every chart")
    return charts


def lines(chart: Locator) -> bool:
    """Whether its first series is there."""
    return int(near(pixels_of(chart), SERIES[0], 40).sum()) > LEGEND_PX


def runs(site: Site, part: str) -> float:
    """How often the server has drawn this part."""
    told = Metrics(metrics(urlsplit(site.base).port or 0))
    return told.by("odograph_dashboard_part_seconds_count", "part").get(part, 0.0)
