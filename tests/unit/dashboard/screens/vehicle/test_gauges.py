"""Signals against the limits of the rules in force: which limit is whose, and what is beyond it."""

from __future__ import annotations

import pandas as pd

from dashboard.screens.vehicle import charts
from stream_jobs.events.writes import rule_notes
from stream_jobs.rules.model import load_rules

RULES = pd.DataFrame(rule_notes(load_rules(), [])).assign(in_force=True)
NOTHING = {gauge.column: None for gauge in charts.GAUGES}


def reading(label: str, vehicle_class: str = "car", **signals: float) -> charts.Reading:
    found = charts.readings(NOTHING | signals, RULES, vehicle_class)
    return next(r for r in found if r.gauge.label == label)


def test_every_gauge_has_a_limit_in_the_rules_that_ship() -> None:
    everything = {gauge.column: 1.0 for gauge in charts.GAUGES}
    assert [r.gauge.label for r in charts.readings(everything, RULES, "car") if not r.limits] == []
    known = set(RULES["rule"])
    assert {name for gauge in charts.GAUGES for name in gauge.rules} <= known
    assert set(charts.HEAVY_RULES.values()) <= known


def test_a_signal_that_the_vehicle_does_not_tell_is_left_out() -> None:
    assert charts.readings(NOTHING, RULES, "car") == []


def test_a_value_within_its_limits_says_which() -> None:
    assert charts.words(reading("Coolant", coolant_max_c=92.0)) == "within its limits: at most 105 °C"
    battery = reading("12 V, engine or drive on", battery_running_v=13.8)
    assert charts.words(battery) == "within its limits: at least 13 and at most 15 V"


def test_the_gravest_broken_limit_is_told() -> None:
    assert charts.words(reading("Coolant", coolant_max_c=106.0)) == "● WARNING: above 105.0 °C (coolant_hot)"
    hot = reading("Coolant", coolant_max_c=116.5)
    assert charts.words(hot) == "▲ CRITICAL: above 115.0 °C (coolant_critical)"


def test_a_heavy_vehicle_has_limits_of_its_own() -> None:
    assert reading("Coolant", "heavy", coolant_max_c=106.0).worst is None
    assert charts.words(reading("Coolant", "heavy", coolant_max_c=109.5)).endswith("(coolant_hot_heavy)")


def test_a_limit_that_follows_engine_speed_is_looked_at_from_its_floor() -> None:
    below = reading("Oil pressure above its floor", oil_margin_kpa=-12.0)
    assert charts.words(below) == "◆ MAJOR: below 0 kPa (oil_pressure_low)"


def test_half_of_a_24_volt_system_is_held_against_the_limits_as_the_rules_do() -> None:
    assert reading("12 V, engine or drive on", battery_running_v=27.6).value == 13.8


def test_a_rule_that_is_not_in_force_sets_no_limit() -> None:
    gone = RULES.assign(in_force=False)
    (found,) = charts.readings(NOTHING | {"coolant_max_c": 120.0}, gone, "car")
    assert (found.limits, charts.words(found)) == ((), "no limit in force")
    assert charts.readings(NOTHING | {"coolant_max_c": 120.0}, RULES.head(0), "car")[0].limits == ()


def test_a_limit_is_a_number_or_none() -> None:
    assert charts.plain_number("105.0D") == charts.plain_number("105") == 105.0
    assert charts.plain_number("least(207, 69)") is charts.plain_number(None) is None


def test_a_bar_is_as_long_as_its_value_and_its_limits_are_marked() -> None:
    drawn = charts.picture([reading("Coolant", coolant_max_c=65.0)])
    assert "width:50.0%" in drawn
    assert drawn.count("position:absolute") == 2
    assert "left:80.8%" in drawn
