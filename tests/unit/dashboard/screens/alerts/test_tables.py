"""Tables and charts of alerts and crash records, by what they say."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import pytest

from dashboard.screens.alerts import evidence
from dashboard.screens.alerts import tables as alert_tables
from dashboard.screens.alerts.tables import held, in_order, neighbour
from dashboard.screens.crashes import charts as crash_charts
from dashboard.shared import text
from dashboard.shared.charts import Drawing
from infra.contract.messages import FLEET

ZONE = ZoneInfo("Europe/Berlin")
NOW = pd.Timestamp("2026-07-01 12:00", tz="UTC")
ALERT: dict[str, Any] = {
    "alert_no": 7, "severity": "MAJOR", "active": True, "acknowledged_at": None, "silenced_until": None,
    "late": False, "vehicle_id": "V", "rule": "dtc_active.P0301", "since_at": NOW - pd.Timedelta(minutes=5),
    "duration_s": 250.0,
    "value": 1.5, "limit_value": None, "message": "<b>x</b>", "acknowledged_by": None, "verdict": None,
}  # fmt: skip


def test_an_alert_in_the_list_says_both_axes_and_where_the_list_stands() -> None:
    rows = [ALERT, ALERT | {"alert_no": 8, "acknowledged_at": NOW, "active": False, "late": True}]
    table = text.table(pd.DataFrame(rows), alert_tables.ALERT.columns(chosen=8), ZONE, NOW)
    assert table["No"].tolist() == ["7", "▶ 8"]
    assert table["Status"].tolist() == ["active, new", "cleared, seen, late"]
    assert table["Since"].tolist()[0] == "13:55:00 CEST"
    assert table["Severity"].tolist()[0] == "◆ MAJOR"
    assert table["Message"].tolist()[0] == "<b>x</b>"


def test_an_alert_under_a_silence_says_so() -> None:
    assert alert_tables.status(ALERT | {"silenced_until": NOW}) == "active, new, silenced"


def rule_days() -> pd.DataFrame:
    columns = ["rule", "day", "alerts", "active", "unseen", "worst", "last_opened_at"]
    rows = [
        ("speeding", date(2026, 6, 29), 3, 0, 0, 4, datetime(2026, 6, 29, 8, tzinfo=UTC)),
        ("speeding", date(2026, 7, 1), 1, 1, 1, 3, datetime(2026, 7, 1, 8, tzinfo=UTC)),
        ("gone", date(2026, 7, 1), 1, 0, 0, 1, datetime(2026, 7, 1, 9, tzinfo=UTC)),
    ]
    return pd.DataFrame(rows, columns=columns)


def test_rules_are_counted_by_day_and_those_without_alerts_or_without_a_note_are_listed_too() -> None:
    known = pd.DataFrame(
        [
            {"rule": r, "severity": "WARNING", "kind": "level", "limit_sql": limit, "beyond": "above",
             "version": 2, "in_force": True, "message": "m"}
            for r, limit in (("speeding", "5.0D"), ("idle", "least(207, x)"))
        ]
    )  # fmt: skip
    days = [date(2026, 6, 29), date(2026, 6, 30), date(2026, 7, 1)]
    found = alert_tables.rules(known, rule_days(), days)
    table = text.table(found, alert_tables.RULES, ZONE, NOW).set_index("Rule")
    assert table["Per day"].to_dict() == {"speeding": [3, 0, 1], "gone": [0, 0, 1], "idle": [0, 0, 0]}
    assert table["Alerts"].to_dict() == {"speeding": 4, "gone": 1, "idle": 0}
    assert table["Limit"].to_dict() == {"speeding": "above 5", "gone": "—", "idle": "above least(207, x)"}
    assert table["In force"].to_dict() == {"speeding": "yes", "gone": "not noted", "idle": "yes"}
    assert table["Severity"]["gone"] == "▲ CRITICAL"
    assert table["Last"]["speeding"] == "10:00:00 CEST"


def judged(limit: float | None) -> evidence.Judged:
    values = pd.DataFrame({"s": [-1.0, 0.0], "value": [104.0, 106.0], "limit": [limit, limit]}).astype(float)
    return evidence.Judged(values, "°C", ("coolant_temp_c",))


def test_the_evidence_has_value_limit_and_opening_on_axes_with_units() -> None:
    drawn = evidence.value_chart(judged(105.0), "Coolant", cleared_s=12.0)
    spec = drawn.spec
    assert spec["layer"][0]["encoding"]["y"]["title"] == "Coolant, °C"
    assert spec["layer"][0]["encoding"]["x"]["title"] == "s from opening"
    assert spec["layer"][0]["encoding"]["x"]["scale"]["domain"] == [-30.0, 30.0]
    assert spec["layer"][0]["encoding"]["color"]["scale"]["domain"] == ["value", "limit"]
    assert {"s": 0.0, "series": "limit", "y": 105.0} in drawn.rows.to_dict("records")
    assert marks(drawn) == [{"s": 0.0, "mark": "opened"}, {"s": 12.0, "mark": "cleared"}]


def marks(drawn: Drawing) -> list[dict[str, Any]]:
    """The rows of the upright lines."""
    found: list[dict[str, Any]] = next(
        layer["data"]["values"] for layer in drawn.spec["layer"] if "data" in layer
    )
    return found


def test_an_alert_without_a_limit_in_the_values_unit_draws_none() -> None:
    drawn = evidence.value_chart(judged(None), "Coolant", cleared_s=90.0)
    assert drawn.spec["layer"][0]["encoding"]["color"]["scale"]["domain"] == ["value"]
    assert set(drawn.rows["series"]) == {"value"}
    assert marks(drawn) == [{"s": 0.0, "mark": "opened"}]


RECORD: dict[str, Any] = {
    "hash_ok": True, "signature": "valid", "raw_kept": True, "noted_digest": "ab", "unchanged": True,
    "digest": "ab" * 32, "defects": [], "complete": True, "locked_at": None, "locked_by": None,
    "locked_why": None,
}  # fmt: skip


def test_integrity_says_what_is_and_by_what() -> None:
    good = crash_charts.integrity(RECORD, ZONE).set_index("What")["Is"].to_dict()
    assert good == {
        "Seal": "matches", "Signature": "by its vehicle", "Bytes": "kept as received",
        "Since receipt": "unchanged", "Whole and plausible": "whole", "Complete": "yes", "Lock": "open",
    }  # fmt: skip
    bad = RECORD | {"hash_ok": False, "unchanged": False, "defects": [{"element": "a"}] * 2, "locked_at": NOW}
    found = crash_charts.integrity(bad | {"locked_by": "me"}, ZONE).set_index("What")["Is"].to_dict()
    assert found["Seal"] == "DOES NOT MATCH"
    assert found["Since receipt"] == "CHANGED, and the log does not say so"
    assert (found["Whole and plausible"], found["Lock"]) == ("2 defects", "locked by me")
    assert crash_charts.integrity(RECORD | {"noted_digest": None}, ZONE)["Is"][3] == "NOT IN THE CUSTODY LOG"


def test_the_seconds_before_time_zero_are_drawn_for_what_was_recorded_with_the_brake_below() -> None:
    frame = pd.DataFrame(
        {
            "t_ms": [-200.0, -100.0, 0.0],
            "speed_kmh": [50.0, 48.0, 40.0],
            "accelerator_pct": [None] * 3,
            "engine_rpm": [None] * 3,
            "steering_deg": [0.0, 5.0, None],
            "brake_on": [False, True, None],
            "abs_active": [None] * 3,
            "esc_active": [None] * 3,
        }
    )
    panels = crash_charts.panels(frame)
    assert [title for title, _ in panels] == ["speed, km/h", "steering, °"]
    spec = panels[0][1].spec
    assert [layer["mark"]["type"] for layer in spec["layer"]] == ["rect", "line"]
    assert spec["layer"][1]["encoding"]["y"]["title"] == "km/h"
    assert spec["layer"][0]["data"]["values"] == [{"s": -0.1, "until": 0.0, "flag": "brake"}]


def test_the_delta_v_curve_marks_the_air_bag_and_leaves_out_an_axis_that_was_not_recorded() -> None:
    frame = pd.DataFrame({"t_ms": [0.0, 10.0], "delta_v_kmh": [0.0, -5.0], "delta_v_lat_kmh": [None, None]})
    drawn = crash_charts.delta_v(frame, {"air bag": 22.0, "largest": None})
    spec = drawn.spec
    assert spec["layer"][0]["encoding"]["color"]["scale"]["domain"] == ["longitudinal"]
    assert spec["layer"][0]["encoding"]["x"]["title"] == "ms after time zero"
    assert marks(drawn) == [{"mark": "air bag", "t_ms": 22.0}]


def test_a_signal_that_hardly_changes_is_drawn_on_an_axis_that_says_so() -> None:
    noise = pd.DataFrame({"s": [0.0, 1.0], "value": [49.5, 49.7]})
    drawn = evidence.signal_chart(noise, "speed_kmh", None).spec["layer"][0]["encoding"]["y"]["scale"]
    assert drawn["domain"] == pytest.approx([49.103, 50.097])
    nothing = noise.assign(value=0.0)
    drawn = evidence.signal_chart(nothing, "speed_kmh", None).spec["layer"][0]["encoding"]["y"]["scale"]
    assert drawn["domain"] == [-0.5, 0.5]
    steep = pd.DataFrame({"s": [0.0, 1.0], "value": [20.0, 60.0]})
    drawn = evidence.signal_chart(steep, "speed_kmh", None).spec["layer"][0]["encoding"]["y"]["scale"]
    assert drawn == {"zero": False}


def test_a_silence_says_whether_it_is_in_force_over_or_who_ended_it() -> None:
    asked = {"rule": "speeding", "vehicle_id": None, "by_whom": "A", "why": "road works", "ended_by": None}
    ended = asked | {"in_force": False, "ended_by": "M. Weber"}
    states = [alert_tables.silence_state(asked | {"in_force": on}) for on in (True, False)]
    assert [*states, alert_tables.silence_state(ended)] == ["in force", "over", "ended by M. Weber"]
    moment = pd.Timestamp("2026-11-20T12:00", tz="UTC")
    words = alert_tables.silence_words(asked | {"until_at": moment.to_pydatetime()}, ZoneInfo("UTC"), moment)
    assert words == "speeding · all vehicles · until 12:00:00 UTC · A: road works"


def test_a_list_that_nobody_works_on_is_always_the_newest() -> None:
    assert held([3, 1, 2], [4, 3, 1], still=False) == ((4, 3, 1), 0)


def test_a_list_stands_still_while_an_alert_is_open_and_counts_the_newcomers() -> None:
    assert held([3, 1, 2], [4, 5, 3, 1], still=True) == ((3, 1, 2), 2)


def test_a_list_opened_by_a_link_has_no_order_to_keep_yet() -> None:
    assert held([], [4, 3], still=True) == ((4, 3), 0)


def test_rows_come_in_the_order_that_stands_and_none_is_doubled() -> None:
    rows = pd.DataFrame({"alert_no": [4, 1, 3, 3], "rule": ["d", "a", "c", "c"]})
    assert in_order(rows, "alert_no", [3, 9, 1])["rule"].tolist() == ["c", "a"]
    assert in_order(rows.head(0), "alert_no", [3]).empty


def test_the_neighbours_end_at_the_list_and_an_alert_outside_leads_to_its_first() -> None:
    assert [neighbour([7, 5, 6], current, 1) for current in (7, 5, 6, 99, None)] == [5, 6, None, 7, 7]
    assert [neighbour([7, 5, 6], current, -1) for current in (7, 6)] == [None, 5]
    assert neighbour([], None, 1) is None


def test_what_is_of_the_fleet_as_such_names_no_vehicle() -> None:
    alert = pd.DataFrame([ALERT | {"vehicle_id": FLEET}])
    assert text.table(alert, alert_tables.ALERTS, ZONE, NOW)["Vehicle"].tolist() == ["fleet"]
    told = [text.whose({"vehicle_id": one, "vehicles": n}) for one, n in (("V", 1), (None, 1), (None, 1200))]
    assert told == ["V", "fleet", "fleet: 1,200 vehicles"]
