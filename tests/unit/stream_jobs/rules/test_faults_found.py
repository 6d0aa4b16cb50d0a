"""A fleet with one of each fault that shows in town within a quarter of an hour, past the shipped rules.

Its sensors have the steps of OBD, at 2 Hz. Slower faults (thermostat, soot, slip, battery) are judged by the
scorecard.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import orjson
import pytest

from edge_simulator.faults import Wanted
from load_tests.drive_trips import frames
from load_tests.score.definition import load
from stream_jobs.rules.model import load_rules
from tests.support import recorded_drives
from tests.support_detect import Fleet, findings

pytestmark = pytest.mark.slow

SEED: Final = 12
SECONDS: Final = 1000
SOUND: Final = 6
FAULTS: Final = (
    "alternator", "cell_imbalance", "coolant_sensor_stuck", "intermittent_dtc", "lean_mixture",
    "low_oil_pressure", "overcharge", "overheating", "rapid_leak", "rich_mixture", "slow_leak",
    "sticking_caliper", "thermal_runaway", "worn_pads",
)  # fmt: skip
Found = dict[str, list[tuple[str, int]]]


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    wanted = [Wanted(name, count=1, severity=(0.8, 0.9), onset_s=(60, 120)) for name in FAULTS]
    return Fleet(SEED, len(FAULTS) + SOUND, SECONDS, wanted, sensors="obd")


@pytest.fixture(scope="module")
def found(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """By vehicle: rule and time of every finding."""
    by_vehicle: Found = {}
    for alert in fleet.alerts(tmp_path_factory.mktemp("fleet"), load_rules(None)):
        by_vehicle.setdefault(alert.vehicle_id, []).append((alert.rule, alert.event_ms))
    return by_vehicle


def test_each_fault_is_found_by_a_rule_of_its_own_after_its_onset(fleet: Fleet, found: Found) -> None:
    definition = load()
    finders = {
        fault: {d.id for d in definition.detectors if fault in d.finds and d.id != "dtc"} for fault in FAULTS
    }
    onset_ms = {row["vehicle_id"]: row["from_ms"] for row in fleet.truth if row["kind"] == "fault"}
    assert sorted(fleet.faulty.values()) == sorted(FAULTS)
    missed = {
        fault: found.get(vehicle)
        for vehicle, fault in fleet.faulty.items()
        if not any(
            definition.detector_of(rule) in finders[fault] and at >= onset_ms[vehicle]
            for rule, at in found.get(vehicle, [])
        )
    }
    assert missed == {}


def test_a_sound_vehicle_raises_nothing_but_what_its_driver_does(fleet: Fleet, found: Found) -> None:
    sound = {vehicle: found.get(vehicle, []) for vehicle in fleet.ids if vehicle not in fleet.faulty}
    assert len(sound) == SOUND
    assert {v: r for v, rules in sound.items() if (r := {rule for rule, _ in rules} - {"speeding"})} == {}


def test_real_drives_raise_nothing_of_minor_and_above(tmp_path: Path) -> None:
    payloads = [payload for _, drive in frames(recorded_drives()) for payload in drive]
    heads = [orjson.loads(payload) for payload in payloads]
    received = [head["t0_ms"] + head["n"] * head["dt_ms"] for head in heads]
    records = sorted(zip(received, payloads, strict=True))
    alerts = findings(tmp_path, records, load_rules(None), received[-1])
    assert len({head["vehicle_id"] for head in heads}) == 5
    raised = {(alert.rule, alert.severity) for alert in alerts}
    # The drives lie days apart in one log: after the end of each nothing comes for long.
    assert raised <= {("speeding", "WARNING"), ("vehicle_silent", "MINOR")}
