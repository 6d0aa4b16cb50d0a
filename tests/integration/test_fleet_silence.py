"""A fleet that stops as a whole: wall time runs its timers, and a run of the batch layer says the same."""

from __future__ import annotations

import time
from typing import Any

import orjson
import pytest

from infra.stack.stack import Stack
from stream_jobs.reprocess.queue import GRACE_MS
from stream_jobs.reprocess.work import CLOSERS
from stream_jobs.rules.model import SHIPPED
from tests.integration.stream_support import query, ready
from tests.support import Lane, eventually, open_lane
from tests.support_frames import frame, send

pytestmark = pytest.mark.integration

FLEET, SILENT_S, CLOCK_S, ROAD_S = 40, 12, 3, 10
INCIDENTS = """
SELECT vehicle_id, vehicles, alerts, active, cause, extract(epoch FROM opened_at)::float8 AS opened
FROM serving.incident ORDER BY opened_at
"""
COMPLETE = "SELECT query FROM odograph.query_completeness WHERE complete_until > to_timestamp({})"
ALERTS = """
SELECT vehicle_id, opened_at, cleared_at, findings, revision, withdrawn_at FROM odograph.alert
WHERE opened_at < to_timestamp({}) ORDER BY 1, 2
"""


def report(lane: Lane, seq: int) -> float:
    """A frame of each vehicle, received now; when that was, s."""
    now_ms = time.time_ns() // 1_000_000
    frames = [frame(v, seq, now_ms - 1000, speed_kmh=36.0, ignition_on=True) for v in range(FLEET)]
    send(lane, [(now_ms, orjson.dumps(each)) for each in frames])
    return now_ms / 1000


def test_a_fleet_that_stops_is_one_incident_without_a_word_of_any_vehicle_and_clears_when_it_is_back(
    stack: Stack,
) -> None:
    text = SHIPPED.read_text().replace("silent_for_s: 300", f"silent_for_s: {SILENT_S}")
    jobs = {
        "clock_s": CLOCK_S,
        "trigger_s": 0.5,
        "archive_trigger_s": 1.0,
        "publish_s": 1.0,
        "lateness_s": 2,
        "road_window_s": ROAD_S,
    }
    with open_lane(stack, jobs=jobs | {"receipt_skew_s": 2}) as lane:
        rules = lane.home / "rules.yaml"
        rules.write_text(text)
        lane.env["ODOGRAPH_JOBS_RULES"] = str(rules)

        def incidents(active: bool) -> list[dict[str, Any]]:
            return [
                row for row in query(lane, INCIDENTS) if row["active"] == active and row["alerts"] == FLEET
            ]

        with lane.process("jobs", "stream") as process, lane.process("jobs", "events"):
            eventually(lambda: ready(lane, process), 360, "the stream application is ready")
            report(lane, 0)
            latest = "SELECT count(*) AS n FROM odograph.vehicle_latest"
            eventually(lambda: query(lane, latest)[0]["n"] == FLEET, 120, "the fleet is known")
            stopped_s = report(lane, 1)
            (found,) = eventually(lambda: incidents(active=True), 120, "an incident of the fleet")
            assert (found["vehicle_id"], found["vehicles"], found["cause"]) == (None, FLEET, "silence")
            assert found["opened"] == pytest.approx(stopped_s + SILENT_S, abs=1.5)
            back_s = report(lane, 2)
            eventually(lambda: incidents(active=False), 60, "it is over")
            assert len(query(lane, INCIDENTS)) == 1
            live = query(lane, ALERTS.format(back_s))
            assert len(live) == FLEET
            over_s = back_s + ROAD_S  # a span of whole windows has the silence and its end
            closed_s = over_s + jobs["lateness_s"] + GRACE_MS / 1000 + ROAD_S

            def all_closed() -> bool:
                found = query(lane, COMPLETE.format(closed_s))
                return {row["query"] for row in found} >= set(CLOSERS)

            eventually(all_closed, 120, "archive and windows have all, and nothing in time can come")
            done = lane.run("recompute", "--from", _iso(stopped_s - 60), "--to", _iso(over_s))
            assert done.returncode == 0, done.stdout + done.stderr
            assert query(lane, ALERTS.format(back_s)) == live, done.stdout  # the fleet may be silent again
            process.assert_running()
            process.kill()  # nobody needs what it would still put in order


def _iso(at_s: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at_s))
