"""Rules that last are read with their kind's keys, and an error names file, rule and key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.contract.errors import ConfigError
from stream_jobs.rules.model import VEHICLES, Level, Slope, Unchanged, load_rules, of_query
from stream_jobs.rules.rule_set import of_rules
from tests.unit.stream_jobs.rules.traces import rule

LEVEL: dict[str, Any] = {"kind": "level", "value": "coolant_temp_c", "beyond": "above", "limit": 105}
FENCE: dict[str, Any] = {"name": "depot", "lat_deg": 0, "lon_deg": 0, "radius_m": 500}
NO_LIMIT: dict[str, Any] = {"beyond": None, "limit": None}
UNLIMITED: dict[str, Any] = {"value": None} | NO_LIMIT


def test_a_level_is_read_as_written(tmp_path: Path) -> None:
    keys = LEVEL | {"while": "ignition_on", "while_for_s": 10, "clear": 102, "raise_for_s": 30}
    mine = rule(tmp_path, **keys, escalate=[{"limit": 110, "severity": "MAJOR"}])
    assert (mine.query, mine.source, mine.clear_for_s) == (VEHICLES, "frame", 60.0)
    assert (mine.spec, mine.clear, mine.clear_level) == (Level(raise_for_s=30.0), None, 102.0)
    assert (mine.armed, mine.armed_for_s, mine.escalate) == ("ignition_on", 10.0, ((110.0, "MAJOR"),))
    assert {"coolant_temp_c", "ignition_on"} <= mine.words()


def test_a_plain_level_may_be_ended_by_an_expression(tmp_path: Path) -> None:
    mine = rule(tmp_path, **LEVEL, clear="coolant_temp_c < 102 AND NOT ignition_on")
    assert (mine.clear, mine.clear_level) == ("coolant_temp_c < 102 AND NOT ignition_on", None)


def test_a_slope_is_told_per_second_minute_hour_or_day(tmp_path: Path) -> None:
    mine = rule(tmp_path, **LEVEL | {"kind": "slope", "span_s": 60, "per": "minute"})
    assert mine.spec == Slope(span_s=60.0, per="minute")


def test_what_a_value_is_rounded_to_is_the_contracts_unless_the_rule_says() -> None:
    shipped = {rule.id: rule for rule in load_rules()}["coolant_sensor_stuck"]
    assert isinstance(shipped.spec, Unchanged)
    assert shipped.spec.resolution == 1


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"kind": "levl"}, "`kind` 'levl' is none of level, slope"),
        ({"raise_for_s": -1}, "`raise_for_s` -1: at least 0 is wanted"),
        ({"raise_for_s": float("nan")}, "`raise_for_s` nan: a finite number is wanted"),
        ({"times": 3}, "`times` is unknown"),
        ({"kind": "slope"}, "`span_s` is missing: kind slope needs it"),
        ({"kind": "slope", "span_s": 60, "per": "week"}, "`per` 'week': 'second', 'minute'"),
        ({"mean_s": 60, "clear": "x < 3"}, "`clear` 'x < 3': a number is wanted"),
        ({"mean_s": 60} | NO_LIMIT, "`limit` is missing: a mean"),
        ({"kind": "slope", "span_s": 60, "per": "hour"} | NO_LIMIT, "`limit` is missing: a mean, a slope"),
        ({"kind": "baseline"} | NO_LIMIT, "`limit` is missing: a mean, a slope and a baseline"),
        ({"while_for_s": 10}, "`while` is missing"),
        (
            UNLIMITED | {"kind": "count", "while": "ignition_on", "while_for_s": 10},
            "`while_for_s` has no meaning for kind count",
        ),
        (
            UNLIMITED | {"kind": "silence", "silent_for_s": 300, "while": "ignition_on"},
            "`while` has no meaning for kind silence",
        ),
        (UNLIMITED | {"kind": "clone", "while": "ignition_on"}, "`while` has no meaning for kind clone"),
        (
            UNLIMITED | {"kind": "geofence", "fences": [FENCE], "while": "ignition_on"},
            "`while` has no meaning for kind geofence: say what must hold in `condition`",
        ),
        ({"kind": "geofence", "fences": [FENCE]}, "`limit` has no meaning for kind geofence"),
        ({"kind": "silence", "silent_for_s": 300}, "`limit` has no meaning for kind silence"),
        ({"kind": "clone"}, "`limit` has no meaning for kind clone"),
        ({"kind": "count", "times": 3}, "`limit` has no meaning for kind count"),
        ({"kind": "unchanged", "raise_for_s": 30}, "`limit` has no meaning for kind unchanged"),
        (
            UNLIMITED
            | {"kind": "unchanged", "raise_for_s": 30, "value": "coolant_temp_c + 1", "follows": "gear"},
            "`resolution` is missing: the value is no signal",
        ),
        ({"escalate": [{"limit": 110}]}, "`escalate` 0.severity {'limit': 110}: the key is missing"),
        (
            {"escalate": [{"limit": 120, "severity": "MAJOR"}, {"limit": 110, "severity": "CRITICAL"}]},
            "`escalate` is not in order",
        ),
        ({"source": "crash"}, "`source` 'crash': rules of the query vehicles"),
        ({"kind": "silence", "value": None, "beyond": None, "limit": None}, "`silent_for_s` is missing"),
        (
            {"kind": "count", "value": None, "reversal": 1},
            "`value` is missing: `reversal` looks at its course",
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, keys: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        rule(tmp_path, **LEVEL | keys)
    assert f"rules file {tmp_path / 'mine.yaml'}, rule mine: {expected}" in str(caught.value)


def test_every_shipped_rule_that_lasts_has_its_detector_and_an_id_of_its_own() -> None:
    stateful = of_query(load_rules(), VEHICLES)
    assert len(of_rules(stateful)) == len(stateful) == len({rule.id for rule in stateful}) >= 31
