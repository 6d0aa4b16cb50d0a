"""What the rule of an alert saw in the frames around it."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from dashboard.screens.alerts import evidence
from stream_jobs.events.writes import rule_notes
from stream_jobs.rules.model import load_rules

OPENED_MS = 1_700_000_000_000
ALERT: dict[str, Any] = {"limit_value": 105.0, "model": "compact-1.8"}
SHIPPED = {row["rule"]: dict(row) for row in rule_notes(load_rules(), [])}
SPECIAL = {"coolant_above_model"}
"""Reads a column that the jobs alone know: the model's usual coolant."""


def frame(at_s: float, **signals: Any) -> dict[str, Any]:
    head = {"t0_ms": OPENED_MS + round(1000 * at_s), "dt_ms": 500, "n": 2, "vehicle_id": "x"}
    return head | signals


def judged(frames: list[dict[str, Any]], alert: dict[str, Any], rule: Any) -> evidence.Judged:
    return evidence.judged(evidence.read(frames, alert), OPENED_MS, alert, rule)


def rows(judged: evidence.Judged) -> list[tuple[float, float, float]]:
    return [tuple(row) for row in judged.values.astype(object).itertuples(index=False)]


def test_value_and_limit_stand_at_the_end_of_each_frame() -> None:
    frames = [frame(-1, coolant_temp_c=104.5), frame(0, coolant_temp_c=106.0)]
    seen = judged(frames, ALERT, SHIPPED["coolant_hot"])
    assert rows(seen) == [(-0.5, 104.5, 105.0), (0.5, 106.0, 105.0)]
    assert (seen.unit, seen.signals, seen.limited) == ("°C", ("coolant_temp_c",), True)


def test_a_limit_that_follows_the_signals_is_a_curve() -> None:
    frames = [
        frame(0, oil_pressure_kpa=100, engine_rpm=[700, 720]),
        frame(1, oil_pressure_kpa=100, engine_rpm=[2500, 2600]),
    ]
    seen = judged(frames, ALERT | {"limit_value": 207.0}, SHIPPED["oil_pressure_low"])
    assert seen.values["limit"].tolist() == [69.0, 207.0]


def test_an_escalated_alert_shows_the_limit_that_was_in_force_not_the_first() -> None:
    rule = SHIPPED["coolant_hot_heavy"]
    seen = judged([frame(0, coolant_temp_c=112.0)], {"limit_value": 111.0}, rule)
    assert rows(seen) == [(0.5, 112.0, 111.0)]


def test_the_lowest_of_four_wheels_has_their_unit_and_a_difference_has_none() -> None:
    wheels = {
        f"tyre_pressure_{w}_kpa": p
        for w, p in zip(("fl", "fr", "rl", "rr"), (230, 231, 120, 229), strict=True)
    }
    lowest = judged([frame(0, **wheels)], ALERT, SHIPPED["tyre_deflated"])
    assert (lowest.unit, rows(lowest)) == ("kPa", [(0.5, 120.0, 105.0)])
    faster = frame(0, speed_kmh=[58.0, 60.0], speed_limit_kmh=50)
    over = judged([faster], ALERT | {"limit_value": 5.0}, SHIPPED["speeding"])
    assert (over.unit, rows(over)) == ("", [(0.5, 8.0, 5.0)])


def test_a_value_out_of_its_range_is_not_available_as_in_the_jobs() -> None:
    seen = judged([frame(0, coolant_temp_c=999.0)], ALERT, SHIPPED["coolant_hot"])
    assert seen.values["value"].isna().all()
    read = evidence.read([frame(0, speed_kmh=[50.0, 400.0])], ALERT)
    drawn = evidence.curve(read, OPENED_MS, "speed_kmh")
    assert drawn["value"].tolist()[0] == 50.0
    assert drawn["value"].isna().tolist() == [False, True]


def test_a_number_beyond_every_integer_is_read_as_the_database_gives_it() -> None:
    large = frame(0, coolant_temp_c=10**30, noise=10**30, oil_temp_c=90.0)
    assert evidence.present(evidence.read([large], ALERT)) == ["oil_temp_c"]


def test_a_receiver_without_a_fix_has_no_place_as_in_the_jobs() -> None:
    assert evidence.present(evidence.read([frame(0, lat_deg=[0.0, 0.0], lon_deg=[0.0, 0.0])], ALERT)) == []


def test_a_slope_has_a_value_and_no_limit_on_its_axis() -> None:
    seen = judged([frame(0, cell_temp_max_c=61.0)], ALERT, SHIPPED["thermal_runaway"])
    assert (seen.limited, seen.values["value"].tolist()) == (False, [61.0])


def test_a_rule_that_is_not_known_shows_speed_and_a_silent_one_no_value() -> None:
    assert judged([frame(0)], ALERT, None).signals == ("speed_kmh",)
    assert judged([frame(0)], ALERT, SHIPPED["vehicle_silent"]).values.empty


def test_an_expression_reaches_no_file() -> None:
    rule = SHIPPED["coolant_hot"] | {"value_sql": "(SELECT length(content) FROM read_text('/etc/hostname'))"}
    seen = judged([frame(0)], ALERT, rule)
    assert seen.values["value"].isna().all()


@pytest.mark.parametrize(
    "rule", [r for r, row in SHIPPED.items() if row["value_sql"] and row["source"] == "frame"]
)
def test_every_shipped_rule_but_one_can_be_read(rule: str) -> None:
    wheels = ("fl", "fr", "rl", "rr")
    full = frame(
        0, speed_kmh=[60.0, 60.5], engine_rpm=[2000, 2010], speed_limit_kmh=50, coolant_temp_c=90.0, gear=4,
        oil_pressure_kpa=300, battery_voltage_v=13.9, fuel_trim_short_pct=1.0, fuel_trim_long_pct=2.0,
        dpf_soot_pct=60.0, cell_temp_max_c=30.0, cell_voltage_min_v=3.9, cell_voltage_max_v=3.95,
        pack_current_a=1.0, **{f"tyre_pressure_{w}_kpa": 230.0 for w in wheels},
        **{f"tyre_temp_{w}_c": 30.0 for w in wheels}, **{f"brake_pad_wear_{w}_pct": 20.0 for w in wheels},
    )  # fmt: skip
    seen = judged([full], ALERT, SHIPPED[rule])
    assert seen.values["value"].notna().all() == (rule not in SPECIAL)


def test_signals_are_offered_that_are_there_with_their_units() -> None:
    sent = frame(0, speed_kmh=[None, 50.0], coolant_temp_c=None, ignition_on=True)
    assert evidence.present(evidence.read([sent], ALERT)) == ["speed_kmh", "ignition_on"]
    assert [evidence.label(name) for name in ("coolant_temp_c", "gear")] == [
        "Coolant, °C",
        "Gear: -1 reverse, 0 neutral",
    ]


def test_vehicles_of_one_moment_are_one_point_of_the_count() -> None:
    moments = pd.to_datetime([OPENED_MS + 1000, OPENED_MS, OPENED_MS + 1000, OPENED_MS], unit="ms", utc=True)
    found = evidence.together(pd.DataFrame({"opened_at": moments, "vehicle_id": ["a", "b", "c", "d"]})).rows
    assert found["vehicles"].tolist() == [2, 4]
    assert found["time"].tolist() == [moments[1], moments[0]]
