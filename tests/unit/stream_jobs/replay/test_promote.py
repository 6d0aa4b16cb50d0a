"""The text of promoted views, of what reads through them, and of a run's own settings."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from infra.contract.errors import ConfigError
from infra.contract.verdict import ClockLimits
from infra.settings.settings import load
from stream_jobs.replay import command, runs
from stream_jobs.replay.databases import TABLES, Table
from stream_jobs.replay.promote import Promoted, promoted_view, reading
from stream_jobs.replay.records import Span, whole_span
from stream_jobs.replay.runs import Run

RUN = Run("r1", "archive", 0, 10, 0, 10, 10, (), None, ("stream",), {"JOBS_WINDOW_S": "20"}, "c0de")
ROAD = Table("road_cell_window", ("cell",), "window_start", fleet=True)
VEHICLES = ["WDB1240001A000001"]


def test_only_whole_names_of_tables_are_read_through_promoted() -> None:
    text = "SELECT vehicle_window.a FROM odograph.vehicle_window JOIN odograph.vehicle v ON odograph.alert_x"
    promoted = (
        "SELECT vehicle_window.a FROM promoted.vehicle_window JOIN odograph.vehicle v ON odograph.alert_x"
    )
    assert reading("promoted", text) == promoted
    assert reading("promoted", "odograph.alert, odograph.alert_event") == (
        "promoted.alert, promoted.alert_event"
    )
    assert reading("odograph", promoted) == text


def test_a_run_of_some_vehicles_says_nothing_of_roads() -> None:
    some = Promoted("run_a", datetime(2026, 11, 20, tzinfo=UTC), datetime(2026, 11, 21, tzinfo=UTC), VEHICLES)
    assert promoted_view(ROAD, ["cell"], [some]) == (
        "CREATE OR REPLACE VIEW promoted.road_cell_window AS SELECT cell FROM odograph.road_cell_window"
    )
    quoted = promoted_view(TABLES[0], ["a"], [some._replace(vehicles=["'; DROP TABLE x"])])
    assert """'{"''; DROP TABLE x"}'""" in quoted


def test_another_version_of_the_jobs_may_not_go_on_with_a_run() -> None:
    jobs = {"vehicles": (), "jobs": ("stream",), "settings": {"JOBS_WINDOW_S": "20"}, "code": "c0de"}
    runs.same_jobs(RUN, **jobs)
    with pytest.raises(ConfigError, match="another version of the jobs"):
        runs.same_jobs(RUN, **jobs | {"code": "other"})
    with pytest.raises(ConfigError, match="other settings"):
        runs.same_jobs(RUN, **jobs | {"settings": {}, "code": "other"})
    with pytest.raises(ConfigError, match="another vehicles"):
        runs.same_jobs(RUN, **jobs | {"vehicles": ("V",)})


def test_a_run_is_kept_as_it_was_and_an_unknown_one_names_those_there_are(tmp_path: Path) -> None:
    run = replace(RUN, vehicles=tuple(VEHICLES), speed=60.0)
    runs.save(tmp_path, run)
    assert runs.load(tmp_path, "r1") == run
    with pytest.raises(ConfigError, match="no run 'r2'; there are: r1"):
        runs.load(tmp_path, "r2")
    with pytest.raises(ConfigError, match="run 'Day 1'"):
        runs.check_id("Day 1")


def test_a_run_is_in_one_process_at_a_time(tmp_path: Path) -> None:
    with (
        runs.held(tmp_path, "r1"),
        pytest.raises(ConfigError, match="under way in another process"),
        runs.held(tmp_path, "r1"),
    ):
        pass
    with runs.held(tmp_path, "r1"):
        pass


def test_settings_of_a_run_are_judged_before_anything_is_begun() -> None:
    assert command.settings_given(("jobs.window_s=20", "tz=Europe/Berlin")) == {
        "JOBS_WINDOW_S": "20", "TZ": "Europe/Berlin"
    }  # fmt: skip
    assert runs.with_settings({"JOBS_WINDOW_S": "20"}).jobs.window_s == 20
    for wrong in ("jobs.window=20", "jobs.window_s", "jobs.window_s=none", "kafka.prefix=x."):
        with pytest.raises(ConfigError, match=r"jobs\.window|JOBS_WINDOW_S|kafka"):
            command.settings_given((wrong,))
    with pytest.raises(ConfigError, match="--jobs 'events'"):
        command.jobs_of("events")


def test_the_code_of_a_run_changes_with_its_settings_and_rules(tmp_path: Path) -> None:
    def digest(**jobs: str) -> str:
        return runs.code_digest(tmp_path, load(jobs=jobs))

    rules = tmp_path / "rules.yaml"
    rules.write_text("a")
    first = digest(rules=str(rules))
    assert first == digest(rules=str(rules))
    rules.write_text("b")
    assert first != digest(rules=str(rules))
    assert digest() != digest(window_s="20")


@pytest.mark.parametrize("source", ["windows/vehicle.py", "windows/measures.txt", "app/jobs.conf"])
def test_the_code_of_a_run_changes_with_what_its_windows_and_checkpoints_are_made_by(
    tmp_path: Path, source: str
) -> None:
    file = tmp_path / "stream_jobs" / source
    file.parent.mkdir(parents=True)
    file.write_text("max speed_kmh")
    first = runs.code_digest(tmp_path, load())
    assert first == runs.code_digest(tmp_path, load())
    file.write_text("min speed_kmh")
    assert first != runs.code_digest(tmp_path, load())


def test_a_stretch_of_the_log_speaks_for_windows_that_cannot_lack_a_record() -> None:
    limits = ClockLimits(0, 10_000, 30_000)
    partitions = [Span(1_000, 400_000), Span(55_000, 390_000)]
    assert whole_span(partitions, limits, 60_000) == Span(120_000, 360_000)
    with pytest.raises(ConfigError, match="too short"):
        whole_span([Span(0, 100_000)], limits, 60_000)
