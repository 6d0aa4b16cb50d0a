"""What counts as a value: Spark, Arrow and the arrays of the windows say the same of any frame."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from infra.contract.signals import BY_NAME, FAST, SIGNALS
from infra.contract.verdict import OK
from stream_jobs.frames import plausibility
from stream_jobs.frames.arrays import Frames, frames_of
from stream_jobs.frames.plausibility import (
    POSITION,
    place,
    plausible_columns,
    plausible_place,
    with_plausible,
)
from stream_jobs.frames.reading import FRAME_SCHEMA

NUMBERS = tuple(signal.name for signal in SIGNALS if signal.kind == "number")
DRAWN = ("lat_deg", "lon_deg", "speed_kmh", "coolant_temp_c", "odometer_m")
Frame = dict[str, Any]


def values(name: str) -> st.SearchStrategy[float | None]:
    low, high = BY_NAME[name].minimum, BY_NAME[name].maximum
    odd = [None, math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, -5e-324, low, high]
    edges = [math.nextafter(low, -math.inf), math.nextafter(high, math.inf)]
    zeros = st.sampled_from([0.0, -0.0])
    return zeros | st.sampled_from([*odd, *edges]) | st.floats(low, high) | st.floats(allow_nan=True)


def signals(name: str) -> st.SearchStrategy[Any]:
    if BY_NAME[name].rate == "slow":
        return values(name)
    return st.none() | st.lists(values(name), max_size=4)


FRAMES = st.lists(st.fixed_dictionaries({name: signals(name) for name in DRAWN}), min_size=1, max_size=20)


def table(frames: list[Frame]) -> pa.Table:
    """Frames of three samples, whatever the arrays hold; signals not drawn are not there."""
    head = {"vehicle_id": "v", "boot_id": 1, "seq": 1, "t0_ms": 0, "dt_ms": 100, "n": 3}
    return pa.Table.from_pylist([head | frame for frame in frames], schema=FRAME_SCHEMA).combine_chunks()


def arrays(frames: list[Frame]) -> Frames:
    none = np.zeros(len(frames), np.int64)
    return frames_of(table(frames), np.full(len(frames), OK), none, none, none)


def by_arrow(frames: list[Frame], names: tuple[str, ...]) -> list[Frame]:
    return pa.table(plausible_columns(table(frames), names)).to_pylist()


def by_spark(spark: SparkSession, frames: list[Frame], names: tuple[str, ...]) -> list[Frame]:
    rows = with_plausible(spark.createDataFrame(table(frames)), names).select(*names)
    return [row.asDict() for row in rows.collect()]


def signs(found: list[Frame]) -> str:
    """Tells 0 from -0, which are equal."""
    return repr(found)


def test_spark_and_arrow_keep_the_same_values_of_any_frame(spark: SparkSession) -> None:
    frames: list[Frame] = []

    @settings(max_examples=60, deadline=None, database=None)
    @given(drawn=FRAMES)
    def draw(drawn: list[Frame]) -> None:
        frames.extend(drawn)

    draw()  # for one query: each costs seconds
    assert len(frames) > 100
    assert signs(by_spark(spark, frames, DRAWN)) == signs(by_arrow(frames, DRAWN))


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(frames=FRAMES)
def test_the_windows_know_what_rules_see(frames: list[Frame]) -> None:
    made, seen = arrays(frames), by_arrow(frames, DRAWN)
    for name in DRAWN:
        if BY_NAME[name].rate == "slow":
            known, values = made.slow[name].known.tolist(), [frame[name] for frame in seen]
        else:
            known = made.fast[name].known.tolist()
            values = [v for frame in seen for v in [*(frame[name] or ()), None, None, None][:3]]
        assert known == [value is not None for value in values]
    given = [v for f in frames for name in DRAWN[:3] for v in (f[name] or ())[:3] if v == v and v is not None]
    kept = sum(int(made.fast[signal.name].known.sum()) for signal in FAST)
    assert made.fast_wrong.sum() == len(given) - kept


def test_every_number_counts_from_its_least_to_its_largest_value(spark: SparkSession) -> None:
    frames, expected = [], []
    for below in (False, True):
        frame: Frame = {}
        kept: Frame = {}
        for name in NUMBERS:
            signal = BY_NAME[name]
            low, high = signal.minimum, signal.maximum
            outside = math.nextafter(low, -math.inf), math.nextafter(high, math.inf)
            if signal.rate == "slow":
                frame[name], kept[name] = (outside[0], None) if below else (low, low)
            else:
                ends = [low if below else high] if name in POSITION else [low, high]  # both would be a jump
                frame[name], kept[name] = [*ends, *outside, None, math.nan], ends + [None] * 4
        frames.append(frame)
        expected.append(kept)
    assert by_arrow(frames, NUMBERS) == expected
    assert by_spark(spark, frames, NUMBERS) == expected


def test_both_coordinates_exactly_0_are_no_place_and_one_alone_is(spark: SparkSession) -> None:
    lat = [0.0, -0.0, 0.0, 0.0, 0.001, 0.0]
    lon = [0.0, 0.0, 0.005, None, 0.0, 5e-324]
    frames: list[Frame] = [
        {"lat_deg": lat, "lon_deg": lon},
        {"lat_deg": [0.0, 0.0], "lon_deg": [0.0]},
        {"lat_deg": [0.0], "lon_deg": None},
    ]
    expected = [
        {"lat_deg": [None, None, 0.0, 0.0, 0.001, 0.0], "lon_deg": [None, None, 0.005, None, 0.0, 5e-324]},
        {"lat_deg": [None, 0.0], "lon_deg": [None]},
        {"lat_deg": [0.0], "lon_deg": None},
    ]
    assert by_arrow(frames, POSITION) == expected
    assert by_spark(spark, frames, POSITION) == expected
    pairs = [*zip(lat, lon, strict=True), (None, None), (91.0, 11.5)]
    places = [
        (None, None),
        (None, None),
        (0.0, 0.005),
        (0.0, None),
        (0.001, 0.0),
        (0.0, 5e-324),
        (None, None),
        (None, 11.5),
    ]
    assert [place(*pair) for pair in pairs] == places
    rows = spark.createDataFrame(pairs, "lat_deg double, lon_deg double").select(*plausible_place())
    assert [tuple(row) for row in rows.collect()] == places


def test_a_frame_whose_fixes_lie_further_apart_than_a_vehicle_drives_has_no_fix(spark: SparkSession) -> None:
    """1014 m in 0.2 s are within reach, which is 0.00912 degrees."""
    frames: list[Frame] = [
        {"lat_deg": [48.1, 48.109, None], "lon_deg": [11.5, 11.5, 11.5]},
        {"lat_deg": [48.1, 48.11, 48.1], "lon_deg": [11.5, None, 11.5]},
        {"lat_deg": [48.1, 48.1, 48.1], "lon_deg": [11.5, 12.9, 11.5], "speed_kmh": [40.0, 40.0, 40.0]},
        {"lat_deg": [-17.0, -17.0], "lon_deg": [179.999, -179.999]},
        {"lat_deg": [48.1, 48.1, 48.1, 49.1], "lon_deg": [11.5, 11.5, 11.5, 11.5]},
        {"lat_deg": [48.1, 91.0], "lon_deg": [11.5, 11.5]},
    ]
    none = [None, None, None]
    expected = [{name: frame[name] for name in POSITION} for frame in frames]
    expected[1] = expected[2] = {"lat_deg": none, "lon_deg": none}
    expected[5] = {"lat_deg": [48.1, None], "lon_deg": [11.5, 11.5]}
    assert by_arrow(frames, POSITION) == expected
    assert by_spark(spark, frames, POSITION) == expected
    made = arrays(frames)
    assert made.fast["lat_deg"].known.reshape(-1, 3).sum(axis=1).tolist() == [2, 0, 0, 2, 3, 1]
    assert made.fast["speed_kmh"].known.sum() == 3
    assert made.fast_wrong.sum() == 5 + 6 + 1


def test_without_the_rule_on_0_0_a_lost_fix_would_be_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    lost: list[Frame] = [{"lat_deg": [0.0], "lon_deg": [0.0]}]
    assert by_arrow(lost, ("lat_deg", "lon_deg")) == [{"lat_deg": [None], "lon_deg": [None]}]
    monkeypatch.setattr(plausibility, "nowhere", lambda lat_deg, lon_deg: lat_deg != lat_deg)
    assert by_arrow(lost, ("lat_deg", "lon_deg")) == lost
    assert place(0.0, 0.0) == (0.0, 0.0)
