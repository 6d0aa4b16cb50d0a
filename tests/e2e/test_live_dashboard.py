"""A fleet at the edge, seen in a browser a moment later."""

from __future__ import annotations

import numpy as np
import pytest
from playwright.sync_api import expect

from edge_simulator.town.roads import city
from infra.sql import queries
from tests.e2e.support import Drive
from tests.integration.browser_support import SEEN_S, WAIT_MS, canvas, chromium, desk, visit
from tests.support import Lane, eventually

pytestmark = pytest.mark.e2e

SEED, VEHICLES = 12, 30
FLEET = ("-c", str(VEHICLES), "--rate", str(VEHICLES), "--duration", "600s", "--seed", str(SEED))


def test_a_fleet_at_the_edge_moves_on_the_map_and_its_figures_change(pipeline: Lane, drive: Drive) -> None:
    roads = city(SEED, 48.137, 11.575).edges()
    queries.store_roads(pipeline.endpoints.db_ingest_url, f"city-{SEED}", roads)
    base = f"http://127.0.0.1:{pipeline.endpoints.http_ports['dashboard']}"
    with (
        chromium() as browser,
        # A small window: its map is drawn in software, beside Spark.
        desk(browser, width=700, height=600) as context,
        pipeline.process("simulate", *FLEET, "--run-id", "e2e-live") as simulator,
        visit(context, base) as reader,
    ):
        eventually(lambda: reporting(pipeline) >= VEHICLES, 90, "the fleet is in the view")
        reader.open("/")
        total = drive.summary["vehicles"] + VEHICLES
        expect(reader.metric("Vehicles")).to_have_text(str(total), timeout=WAIT_MS)
        first = reader.page.get_by_text("Data as of").inner_text()
        expect(reader.page.get_by_text("Data as of")).not_to_have_text(first)
        before = canvas(reader)
        eventually(lambda: not np.array_equal(canvas(reader), before), SEEN_S, "the map changes")
        assert len({tuple(p) for p in before.reshape(-1, 3)[::7]}) > 5
        assert reader.outside() == []
        assert reader.complaints == []
        simulator.assert_running()


def reporting(lane: Lane) -> int:
    """Vehicles that are not silent."""
    return int(queries.pulse(lane.endpoints.db_dashboard_url)["vehicles_reporting"])
