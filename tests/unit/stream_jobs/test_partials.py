"""Partial rows out of payloads: strict reading, and sums that equal the oracle's, without Spark."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_jobs.partials.stage import Stage

from infra.contract.verdict import ClockLimits
from load_tests.oracle import Limits, cell_of, samples
from stream_jobs.frames import heads
from stream_jobs.frames.reading import FRAME_SCHEMA, HEAD_SCHEMA, SINGLY, read
from stream_jobs.windows import PARTS
from tests.support_frames import frame, random_frame, vin

T0 = 1_767_225_600_000
LIMITS = ClockLimits(floor_ms=1_420_070_400_000, ahead_ms=10_000, lateness_ms=30_000)
STAGE = Stage(window_ms=10_000, road_window_ms=60_000, limits=LIMITS)
Row = dict[str, Any]


def staged(payloads: list[bytes], received_ms: int = T0 + 20_000) -> list[Row]:
    batch = pa.RecordBatch.from_pydict(
        {
            "received_ms": pa.array([received_ms] * len(payloads), pa.int64()),
            "value": pa.array(payloads, pa.binary()),
        }
    )
    rows: list[Row] = STAGE.frames(batch, PARTS).to_pylist()
    return rows


GOOD = orjson.dumps({"vehicle_id": vin(1), "boot_id": 1, "seq": 7, "speed_kmh": [1.5, None], "gear": 3})
SEQ_OF: list[tuple[bytes | None, int | None]] = [
    (GOOD, 7),
    (b" " + GOOD + b"\n", 7),
    (GOOD.replace(b'"seq":7', b'"seq":1,"seq":7'), 7),
    (GOOD.replace(b'"gear":3', b'"gear":"x"'), 7),
    (GOOD.replace(b"[1.5,null]", b'[1.5,"2"]'), 7),
    (GOOD.replace(b'"seq":7', b'"seq":7.0'), None),
    (GOOD.replace(b'"seq":7', b'"seq":true'), None),
    (GOOD.replace(b'"seq":7', b'"seq":99999999999999999999'), None),
    (GOOD.replace(b'"gear":3', b'"gear":NaN'), None),
    (GOOD.replace(b'"gear":3', b'"gear":-Infinity'), None),
    (GOOD.replace(b'"gear":3', b'"note":"\xff"'), None),
    (GOOD + GOOD, None),
    (GOOD + b"\x00}", None),
    (GOOD[:-1], None),
    (b"[1]", None),
    (b"", None),
    (None, None),
]


@settings(max_examples=50)
@given(st.data())
def test_a_payload_is_read_the_same_whatever_stands_beside_it(data: st.DataObject) -> None:
    few = data.draw(st.lists(st.sampled_from(SEQ_OF), max_size=6))
    before = data.draw(st.integers(0, 3 * SINGLY))
    mixed = [(GOOD, 7)] * before + few
    table = read(pa.array([payload for payload, _ in mixed], pa.binary()))
    assert table["seq"].to_pylist() == [seq for _, seq in mixed]


def test_a_value_of_a_wrong_type_is_not_available_and_the_others_are() -> None:
    wrong = GOOD.replace(b'"gear":3', b'"gear":"x"').replace(b"[1.5,null]", b'[1.5,"2",true]')
    row = read(pa.array([wrong], pa.binary())).to_pylist()[0]
    assert (row["seq"], row["gear"], row["speed_kmh"]) == (7, None, [1.5, None, None])


def test_two_halves_of_an_object_are_not_one_and_two_objects_are_not_two_records() -> None:
    halves = [b'{"seq":1,"x":"}', b'{","seq":2}', b'{"seq":3}{"seq":4}', b'{"seq":5}']
    assert read(pa.array(halves, pa.binary()))["seq"].to_pylist() == [None, None, None, 5]


@settings(max_examples=50)
@given(
    st.integers(0, 2**32),
    st.lists(
        st.tuples(
            st.integers(-9_000, 9_000), st.sampled_from([1, 40, 100, 700]), st.sampled_from([1, 3, 10])
        ),
        min_size=1,
        max_size=8,
    ),
)
def test_partial_rows_add_up_to_what_the_oracle_finds(seed: int, shapes: list[tuple[int, int, int]]) -> None:
    rng = random.Random(seed)
    frames = [
        random_frame(1, seq, T0 + after_ms, rng, dt_ms=dt_ms, n=n)
        for seq, (after_ms, dt_ms, n) in enumerate(shapes)
    ]
    staged_rows = staged([orjson.dumps(f) for f in frames])
    rows = [row for row in staged_rows if row["visit_ms"] is None]
    assert visited(staged_rows) == sorted({key for told in frames for key in expected_roads(told)})
    assert [row["seq"] for row in rows] == list(range(len(frames)))
    for row, told in zip(rows, frames, strict=True):
        partials = row["partials"]
        assert vehicle_sums(partials) == expected_sums(told)
        assert road_sums(partials) == expected_roads(told)


def visited(rows: list[Row]) -> list[tuple[Any, ...]]:
    """The keys of the groups visited, as ``road_sums`` has them; each says one vehicle and nothing else."""
    visits = [(row, row["partials"]) for row in rows if row["visit_ms"] is not None]
    for row, (partial,) in visits:
        assert (row["boot_id"], row["seq"], row["visit_ms"]) == (
            partial["cell"], partial["heading_sector"], partial["start_ms"],
        )  # fmt: skip
        told = {name for name, value in partial.items() if value is not None}
        assert told == {"cell", "heading_sector", "start_ms", "visits"}
        assert partial["visits"] == 1
    return sorted(
        (f"{partial['cell']:x}", partial["heading_sector"], partial["start_ms"]) for _, (partial,) in visits
    )


def vehicle_sums(partials: list[Row]) -> dict[int, Row]:
    return {row["start_ms"]: {k: row[k] for k in CHECKS} for row in partials if row["cell"] is None}


def _known(name: str, choose: Callable[[list[int]], Any]) -> Callable[[list[Any]], Any]:
    def value(found: list[Any]) -> Any:
        values = [v for s in found if (v := s.values[name]) is not None]
        return choose(values) if values else None

    return value


CHECKS: dict[str, Callable[[list[Any]], Any]] = {
    "frames": lambda found: sum(s.first for s in found),
    "samples": len,
    "out_of_range": lambda found: sum(s.wrong for s in found),
    "first_event_ms": lambda found: min(s.event_ms for s in found),
    "last_event_ms": lambda found: max(s.event_ms for s in found),
    "speed_kmh_sum": _known("speed_kmh", sum),
    "speed_kmh_max": _known("speed_kmh", max),
    "accel_long_mps2_min": _known("accel_long_mps2", min),
    "coolant_temp_c_sum": _known("coolant_temp_c", sum),
    "battery_voltage_v_min": _known("battery_voltage_v", min),
    "tyre_fl_kpa20_sum": _known("tyre_fl", sum),
    "cell_spread_mv_max": _known("cell_spread_mv", max),
    "brake_pad_wear_fl_pct_max": _known("brake_pad_wear_fl_pct", max),
    "oil_shortfall_max": _known("oil_shortfall_300", max),
    "fuel_trim_sum": _known("fuel_trim", sum),
    "battery_rest_sum": _known("battery_rest", sum),
    "battery_running_sum": _known("battery_running", sum),
    "forward_gear_min": _known("forward_gear", min),
}


def expected_sums(told: Row) -> dict[int, Row]:
    by_window: dict[int, list[Any]] = {}
    for sample in samples(told, late=False):
        by_window.setdefault(sample.event_ms // 10_000 * 10_000, []).append(sample)
    return {start: {name: of(found) for name, of in CHECKS.items()} for start, found in by_window.items()}


def road_sums(partials: list[Row]) -> dict[tuple[str, int, int], list[int]]:
    out: dict[tuple[str, int, int], list[int]] = {}
    for row in partials:
        if row["cell"] is not None:
            cell = f"{row['cell']:x}"
            sums = out.setdefault((cell, row["heading_sector"], row["start_ms"]), [0, 0, 0])
            for i, name in enumerate(("samples", "time_ms_sum", "speed_over_time_sum")):
                sums[i] += row[name]
    return out


def expected_roads(told: Row) -> dict[tuple[str, int, int], list[int]]:
    out: dict[tuple[str, int, int], list[int]] = {}
    for sample in samples(told, late=False):
        cell = cell_of(sample)
        if cell is not None:
            start = sample.event_ms // Limits().road_window_ms * Limits().road_window_ms
            sums = out.setdefault((*cell, start), [0, 0, 0])
            for i, value in enumerate((1, sample.dt_ms, (sample.values["speed_kmh"] or 0) * sample.dt_ms)):
                sums[i] += value
    return out


@pytest.mark.parametrize("given_values", [3, 12])
def test_a_fast_array_that_is_too_short_or_too_long_counts_for_the_frames_samples(given_values: int) -> None:
    told = frame(1, 0, T0, n=10) | {"speed_kmh": [36.0] * given_values}
    row = staged([orjson.dumps(told)])[0]["partials"][0]
    assert (row["samples"], row["speed_kmh_count"]) == (10, min(given_values, 10))


def test_a_number_of_too_many_digits_makes_a_payload_unreadable_to_every_reader() -> None:
    plain = orjson.dumps(frame(1, 0, T0, speed_kmh=10.0))
    long = plain[:-1] + b',"engine_rpm":' + b"1" * 400 + b"}"
    with_text = plain[:-1] + b',"yaw_rate_dps":"x","engine_rpm":' + b"1" * 400 + b"}"
    for payloads in ([plain, long], [with_text, plain], [plain, long, with_text] * 40):
        for schema in (FRAME_SCHEMA, HEAD_SCHEMA):
            seen = heads.readable(read(pa.array(payloads, pa.binary()), schema)).tolist()
            assert seen == [each is plain for each in payloads]
