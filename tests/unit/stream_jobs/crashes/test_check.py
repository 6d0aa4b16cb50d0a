"""Crash records checked for completeness and plausibility; each fault is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_simulator.edr import pulse, recorder
from edge_simulator.edr.recorder import Memory
from infra.contract.messages import crash_digest
from load_tests import crash_table
from stream_jobs.crashes.check import curves, defects

GOLDEN = Path(__file__).parents[3] / "golden" / "crash.json"


def record(**changes: Any) -> dict[str, Any]:
    body = {**orjson.loads(GOLDEN.read_bytes()), **changes}
    return body | {"sha256": crash_digest(body)}


def faults(found: dict[str, Any]) -> set[tuple[str, str]]:
    return {(defect.element, defect.fault) for defect in defects(found)}


def column(name: str, place: int, value: Any) -> dict[str, Any]:
    """The golden record's table with one sample changed."""
    table = {key: list(values) for key, values in record()["pre_crash"].items()}
    table[name][place] = value
    return table


@pytest.mark.parametrize("name", ["us563_2006", "us563_2024"])
def test_what_the_recorder_seals_is_whole_and_plausible(name: str) -> None:
    profile = recorder.PROFILES[name]
    ring = crash_table.driven(profile)
    judged = 0
    for kind in pulse.KINDS.values():
        for delta_v_kmh in crash_table.DELTA_VS_KMH:
            burst = crash_table.drawn(kind, delta_v_kmh, np.random.default_rng(3))
            for finding in pulse.events(burst.long, burst.lat):
                event = Memory().store("0-0", crash_table.ZERO_MS, bool(finding.deployed_ms))
                assert event is not None
                table = ring.harvest(0, crash_table.ZERO_MS)
                sealed = orjson.loads(recorder.record(profile, table, finding, event, **crash_table.SCENE))
                assert defects(sealed) == []
                judged += 1
    assert judged > 20


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"profile": "us563_1999"}, {("profile", "profile")}),
        ({"pre_crash_dt_ms": 500}, {("pre_crash_dt_ms", "step")}),
        ({"pre_crash": column("speed_kmh", 3, 51.5)}, {("pre_crash.speed_kmh", "step")}),
        ({"pre_crash": column("speed_kmh", 3, 300)}, {("pre_crash.speed_kmh", "range")}),
        ({"pre_crash": column("brake_on", 3, 1)}, {("pre_crash.brake_on", "shape")}),
        ({"pre_crash": column("accelerator_pct", 3, None)}, {("pre_crash.accelerator_pct", "contradiction")}),
        ({"delta_v_max_ms": 31.0}, {("delta_v_max_ms", "step")}),
        ({"multi_event": 3}, {("multi_event", "range")}),
        ({"multi_event": 2, "event_1_to_2_ms": 6000}, {("event_1_to_2_ms", "missing")}),
        ({"belt_on": None}, {("belt_on", "missing")}),
        ({"complete": False}, {("complete", "missing")}),
        ({"airbag_deployed": True, "airbag_ms": None}, {("airbag_ms", "missing")}),
        ({"delta_v_max_kmh": -2}, {("delta_v_max_kmh", "contradiction")}),
        ({"delta_v_kmh": [0.0] * 26, "delta_v_lat_kmh": None, "airbag_deployed": False, "locked": False,
          "restraints_ms": None, "delta_v_max_kmh": 0}, {("delta_v_kmh", "trigger")}),
    ],
)  # fmt: skip
def test_each_fault_is_named(changes: dict[str, Any], wanted: set[tuple[str, str]]) -> None:
    whole = faults(record())
    assert faults(record(**changes)) - whole == wanted


def test_samples_and_points_are_counted() -> None:
    table = {key: values[:-1] for key, values in record()["pre_crash"].items()}
    short = faults(record(pre_crash=table, delta_v_kmh=record()["delta_v_kmh"][:20]))
    assert ("pre_crash.speed_kmh", "count") in short
    assert ("delta_v_kmh", "count") in short


def test_a_broken_seal_is_told() -> None:
    assert ("sha256", "digest") in faults(record() | {"delta_v_max_kmh": -1})


def test_the_trigger_is_looked_for_within_150_ms() -> None:
    slow = [-k * 0.5 for k in range(26)]  # 7.5 km/h in 150 ms
    (curve,) = curves({"delta_v_dt_ms": 10, "delta_v_kmh": slow})
    assert (curve.steepest_kmh, curve.kept) == (7.5, 1.0)
    fast = [0, 0, -4, -8, -8, *[-8] * 21]
    (curve,) = curves({"delta_v_dt_ms": 10, "delta_v_kmh": fast})
    assert (curve.steepest_kmh, curve.rise_ms, curve.triggers) == (8, 10, True)
    (curve,) = curves({"delta_v_dt_ms": 10, "delta_v_kmh": [0, -6, *[-6] * 24]})
    assert not curve.triggers
    for dt_ms in (0.01, 5e-324):  # however many points that is: a check looks at a few of them at once
        (curve,) = curves({"delta_v_dt_ms": dt_ms, "delta_v_kmh": [*range(100)]})
        assert curve.steepest_kmh == 26


NUMBERS = st.integers(-1000, 1000) | st.floats(allow_nan=False, allow_infinity=False)
COLUMNS = st.sampled_from(["speed_kmh", "brake_on", "x"])
ANY = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(COLUMNS, inner),
    max_leaves=8,
)


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from(sorted(record())), ANY))
def test_no_record_however_odd_makes_the_check_fail(changes: dict[str, Any]) -> None:
    assert all(defect.element for defect in defects(record() | changes))
