"""The charts of live pages in a real browser: their lines are drawn, and stay through a refresh."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from infra.stack.probes import metrics
from infra.stack.watch.samples import Metrics
from tests.integration.browser_support import SEEN_S, Visit, charts_drawn, lined
from tests.integration.dashboard_support import Site
from tests.rows.town import vehicle_id
from tests.support import eventually

pytestmark = pytest.mark.integration


def test_charts_of_a_vehicle_are_drawn_and_stay_through_a_refresh(reader: Visit, site: Site) -> None:
    charts = charts_drawn(reader.open(f"/vehicle?vehicle={vehicle_id(0)}"), 5)
    before = runs(site, "vehicle.health")
    eventually(lambda: runs(site, "vehicle.health") > before, SEEN_S, "a refresh")
    reader.still()
    assert all(lined(chart) for chart in charts.all())
    assert reader.complaints == []


def runs(site: Site, part: str) -> float:
    """How often the server has drawn this part."""
    told = Metrics(metrics(urlsplit(site.base).port or 0))
    return told.by("odograph_dashboard_part_seconds_count", "part").get(part, 0.0)
