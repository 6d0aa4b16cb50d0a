"""In which order a vehicle's archived frames are put through the core."""

from __future__ import annotations

from stream_jobs.recompute.feed import came
from stream_jobs.vehicles.sequencer import Arrival


def test_frames_of_two_logs_lie_side_by_side_by_receipt_whatever_their_offsets() -> None:
    live = [(0, offset, Arrival(1, 100 + offset, 0, 50_000 + offset, None)) for offset in (0, 1, 2)]
    filled_in = [(0, offset, Arrival(1, offset, 0, 1_000 + offset, None)) for offset in (0, 1, 2)]
    order = [each.seq for _, _, each in sorted([*live, *filled_in], key=came)]
    assert order == [0, 1, 2, 100, 101, 102]


def test_frames_received_in_the_same_millisecond_keep_the_order_of_their_log() -> None:
    log = [(0, offset, Arrival(1, offset, 0, 1_000, None)) for offset in (3, 1, 2)]
    assert [offset for _, offset, _ in sorted(log, key=came)] == [1, 2, 3]
