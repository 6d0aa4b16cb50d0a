"""A generated day and a folder of CSV come into the archive once and whole; which spans are then restated."""

from __future__ import annotations

import shutil
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from edge_simulator import day
from edge_simulator.recordings import replay
from edge_simulator.scenario import LinkShares, Scenario, cadence
from infra.contract.errors import ArchiveError, ConfigError
from infra.settings.settings import Settings
from stream_jobs.archive import reader
from stream_jobs.archive.manifest import archive_of, sha256_of
from stream_jobs.archive.query import exceptions_in
from stream_jobs.archive.verify import verified
from stream_jobs.reprocess.backfill import note_restated, restated_spans, spans_of, take_in
from stream_jobs.reprocess.queue import Span

ROUGH = Scenario(
    seed=3, vehicles=12, cadence=cadence(12, None, 10_000), start_ms=1_763_593_200_000, frames_per_vehicle=10,
    longest_step_ms=500, link=LinkShares(late=0.1, late_beyond=0.1, clock_ahead=0.05, clock_unset=0.05),
)  # fmt: skip
HOUR_MS = 3_600_000
MINUTE_MS = 60_000
HEADER = "Date,Time,SOC,Speed,mode,LAT,LON,ALT,GpsSpeed,Temperature,SpeedLimit"


def row(date: str, second: int) -> str:
    return f"{date},11:00:{second:02d},87.5,36,D,34.0000{second:02d},-6.700000,140,0,20,40"


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    return Settings(paths={"home": str(tmp_path)})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = Settings(paths={"home": str(tmp_path_factory.mktemp("generated"))})  # type: ignore[arg-type]
    return Path(day.make(ROUGH, settings, "rough", lambda _: None)["folder"])


@pytest.fixture
def made(generated: Path, home: Settings) -> Path:
    return Path(shutil.copytree(generated, home.paths.home / "days" / "rough"))


def stored(archive: Path) -> pa.Table:
    return pa.concat_tables(pq.read_table(path, partitioning=None) for path in reader.paths(archive))


def test_a_day_lies_in_the_archive_once_however_often_it_is_taken_in(home: Settings, made: Path) -> None:
    archive = archive_of(home.paths.home)
    first, again = take_in(archive, made), take_in(archive, made)
    summary = orjson.loads((made / "run.json").read_bytes())
    table = stored(archive)
    assert table.num_rows == summary["records"]
    assert (first.fresh, again.fresh) == (len(first.files), 0)
    assert first.frames == summary["verdicts"]["ok"] + summary["verdicts"]["late"]
    assert first.vehicles == 12
    whole = table.filter([word in ("ok", "late") for word in table["verdict"].to_pylist()])
    assert first.pieces_ms[0][0] == min(whole["t0_ms"].to_pylist())
    assert verified(archive, None, quick=False).whole


def test_what_is_late_or_quarantined_is_told_with_its_coordinates(home: Settings, made: Path) -> None:
    taken = take_in(archive_of(home.paths.home), made)
    found = pa.concat_tables(exceptions_in(taken.files)).to_pylist()
    verdicts = orjson.loads((made / "run.json").read_bytes())["verdicts"]
    assert {word: sum(r["verdict"] == word for r in found) for word in verdicts if word != "ok"} == {
        word: count for word, count in verdicts.items() if word != "ok"
    }
    assert {r["topic"] for r in found} == {"rough.telemetry"}


def test_another_day_of_the_same_name_is_refused(made: Path, tmp_path: Path) -> None:
    take_in(tmp_path / "archive", made)
    second = Path(shutil.copytree(made, tmp_path / "elsewhere" / "rough"))
    file = reader.files(second)[0].path
    pq.write_table(pq.read_table(file, partitioning=None).slice(1), file)
    summary = orjson.loads((second / "run.json").read_bytes())
    summary["files"][file.relative_to(second).as_posix()] = {
        "bytes": file.stat().st_size, "sha256": sha256_of(file)
    }  # fmt: skip
    (second / "run.json").write_bytes(orjson.dumps(summary))
    with pytest.raises(ConfigError, match=r"another rough\.parquet is in the archive already"):
        take_in(tmp_path / "archive", second)


def test_a_damaged_day_and_a_folder_that_is_none_are_refused(made: Path, tmp_path: Path) -> None:
    spoiled = reader.files(made)[0].path
    spoiled.write_bytes(spoiled.read_bytes()[:-1])
    with pytest.raises(ArchiveError, match=r"rough\.parquet has \d+ bytes"):
        take_in(tmp_path / "archive", made)
    with pytest.raises(ConfigError, match="is no generated day"):
        take_in(tmp_path / "archive", tmp_path)
    assert not (tmp_path / "archive").exists()


def test_drives_of_weeks_become_a_day_of_the_archive_in_the_order_of_receipt(
    home: Settings, tmp_path: Path
) -> None:
    csv = tmp_path / "csv"
    csv.mkdir()
    for name, date in (("b", "03/29/2021"), ("a", "04/28/2021")):
        rows = [row(date, second) for second in range(25)]
        (csv / f"{name}.csv").write_text("\n".join((HEADER, *rows)) + "\n")
    drives = replay.convoy(csv, None, 1.0, "kept")
    made = replay.make(drives, home, "spring")
    assert replay.make(drives, home, "spring") == made
    taken = take_in(archive_of(home.paths.home), made)
    table = stored(archive_of(home.paths.home))
    assert (taken.frames, table.num_rows) == (6, 6)
    assert table["received_ms"].to_pylist() == sorted(table["received_ms"].to_pylist())
    assert set(table["verdict"].to_pylist()) == {"ok"}
    assert [file.parent.parent.name for file in taken.files] == ["date=2021-03-29", "date=2021-04-28"]
    frames = [orjson.loads(value) for value in table["value"].to_pylist()]
    assert [frame["n"] for frame in frames] == [10, 10, 5, 10, 10, 5]
    assert frames[0]["t0_ms"] == 1_617_012_000_000
    assert table["received_ms"][0].as_py() == 1_617_012_009_000


def test_other_drives_under_the_same_name_are_refused(home: Settings, tmp_path: Path) -> None:
    csv = tmp_path / "csv"
    csv.mkdir()
    (csv / "a.csv").write_text("\n".join((HEADER, row("03/29/2021", 1), row("03/29/2021", 2))) + "\n")
    replay.make(replay.convoy(csv, None, 1.0, "kept"), home, "spring")
    (csv / "a.csv").write_text("\n".join((HEADER, row("03/29/2021", 3), row("03/29/2021", 4))) + "\n")
    with pytest.raises(ConfigError, match="was made of other drives"):
        replay.make(replay.convoy(csv, None, 1.0, "kept"), home, "spring")


def test_pieces_become_whole_road_windows_joined_where_they_are_near() -> None:
    pieces = [
        (5 * HOUR_MS + 1, 5 * HOUR_MS + 90_000),
        (5 * HOUR_MS + 40 * MINUTE_MS, 6 * HOUR_MS),
        (50 * HOUR_MS, 50 * HOUR_MS),
    ]
    assert spans_of(pieces, MINUTE_MS) == [
        Span(5 * HOUR_MS, 6 * HOUR_MS + MINUTE_MS), Span(50 * HOUR_MS, 50 * HOUR_MS + MINUTE_MS),
    ]  # fmt: skip
    assert spans_of([], MINUTE_MS) == []


def test_spans_that_are_restated_are_not_restated_again_unless_files_came_in(tmp_path: Path) -> None:
    spans = [Span(0, MINUTE_MS), Span(HOUR_MS, 2 * HOUR_MS)]
    progress = tmp_path / "backfills/monday.json"
    assert restated_spans(progress) == []
    for span in spans:
        note_restated(progress, span)
    assert restated_spans(progress, fresh=False) == spans
    assert restated_spans(progress, fresh=True) == []
    assert restated_spans(progress) == []
