"""Verdicts on crash records, by hand: what confirms, what must never be confirmed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.contract.messages import crash_digest
from infra.settings.sections import Crash
from stream_jobs.crashes.verdict import Window, context, judge

TERMS = Crash()
ZERO_MS = 1_000_004_000
COLLISION = [0, -1, -3, -7, -12, -18, -23, -27, -29, -30, *[-30] * 16]
LIGHT = [0, 0, -1, -2, -4, -6, -8, -9, *[-9] * 18]
KNOCK = [0, -9, 6, -2, 0, *[0] * 21]
"""A sensor's spike: more than 8 km/h within 150 ms, and nothing is left of it."""
STEP = [0, -9, *[-9] * 24]
"""8 km/h at once: nothing as heavy as a car does that."""
BRAKING = [round(-k * 0.36, 1) for k in range(26)]


def record(points: list[float] | None, airbag: bool | None = False, **changes: Any) -> dict[str, Any]:
    body = {"delta_v_dt_ms": 10, "delta_v_kmh": points, "airbag_deployed": airbag, "belt_on": True, **changes}
    return body | {"sha256": crash_digest(body)}


def window(
    start_s: int,
    top: float | None,
    last: float | None = None,
    metres: float | None = None,
    vehicle: str = "A",
) -> Window:
    """A window of 10 s that begins so long after 1,000,000,000 ms."""
    start_ms = 1_000_000_000 + start_s * 1000
    way = None if top is None else top / 3.6 * 10 if metres is None else metres
    return Window(vehicle, start_ms, start_ms + 10_000, top, top if last is None else last, way, 10.0, 0.0)


CRASHED = [
    window(-10, 61, 60),
    window(0, 60, 20),
    window(10, 18, 0),
    *(window(10 * k, 0) for k in range(2, 8)),
]
DROVE_ON = [window(10 * k, 60) for k in range(-1, 8)]
AT_THE_LIGHTS = [
    window(-10, 61, 60),
    window(0, 60, 30),
    window(10, 25, 0),
    *(window(10 * k, 0) for k in range(2, 8)),
]
SLOWER = [window(-60, 55, vehicle=v) for v in "BCD"] + [window(20, 20, vehicle=v) for v in "EFG"]


def verdict(points: list[float] | None, own: list[Window], others: list[Window] = [], **changes: Any) -> str:  # noqa: B006
    found = judge(record(points, **changes), context(ZERO_MS, own, others, TERMS), TERMS)
    assert all(found.reasons)
    return found.verdict


def test_a_collision_with_its_speed_gone_and_standing_still_is_confirmed() -> None:
    assert verdict(COLLISION, CRASHED) == "confirmed"
    assert verdict(LIGHT, CRASHED, airbag=None) == "confirmed"


def test_an_air_bag_and_a_collisions_pulse_need_no_telemetry() -> None:
    assert verdict(COLLISION, [], airbag=True) == "confirmed"
    assert verdict(COLLISION, CRASHED[:2], airbag=True) == "confirmed"


def test_what_telemetry_contradicts_is_suspect() -> None:
    assert verdict(COLLISION, DROVE_ON) == "suspect"
    assert verdict(COLLISION, DROVE_ON, airbag=True) == "suspect"


def test_without_telemetry_a_pulse_alone_is_suspect() -> None:
    assert verdict(COLLISION, []) == "suspect"


def test_a_stood_vehicle_that_is_hit_needs_others_that_slow_down() -> None:
    stood = [window(10 * k, 0) for k in range(-1, 8)]
    assert verdict(COLLISION, stood) == "suspect"
    assert verdict(COLLISION, stood, SLOWER) == "confirmed"


@pytest.mark.parametrize("points", [KNOCK, STEP, [0.0] * 26, [0, -1, 1, *[0] * 23]])
def test_a_false_trigger_of_a_vehicle_that_drove_on_is_a_pothole(points: list[float]) -> None:
    assert verdict(points, DROVE_ON) == "pothole"
    assert verdict(points, []) == "pothole"


@pytest.mark.parametrize("points", [KNOCK, STEP, [0.0] * 26, BRAKING])
def test_a_knock_before_the_traffic_lights_is_never_confirmed(points: list[float]) -> None:
    assert verdict(points, AT_THE_LIGHTS, SLOWER) == "suspect"


def test_a_stone_that_fires_a_pretensioner_is_not_confirmed_while_the_vehicle_drives_on() -> None:
    stone = [0, 0, -1, *[-7] * 23]
    assert verdict(stone, DROVE_ON, restraints_ms={"pretensioner": 29}) == "suspect"


def test_a_record_that_is_not_what_was_sealed_confirms_nothing() -> None:
    broken = record(COLLISION, airbag=True) | {"belt_on": False}
    assert judge(broken, context(ZERO_MS, CRASHED, [], TERMS), TERMS).verdict == "suspect"


def test_a_record_without_delta_v_is_judged_by_the_rest() -> None:
    assert verdict(None, CRASHED, airbag=True) == "confirmed"
    assert verdict(None, CRASHED, airbag=None) == "suspect"
    assert verdict(None, DROVE_ON, airbag=None) == "suspect"


def test_the_figures_are_those_of_the_windows() -> None:
    found = judge(record(COLLISION), context(ZERO_MS, CRASHED, SLOWER, TERMS), TERMS).figures
    assert {
        key: found[key]
        for key in ("delta_v_150ms_kmh", "pulse_rise_ms", "speed_before_kmh", "speed_after_kmh",
                    "moved_after_m", "collapsed", "stands", "others_vehicles_before",
                    "others_speed_after_kmh")
    } == {
        "delta_v_150ms_kmh": 30, "pulse_rise_ms": 50, "speed_before_kmh": 60, "speed_after_kmh": 0,
        "moved_after_m": 0, "collapsed": True, "stands": True, "others_vehicles_before": 3,
        "others_speed_after_kmh": 20.0,
    }  # fmt: skip


def test_windows_in_another_order_give_the_same() -> None:
    one, other = (
        judge(record(COLLISION), context(ZERO_MS, own, near, TERMS), TERMS)
        for own, near in ((CRASHED, SLOWER), (CRASHED[::-1], SLOWER[::-1]))
    )
    assert one == other


def test_two_others_are_too_few_to_say_anything() -> None:
    few = [w for w in SLOWER if w.vehicle_id != "D"]
    assert context(ZERO_MS, [], few, TERMS).others_slowed is None
    assert context(ZERO_MS, [], SLOWER, TERMS).others_slowed is True


ODD = (
    st.none()
    | st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.lists(st.floats(-1e300, 1e300), max_size=4)
)


@settings(max_examples=60)
@given(
    st.dictionaries(
        st.sampled_from(["delta_v_dt_ms", "delta_v_kmh", "delta_v_lat_kmh", "airbag_deployed"]), ODD
    )
)
def test_no_record_however_odd_is_without_a_verdict(changes: dict[str, Any]) -> None:
    found = judge(record(COLLISION) | changes, context(ZERO_MS, CRASHED, [], TERMS), TERMS)
    assert found.verdict in ("confirmed", "suspect", "pothole")
