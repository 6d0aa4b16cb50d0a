"""What single frames add to windows, by vehicle and by place: equal to what the oracle sums."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from load_tests.oracle import Limits, cell_of, samples
from stream_jobs.frames.arrays import Frames
from stream_jobs.frames.batch import frame_batch
from stream_jobs.windows.block import cut, parts_of
from stream_jobs.windows.places import Places, road_rows
from stream_jobs.windows.vehicle import PARTS
from tests.support_frames import frame, random_frame
from tests.unit.stream_jobs.window_support import LIMITS, T0, Row, recorded

KEYS = ("place", "heading_sector", "start_ms")
SUMS = ("samples", "time_ms_sum", "speed_over_time_sum")


def batch_of(payloads: list[bytes], received_ms: int = T0 + 20_000) -> Frames:
    batch = frame_batch(recorded([(received_ms, payload) for payload in payloads]), LIMITS)
    assert batch is not None
    return batch


def window_parts(batch: Frames) -> list[dict[int, Row]]:
    """Of each frame its parts by the start of their window; what is not known is None."""
    begins, starts_ms = cut(batch, 10_000)
    parts = parts_of(batch, begins, 10_000)
    combined = {part.name: parts[part.name] for part in PARTS}
    of_frames: list[dict[int, Row]] = [{} for _ in range(len(batch))]
    for k, (of, start_ms) in enumerate(zip(batch.of_sample[begins], starts_ms.tolist(), strict=True)):
        assert start_ms not in of_frames[of]
        of_frames[of][start_ms] = {
            name: int(part.values[k]) if part.known[k] else None for name, part in combined.items()
        }
    return of_frames


@pytest.mark.slow
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
def test_what_frames_add_to_windows_is_what_the_oracle_finds(
    seed: int, shapes: list[tuple[int, int, int]]
) -> None:
    rng = random.Random(seed)
    frames = [
        random_frame(1, seq, T0 + after_ms, rng, dt_ms=dt_ms, n=n)
        for seq, (after_ms, dt_ms, n) in enumerate(shapes)
    ]
    batch = batch_of([orjson.dumps(f) for f in frames])
    assert batch.ok.all()
    assert batch.seq.tolist() == list(range(len(frames)))
    assert visited(batch) == sorted({key for told in frames for key in expected_roads(told)})
    for told, found, roads in zip(frames, window_parts(batch), road_sums(batch), strict=True):
        assert {start: {k: row[k] for k in CHECKS} for start, row in found.items()} == expected_sums(told)
        assert roads == expected_roads(told)


def visited(batch: Frames) -> list[tuple[str, int, int]]:
    """The places visited, each once, as ``road_sums`` has them; each says one vehicle."""
    (rows,) = road_rows(batch, 60_000, None)
    of_frame, keys = np.zeros(len(batch), np.int64), []
    for start in np.unique(rows["start_ms"]).tolist():
        places = Places()
        places.add(batch.vehicles[:1], of_frame, rows, rows["start_ms"] == start)
        shares = places.given_out(start)
        assert shares is not None
        for share in shares.to_pylist():
            assert share["vehicles"] == 1
            keys.append((f"{share['place']:x}", share["heading_sector"], share["start_ms"]))
    assert len(keys) == len(set(keys))
    return sorted(keys)


def _known(name: str, choose: Callable[[list[int]], Any]) -> Callable[[list[Any]], Any]:
    def value(found: list[Any]) -> Any:
        values = [v for s in found if (v := s.values[name]) is not None]
        return choose(values) if values else None

    return value


CHECKS: dict[str, Callable[[list[Any]], Any]] = {
    "frames_sum": lambda found: sum(s.first for s in found),
    "samples_count": len,
    "out_of_range_sum": lambda found: sum(s.wrong for s in found),
    "event_ms_min": lambda found: min(s.event_ms for s in found),
    "event_ms_max": lambda found: max(s.event_ms for s in found),
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


def road_sums(batch: Frames) -> list[dict[tuple[str, int, int], list[int]]]:
    """Of each frame its sums by place."""
    (rows,) = road_rows(batch, 60_000, None)
    out: list[dict[tuple[str, int, int], list[int]]] = [{} for _ in range(len(batch))]
    columns = [rows[name].tolist() for name in (*KEYS, *SUMS)]
    for of, cell, sector, start_ms, *row in zip(rows["of_frame"].tolist(), *columns, strict=True):
        sums = out[of].setdefault((f"{cell:x}", sector, start_ms), [0, 0, 0])
        sums[:] = [a + b for a, b in zip(sums, row, strict=True)]
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
    ((row,),) = (found.values() for found in window_parts(batch_of([orjson.dumps(told)])))
    assert (row["samples_count"], row["speed_kmh_count"]) == (10, min(given_values, 10))
