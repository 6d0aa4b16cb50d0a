"""The judge of F9: which findings and alerts frames call for, and what it says of tables that differ."""

from __future__ import annotations

import hashlib
from typing import Any

import yaml

from load_tests.drills.alert_truth import Finding, Raised, compare, expected, raised, rules_text

VIN = "1HGCM82633A000001"


def frame(seq: int, **signals: Any) -> dict[str, Any]:
    head = {"vehicle_id": VIN, "boot_id": 7, "seq": seq, "t0_ms": 1000 * seq, "dt_ms": 100, "n": 10}
    return head | signals


def fast(seq: int) -> dict[str, Any]:
    return frame(seq, speed_kmh=[30.0, 51.0])


def finding(rule: str, at_s: int) -> Finding:
    return Finding(f"{rule}-{at_s}", VIN, rule, 1000 * at_s)


def rules_of(*frames: dict[str, Any]) -> list[tuple[str, int]]:
    return sorted((f.rule, f.event_ms) for f in expected([(x, "plain") for x in frames], []).values())


def test_a_frame_fires_by_its_plausible_samples_only() -> None:
    assert rules_of(fast(1)) == [("drill_fast", 1900)]
    assert rules_of(frame(2, speed_kmh=[50.0])) == []
    assert rules_of(frame(3, speed_kmh=[None, 2000.0])) == []
    assert rules_of(frame(4, engine_rpm=[501, 900], engine_load_pct=41.0)) == [("drill_load", 4900)]
    assert rules_of(frame(5, engine_rpm=[500, 900], engine_load_pct=41.0)) == []
    assert rules_of(frame(6, engine_load_pct=41.0)) == []


def test_copies_are_one_finding_quarantined_frames_none_and_a_crash_speaks_by_its_first_part() -> None:
    frames = [(fast(1), "plain"), (fast(1), "duplicate"), (fast(2), "clock_ahead")]
    crash = {"vehicle_id": VIN, "boot_id": 7, "seq": 3, "crash_id": "7-3", "event_ms": 5000}
    found = expected(frames, [crash | {"part": 0}, crash | {"part": 1}])
    assert sorted(f.rule for f in found.values()) == ["drill_crash", "drill_fast"]
    text = f"{VIN}|drill_crash|1|7|7-3"
    assert hashlib.sha256(text.encode()).hexdigest()[:32] in found


def test_findings_within_the_time_to_clear_are_one_alert() -> None:
    found = [finding("drill_fast", s) for s in (9, 0, 5, 4)] + [finding("drill_crash", s) for s in (0, 99)]
    assert raised(found, clear_for_s=4.0) == {
        Raised(VIN, "drill_fast", 4, 0, 9000),
        Raised(VIN, "drill_crash", 2, 0, 99_000),
    }
    assert len(raised(found, clear_for_s=3.0)) == 4


def test_what_is_missing_and_what_nobody_asked_for_is_counted() -> None:
    wanted = {f.alert_id: f for f in (finding("drill_fast", 0), finding("drill_fast", 100))}
    alerts = [Raised(VIN, "drill_fast", 1, 0, 0), Raised(VIN, "drill_fast", 2, 100_000, 100_000)]
    found = compare(wanted, ["drill_fast-0", "other"], 5.0, alerts)
    assert (found.expected, found.missing, found.phantom) == (2, 1, 1)
    assert (found.alerts, found.wrong_alerts) == (2, 2)


def test_the_rules_are_added_to_those_of_another_file() -> None:
    shipped = "rules:\n\n  - id: mine\n    version: 1\n"
    document = yaml.safe_load(rules_text(5, shipped))
    assert [rule["id"] for rule in document["rules"]] == ["mine", "drill_fast", "drill_load", "drill_crash"]
    assert document["rules"][1]["clear_for_s"] == 5
