"""What `odograph trace` tells a frame by, and how it is shown."""

from __future__ import annotations

from infra.clients.kafka import identity
from infra.contract.topics import partition_of
from infra.contract.verdict import UNREADABLE
from infra.settings.settings import Settings
from infra.trace.follow import Hop, Trace, Wanted, alert_id, matches, on_board, text, verdict_of

FRAME = b'{"schema":1,"vehicle_id":"WDB1240001A000001","boot_id":7,"seq":12,"t0_ms":112,"n":10'
"""Cut short, as a dead letter may be."""


def test_a_vehicles_partition_is_the_one_that_javas_producer_chooses() -> None:
    java = {b"1HGCM82633A000000": 1, b"1HGCM82633A000002": 2, b"1HGCM82633A000003": 0}
    assert {key: partition_of(key, 4) for key in java} == java


def test_a_frame_is_told_by_boot_and_sequence_number_even_where_it_is_no_json() -> None:
    assert identity(FRAME + b"}") == (7, 12)
    assert identity(FRAME) == (7, 12)
    assert identity(b"\xff\xfe") is None
    assert matches(FRAME, Wanted("WDB1240001A000001", 12))
    assert not matches(FRAME, Wanted("WDB1240001A000001", 112)), "112 is its time"
    assert not matches(FRAME, Wanted("WDB1240001A000001", 12, boot_id=8))


def test_a_frame_whose_numbers_are_beyond_all_bounds_is_traced_without_its_times() -> None:
    beyond = b'{"t0_ms":112,"sent_ms":400,"n":1e300,"dt_ms":1e300}'
    assert on_board(beyond) == []
    assert verdict_of(beyond, 1_700_000_000_000, Settings()) == UNREADABLE


def test_a_findings_id_is_that_of_the_real_time_query() -> None:
    assert alert_id("WDB1240001A000001", "overheating", 1, 7, 12) == "a3e3345f18206cb6b5acfc101be9ca29"


def test_hops_are_aligned_with_the_time_since_the_one_before() -> None:
    hops = [
        Hop("sent", "done", "the vehicle's clock", 1_700_000_000_000),
        Hop("stored", "done", "odograph.telemetry[1]@5"),
        Hop("received", "done", "by the bridge", 1_700_000_000_034),
        Hop("archived", "not yet", "offset 5 is in no file"),
    ]
    assert text(Trace("WDB1240001A000001", 7, 12, "ok", 1, 0, hops)).splitlines() == [
        "WDB1240001A000001 boot 7 seq 12: verdict ok, 1 copy",
        "  sent      2023-11-14 22:13:20.000                the vehicle's clock",
        "  stored                                           odograph.telemetry[1]@5",
        "  received  2023-11-14 22:13:20.034      +0.034 s  by the bridge",
        "  archived  not yet                                offset 5 is in no file",
    ]
