"""Two devices under one identity are told from a reboot, a clock set back and frames stored before it."""

from __future__ import annotations

from pathlib import Path

import duckdb

from stream_jobs.audit.archive import Clone, cloned_vehicles

T0 = 1_767_225_600_000


def archive(home: Path, *made: tuple[str, int, int, int, str]) -> None:
    """Frames of 1 s as (vehicle, boot, sample time, receive time, verdict), times in s after T0."""
    folder = home / "archive" / "telemetry" / "date=2026-01-01" / "hour=00"
    folder.mkdir(parents=True)
    rows = ", ".join(
        f"('{v}', {b}, {T0 + 1000 * at}, 900, {T0 + 1000 * seen}, '{word}')" for v, b, at, seen, word in made
    )
    names = "vehicle_id, boot_id, t0_ms, span_ms, received_ms, verdict"
    duckdb.sql(f"SELECT * FROM (VALUES {rows}) t({names})").write_parquet(str(folder / "a.parquet"))


def test_two_boots_that_report_at_once_are_two_devices(tmp_path: Path) -> None:
    both = [("V", boot, at, at + 1, "ok") for at in range(60) for boot in (1, 2)]
    archive(tmp_path, *both)
    assert cloned_vehicles(tmp_path) == [Clone("V", 1, 2, 59_900)]


def test_a_reboot_is_one_device(tmp_path: Path) -> None:
    archive(tmp_path, *(("V", 1 + at // 60, at, at + 1, "ok") for at in range(180)))
    assert cloned_vehicles(tmp_path) == []


def test_frames_stored_before_a_reboot_and_sent_after_it_are_one_devices(tmp_path: Path) -> None:
    stored = [("V", 1, at, 100 + at, "late") for at in range(90)]
    archive(tmp_path, *stored, *(("V", 2, 100 + at, 101 + at, "ok") for at in range(90)))
    assert cloned_vehicles(tmp_path) == []


def test_a_clock_that_a_reboot_sets_back_is_one_device(tmp_path: Path) -> None:
    first = [("V", 1, at, at + 1, "ok") for at in range(100)]
    archive(tmp_path, *first, *(("V", 2, at, at + 101, "late") for at in range(100)))
    assert cloned_vehicles(tmp_path) == []


def test_quarantined_frames_and_other_vehicles_say_nothing(tmp_path: Path) -> None:
    ours = [("V", 1, at, at + 1, "ok") for at in range(60)]
    others = [("W", 2, at, at + 1, "ok") for at in range(60)]
    archive(tmp_path, *ours, *others, *(("V", 3, at, at + 1, "clock_ahead") for at in range(60)))
    assert cloned_vehicles(tmp_path) == []


def test_without_an_archive_there_are_none(tmp_path: Path) -> None:
    assert cloned_vehicles(tmp_path) == []
