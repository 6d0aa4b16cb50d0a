"""The scorecard out of a real database: what is there is judged, and a miss ends with exit code 1."""

from __future__ import annotations

import json
from typing import Any

import pytest

from infra.sql import truth
from tests.integration.events_support import T0, VINS, change
from tests.integration.test_truth import written
from tests.support import Lane

pytestmark = [pytest.mark.integration, pytest.mark.tables]
MIN_MS = 60_000


def happened(lane: Lane, *told: dict[str, Any]) -> None:
    path = written(lane, "run-1", *(json.dumps(row).encode() for row in told), b"")
    truth.load(lane.endpoints.db_ingest_url, "run-1", path)


def told(kind: str, vehicle: int, from_min: float, to_min: float | None, **more: Any) -> dict[str, Any]:
    to_ms = None if to_min is None else round(T0 + to_min * MIN_MS)
    return {
        "kind": kind,
        "vehicle_id": VINS[vehicle],
        "from_ms": round(T0 + from_min * MIN_MS),
        "to_ms": to_ms,
        **more,
    }


def score(lane: Lane, *words: str) -> tuple[int, dict[str, Any]]:
    done = lane.run("score", "--json", *words)
    found = json.loads(done.stdout)
    return done.returncode, {row["detector"]: row for row in found["detectors"]} | {"all": found}


def alert(lane: Lane, vehicle: int, rule: str, at_min: float) -> None:
    change(
        lane,
        """INSERT INTO odograph.alert (vehicle_id, rule, rule_version, severity, message, opened_at, last_at,
               findings, late, first_alert_id)
           SELECT %s, %s, 1, 'MAJOR', '', to_timestamp(%s), to_timestamp(%s), 1, false, %s""",
        VINS[vehicle], rule, T0 / 1000 + at_min * 60, T0 / 1000 + at_min * 60, f"{vehicle}{rule}{at_min}",
    )  # fmt: skip


def test_what_the_tables_hold_is_judged_by_detector(lane: Lane) -> None:
    fault = {"severity": 0.8, "full_ms": T0 + 3 * MIN_MS, "details": {}}
    happened(
        lane,
        told("fault", 0, 2, None, fault="overcharge", fault_id="f1", **fault),
        told("fault", 1, 2, None, fault="overcharge", fault_id="f2", **fault),
        told("code", 0, 3, None, what="code", details={"code": "P0563", "fault": "overcharge"}),
        told("code", 1, 3, None, what="code", details={"code": "P0563", "fault": "overcharge"}),
        told("trip", 0, 0, 20, whole=True, distance_m=9000.0),
        told("trip", 1, 0, 30, whole=False, distance_m=9000.0),
        told("harsh", 0, 5, 5.01, what="brake", whole=True),
    )
    alert(lane, 0, "charge_high", 4)
    alert(lane, 2, "charge_high", 4)
    alert(lane, 0, "dtc_active", 4)
    alert(lane, 1, "dtc_active", 4)
    alert(lane, 0, "made_up_rule", 4)
    change(lane, *trip(0, 0.2, 20))
    change(lane, *harsh(0, 5))
    change(lane, *window(2))
    code, card = score(lane)
    assert code == 1
    assert (card["dtc"]["recall"], card["dtc"]["precision"], card["dtc"]["delay_p50_s"]) == (1.0, 1.0, 60)
    line = card["charge_high"]
    assert (line["truths"], line["found"], line["recall"], line["precision"]) == (2, 1, 0.5, 0.5)
    assert line["delay_p50_s"] == 120
    assert (card["trips"]["recall"], card["trips"]["precision"], card["trips"]["excluded"]) == (
        1.0, 1.0, {"cut by the run": 1},
    )  # fmt: skip
    assert (card["harsh brake"]["recall"], card["harsh brake"]["precision"]) == (1.0, 1.0)
    assert card["all"]["failed"] == ["charge_high"]
    assert card["all"]["unknown_rules"] == ["made_up_rule"]
    missed = {(case["case"], case["vehicle_id"]) for case in card["all"]["cases"]}
    assert missed == {("missed", VINS[1]), ("false", VINS[2])}
    assert score(lane, "--min", "0.5")[0] == 0


def trip(vehicle: int, from_min: float, to_min: float) -> tuple[str, Any, Any, Any]:
    statement = """
        INSERT INTO odograph.trip (vehicle_id, started_at, ended_at, trip_id, phase, distance_m, unseen_m,
            duration_s, moving_s, standing_s, idle_s, halts, harsh_brake, harsh_accelerate, harsh_corner,
            frames, batch_id)
        SELECT %s, to_timestamp(%s), to_timestamp(%s), 't', 'final', 9000, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1"""
    return statement, VINS[vehicle], T0 / 1000 + from_min * 60, T0 / 1000 + to_min * 60


def harsh(vehicle: int, at_min: float) -> tuple[str, Any, Any, Any]:
    statement = """
        INSERT INTO odograph.harsh_event (vehicle_id, began_at, ended_at, kind, grade, peak_g, limit_g,
            speed_kmh, batch_id) SELECT %s, to_timestamp(%s), to_timestamp(%s), 'brake', 1, 0.5, 0.4, 50, 1"""
    return statement, VINS[vehicle], T0 / 1000 + at_min * 60, T0 / 1000 + at_min * 60 + 1


def window(vehicle: int) -> tuple[str, Any, Any, Any, Any]:
    """A vehicle that truth does not name is of the run when it reported in its time."""
    statement = """
        INSERT INTO odograph.vehicle_window (vehicle_id, window_start, window_s, frames, frames_late, samples,
            out_of_range, first_event, last_event, batch_id)
        SELECT %s, to_timestamp(%s), 10, 1, 0, 10, 0, to_timestamp(%s), to_timestamp(%s), 1"""
    at = T0 / 1000 + 240
    return statement, VINS[vehicle], at, at, at + 9
