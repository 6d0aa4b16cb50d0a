"""Archived records on their way to windows, journeys and findings: by DuckDB, in groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from infra.contract.verdict import clock_limits
from infra.settings.settings import Settings
from stream_jobs.app.telemetry import table_of
from stream_jobs.archive import reader
from stream_jobs.archive.manifest import archive_of
from stream_jobs.archive.upkeep import expire, settle
from stream_jobs.archive.writer import now_ms, write_files
from stream_jobs.reprocess import feed
from stream_jobs.reprocess.feed import Feeder, Remake, Wanted, vehicles_in
from stream_jobs.reprocess.queue import Work, grid_of, hours_ms
from stream_jobs.rules.rule_set import RuleSet
from stream_jobs.vehicles.rows import TripRow, unpack
from stream_jobs.windows.places import summed
from tests.support_frames import Record, frame, vin
from tests.unit.stream_jobs.archive.archive_support import HOUR_MS, TEN, batches
from tests.unit.stream_jobs.window_support import T0, archived, recorded, windows_of

MINUTE = 60_000
SECONDS = 480


def moving(vehicle: int, late: range = range(0)) -> list[Record]:
    """100 s of driving, then standing; a frame a second, those of ``late`` received five minutes later."""
    found = []
    for second in range(SECONDS):
        drives = second < 100
        content = frame(
            vehicle, second, T0 + second * 1000, speed_kmh=36.0 if drives else 0.0, ignition_on=True,
            lat_deg=48.1 + min(second, 100) * 10 / 111_195, lon_deg=11.5,
        )  # fmt: skip
        found.append((T0 + second * 1000 + 1500 + (300_000 if second in late else 0), orjson.dumps(content)))
    return found


RECORDS = sorted([*moving(1), *moving(2, late=range(70, 75)), *moving(2)[:5], *moving(3)])
WORKS = {vin(v): Work(vin(v), T0, T0, T0 - MINUTE, T0 + 3600_000, None, True, True) for v in (1, 2)}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    found = Settings(paths={"home": str(tmp_path)})  # type: ignore[arg-type]
    folder = tmp_path / "archive" / "telemetry"
    write_files(folder, [recorded(RECORDS)], clock_limits(found))
    return found


def made(
    settings: Settings, windows: tuple[int, int], works: dict[str, Work],
    wanted: set[str] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Tables by kind, and rows by kind and vehicle."""
    grid = grid_of(settings)
    starts = range(*windows, grid.road_window_ms)
    times = [(w.vehicle_id, w.from_ms, w.to_ms) for w in works.values()]
    selected = Wanted(windows, grid.received(starts), None, times)
    feeder = Feeder()
    remake = Remake(settings, RuleSet(), works, T0 + 7_200_000, windows, wanted)
    files = reader.of_hours(archive_of(settings.paths.home), [T0, T0 - 3_600_000, T0 + 3_600_000])
    found: dict[str, Any] = {}
    for kind, vehicle_id, body in feeder(files, selected, remake):
        if vehicle_id is None:
            found[kind] = pa.concat_tables([*([found[kind]] if kind in found else []), table_of(body)])
        elif kind == feed.JOURNEY:
            found.setdefault(vehicle_id, []).append(unpack(body))
    return found


def in_order(rows: pa.Table) -> list[dict[str, Any]]:
    return rows.sort_by([(name, "ascending") for name in rows.column_names[:3]]).to_pylist()


def test_one_reading_gives_the_windows_of_a_time_and_the_journeys_of_whole_days(settings: Settings) -> None:
    windows = (T0 + MINUTE, T0 + 3 * MINUTE)
    found = made(settings, windows, WORKS)
    every, _, _ = windows_of(archived(RECORDS))
    inside = [
        row for row in in_order(every) if windows[0] <= row["window_start"].timestamp() * 1000 < windows[1]
    ]
    assert len(inside) == 3 * 12
    assert in_order(found[feed.VEHICLE]) == inside
    for vehicle in (vin(1), vin(2)):
        *_, trip = (row for row in found[vehicle] if isinstance(row, TripRow))
        assert (round(trip.distance_m or 0), trip.frames) == (1000, 101)
    assert vin(3) not in found


def test_windows_are_made_of_the_wanted_vehicles_and_places_are_sums_over_all(settings: Settings) -> None:
    windows = (T0, T0 + 2 * MINUTE)
    some, all_ = made(settings, windows, {}, {vin(2)}), made(settings, windows, {})
    assert set(some[feed.VEHICLE]["vehicle_id"].to_pylist()) == {vin(2)}
    assert in_order(summed(some[feed.SHARES])) == in_order(summed(all_[feed.SHARES]))


@pytest.mark.slow
def test_small_groups_make_the_same(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    windows = (T0, T0 + 8 * MINUTE)
    whole = made(settings, windows, WORKS)
    monkeypatch.setattr(feed, "GROUP", 1)
    by_group = made(settings, windows, WORKS)
    assert in_order(by_group[feed.VEHICLE]) == in_order(whole[feed.VEHICLE])
    assert in_order(summed(by_group[feed.SHARES])) == in_order(summed(whole[feed.SHARES]))
    assert [by_group[v] for v in WORKS] == [whole[v] for v in WORKS]


def test_hours_that_expired_are_none_that_the_archive_has_and_windows_of_their_records_are_not_whole(
    tmp_path: Path,
) -> None:
    archive, ten, eleven = tmp_path / "archive", TEN, TEN + HOUR_MS

    def expired(low: int, high: int) -> int | None:
        return reader.expired_until_ms(archive, hours_ms([(low, high)]))

    assert reader.oldest_ms(archive) is None
    for hour_ms in (ten, eleven):
        batches(archive, 2, hour_ms)
    assert (reader.oldest_ms(archive), expired(ten, eleven)) == (ten, None)
    expire(archive, [ten])
    assert reader.oldest_ms(archive) == eleven
    assert expired(ten, eleven) == expired(eleven - 1, eleven) == eleven
    assert expired(eleven, eleven + 1) is None
    settle(archive, ten, 0, now_ms())
    assert (reader.oldest_ms(archive), expired(ten, ten)) == (eleven, eleven)


def test_vehicles_of_a_time_are_named_without_reading_what_they_said(settings: Settings) -> None:
    windows, files = (T0, T0 + MINUTE), reader.of_hours(archive_of(settings.paths.home), [T0])
    assert vehicles_in(files, Wanted(windows, (T0, T0 + MINUTE))) == [vin(1), vin(2), vin(3)]
    assert vehicles_in(files, Wanted(windows, (T0, T0 + MINUTE), vin(2))) == [vin(2)]
    assert vehicles_in(files, Wanted((T0 - MINUTE, T0), (T0, T0 + MINUTE))) == []
