"""Parts of the pipeline as the page judges them, and the words of the page Operations."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import pytest

from dashboard.screens.operations import tables
from dashboard.shared import text
from infra.settings.sections import Watch

NOW = pd.Timestamp("2026-03-01 12:00", tz="UTC")


def part(stage: str, **changed: Any) -> dict[str, Any]:
    told = {"measured": True, "ready": True, "reason": None, "rate_per_s": 10.0, "errors": 0, "lag": None}
    kernel = {"saturation": 0.1, "cores": 0.5, "memory_mb": 60.0, "restarts": 0, "age_s": 3.0}
    return {"stage": stage, **told, **kernel, **changed}


def judged(*parts: dict[str, Any]) -> pd.DataFrame:
    return tables.judged(pd.DataFrame(parts), 0.8)


@pytest.mark.parametrize(
    ("changed", "state"),
    [
        ({}, "works"),
        ({"errors": None, "saturation": None}, "works"),
        ({"saturation": 0.8}, "strained"),
        ({"errors": 1}, "strained"),
        ({"ready": False, "errors": 1}, "does not work"),
        ({"measured": False}, "unknown"),
        ({"measured": False, "ready": False}, "unknown"),
    ],
)
def test_a_part_is_green_only_when_it_was_measured_green(changed: dict[str, Any], state: str) -> None:
    assert judged(part("bridge", **changed))["state"].tolist() == [state]


def test_parts_stand_in_the_order_of_a_frames_way() -> None:
    found = judged(part("postgres"), part("bridge-2"), part("new"), part("bridge-1"), part("mosquitto"))
    assert found["stage"].tolist() == ["mosquitto", "bridge-1", "bridge-2", "postgres", "new"]


def test_what_was_not_measured_just_now_shows_no_figures_of_before() -> None:
    table = parts_table(part("jobs", measured=False, age_s=400))
    assert table.loc[0, ["Rate", "State", "Measured"]].tolist() == ["—", "? unknown", "6 min ago"]
    assert table.loc[0, ["Errors", "Cores"]].isna().all()


def parts_table(*parts: dict[str, Any]) -> pd.DataFrame:
    rates = pd.DataFrame({"stage": ["jobs", "jobs"], "at": [NOW, NOW], "rate_per_s": [1.0, None]})
    return text.table(tables.parts(judged(*parts), rates), tables.PARTS, ZoneInfo("UTC"))


def test_a_rate_says_what_it_counts() -> None:
    assert parts_table(part("jobs"))["Rate"].tolist() == ["10.0 frames/s"]


STRAINED = part("jobs", errors=2)
UNKNOWN = part("kafka", measured=False)
WRONG = part("jobs", ready=False)


@pytest.mark.parametrize(
    ("parts", "verdict"),
    [
        ((part("jobs"), part("kafka")), ("works", "All 2 parts work")),
        ((STRAINED, part("kafka")), ("strained", "All 2 parts work; strained: Stream jobs (Spark)")),
        ((STRAINED, UNKNOWN), ("unknown", "1 of 2 parts were not measured just now")),
        ((WRONG, UNKNOWN), ("does not work", "1 of 2 parts do not work: Stream jobs (Spark)")),
    ],
)
def test_the_verdict_is_never_better_than_what_is_known(
    parts: tuple[dict[str, Any], ...], verdict: tuple[str, str]
) -> None:
    assert tables.verdict(judged(*parts)) == verdict


def test_each_part_that_is_not_known_to_work_has_a_line() -> None:
    found = judged(
        part("jobs", ready=False, reason="starting"), part("kafka", measured=False, age_s=60), part("events")
    )
    assert tables.troubles(found) == ["? Kafka: not measured for 60 s", "✕ Stream jobs (Spark): starting"]


def test_records_waiting_are_a_row_a_reader_and_a_column_a_partition() -> None:
    keys = {"topic": "telemetry", "rate_per_s": 5.0, "at": NOW}
    lag = pd.DataFrame(
        [
            {"reader": "archive", "partition": 0, "lag": 7, "measured": True, **keys},
            {"reader": "archive", "partition": 1, "lag": 500, "measured": False, **keys},
            {"reader": "telemetry", "partition": 0, "lag": 0, "measured": True, **keys},
        ]
    )
    shown = text.table(*tables.places(lag, Watch()), ZoneInfo("UTC"), NOW)
    columns = ["Reader", "State", "Waiting", "Partition 0", "Partition 1"]
    assert shown[columns].to_numpy().tolist()[0] == ["archive", "? unknown", 507.0, 7.0, 500.0]
    assert shown.loc[1, "State"] == "✓ works"
    assert pd.isna(shown.loc[1, "Partition 1"])


def test_a_partition_far_behind_the_others_of_its_topic_strains_the_reader() -> None:
    lags = {"archive": (9, 9, 9000, 9), "telemetry": (9, 9, 40, 9), "instant": (5000, 5000, 9000, 6000)}
    lag = pd.DataFrame(
        [
            {"reader": r, "topic": "telemetry", "partition": p, "lag": n, "measured": True, "rate_per_s": 1.0,
             "at": NOW}
            for r, each in lags.items() for p, n in enumerate(each)
        ]
    )  # fmt: skip
    shown = text.table(*tables.places(lag, Watch()), ZoneInfo("UTC"), NOW)
    assert shown[["Reader", "State", "Most / median"]].to_numpy().tolist() == [
        ["archive", "! strained", 1000.0], ["instant", "✓ works", 1.8], ["telemetry", "✓ works", 40 / 9]
    ]  # fmt: skip


def told(**changed: Any) -> dict[str, Any]:
    return {"frames": 10_000, "late": 5, "quarantined": 0, "ahead_worst_s": None, "needed_s": None} | changed


def test_the_defence_says_whether_the_delay_in_force_saves_99_9_percent() -> None:
    fine = tables.defence(told(), 30)
    assert fine.startswith("99.950 % of 10,000 frames came within the delay in force, 30 s.")
    assert fine.endswith("no longer delay is needed.")
    more = tables.defence(told(late=50, needed_s=84.0), 30)
    assert more.endswith("A delay of 84 s would have saved 99.9 %.")
    assert "nothing can be said" in tables.defence(told(frames=0), 30)


def test_the_defence_says_what_impossible_clocks_would_have_done() -> None:
    assert tables.pushed(told()) == "No clock was impossible."
    pushed = tables.pushed(told(quarantined=3, ahead_worst_s=315_576_000.0))
    assert "would stand 10.0 years ahead" in pushed
    assert "never set" in tables.pushed(told(quarantined=3))


def test_a_disk_that_fills_says_when_it_is_full() -> None:
    folders = pd.DataFrame({"free_bytes": [10 << 30, 10 << 30], "growth_per_day": [1 << 30, None]}).assign(
        grown_over_s=86_000.0
    )
    assert tables.room(folders) == "10.0 GiB free on the disk, full in 10 days at the growth of the last day."
    begun = folders.assign(grown_over_s=1_500.0)
    assert tables.room(begun) == "10.0 GiB free on the disk; its growth is known after six hours."
    still = folders.assign(growth_per_day=[0.0, -5.0])
    assert tables.room(still) == "10.0 GiB free on the disk."


def test_overload_is_told_while_it_lasts() -> None:
    over = {"began_at": NOW, "ended_at": NOW, "classes": "van", "deferred": 5, "waiting": 0, "lag_records": 9}
    lasts = over | {"ended_at": None, "classes": "car,van", "deferred": 1234}
    assert tables.overload_now(pd.DataFrame()) is None
    assert tables.overload_now(pd.DataFrame([over])) is None
    assert tables.overload_now(pd.DataFrame([lasts, over])) == (
        "Overload: telemetry of car, van goes to the archive only, 1,234 frames so far. "
        "It is taken into windows and trips when it is over."
    )
