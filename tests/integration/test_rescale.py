"""The state of the query telemetry in more buckets: it goes on behind the old checkpoint, to equal tables."""

from __future__ import annotations

import pytest

from infra.stack.stack import Stack
from tests.integration.stream_support import HOUR_MS, agrees, base_ms, drive, page, query, spoilt
from tests.support import Lane, eventually, open_lane
from tests.support_frames import send

pytestmark = pytest.mark.integration

READY_S = 360
DONE_S = 400
FLEET = range(31, 39)
JOBS = {"trigger_s": 0.5, "archive_trigger_s": 1.0, "repair_interval_s": 1.0, "max_offsets": 400}
TAKEN_IN = """
SELECT sum(input_rows)::bigint AS n FROM odograph.query_progress p WHERE query = 'telemetry' AND query_id = (
    SELECT query_id FROM odograph.batch_ledger WHERE query = 'telemetry' ORDER BY committed_at DESC LIMIT 1)
"""


def test_state_is_split_and_the_query_goes_on_where_it_was(stack: Stack) -> None:
    start_ms = base_ms()
    records = spoilt(drive(FLEET, start_ms, 120, seed=11), seed=12)
    half = len(records) // 2

    def equal(lane: Lane, sent: int) -> bool:
        return agrees(lane, records[:sent], FLEET, start_ms, start_ms + HOUR_MS // 2)

    with open_lane(stack, jobs=JOBS) as lane, lane.process("maintenance"):
        with lane.process("jobs", "stream"):
            eventually(lambda: page(lane, "readyz")[0] == 200, READY_S, "the stream application is ready")
            send(lane, records[:half])
            eventually(lambda: equal(lane, half), DONE_S, "the first half is in the tables")
        refused = lane.run("jobs", "rescale", "5")
        assert (refused.returncode, "no multiple of 2" in refused.stderr) == (2, True), refused.stderr
        done = lane.run("jobs", "rescale", "6")
        assert done.returncode == 0, done.stderr
        assert "lies in 6 buckets now" in done.stdout
        assert "lies in 6 buckets" in lane.run("jobs", "rescale", "6").stdout
        assert len([*lane.home.glob("checkpoints.old/telemetry-*")]) == 1

        lane.env.update({"ODOGRAPH_JOBS_VEHICLE_BUCKETS": "6", "ODOGRAPH_JOBS_SHUFFLE_PARTITIONS": "6"})
        with lane.process("jobs", "stream"):
            eventually(lambda: page(lane, "readyz")[0] == 200, READY_S, "the stream application is ready")
            send(lane, records[half:])
            eventually(lambda: equal(lane, len(records)), DONE_S, "all is in the tables")
            eventually(
                lambda: query(lane, TAKEN_IN)[0]["n"] == len(records) - half,
                DONE_S,
                "it read no record again",
            )
        assert equal(lane, len(records))
