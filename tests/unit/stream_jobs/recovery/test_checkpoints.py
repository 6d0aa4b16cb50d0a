"""A checkpoint is only read by the operators that wrote it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from infra.contract.errors import ConfigError
from infra.settings.settings import Settings
from infra.stack import processes
from stream_jobs import cli
from stream_jobs.recovery.checkpoints import checkpoint_of, of_logs, reset
from stream_jobs.recovery.files import LocalFiles, checkpoint_files


def files(home: Path) -> LocalFiles:
    return LocalFiles(str(home / "checkpoints"))


def at_home(home: Path) -> Settings:
    return Settings(paths={"home": home})


def old_checkpoint(home: Path, name: str) -> None:
    (home / "checkpoints" / name / "offsets").mkdir(parents=True)


def test_a_checkpoint_of_older_operators_is_put_aside_once_and_its_successor_stays(tmp_path: Path) -> None:
    for name in ("telemetry", "windows", "archive"):
        old_checkpoint(tmp_path, name)

    folder = Path(checkpoint_of(files(tmp_path), "telemetry", 2, replaces=("windows",)).location)
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == ["archive", "telemetry"]
    assert len(list((tmp_path / "checkpoints.old").glob("*/offsets"))) == 2
    assert not (folder / "offsets").exists()

    (folder / "offsets").mkdir()
    assert Path(
        checkpoint_of(files(tmp_path), "telemetry", 2, replaces=("windows",)).location, "offsets"
    ).exists()
    assert not Path(checkpoint_of(files(tmp_path), "telemetry", 3).location, "offsets").exists()
    assert Path(checkpoint_of(files(tmp_path), "archive", None).location, "offsets").exists()


def test_what_a_newer_version_wrote_is_left_to_it_until_it_is_reset(tmp_path: Path) -> None:
    newer = checkpoint_of(files(tmp_path), "telemetry", 10, buckets=2)
    newer.write("metadata", "{}")
    with pytest.raises(ConfigError, match=r"newer version .*\(operators 10, here 9\).* jobs reset telemetry"):
        checkpoint_of(files(tmp_path), "telemetry", 9, buckets=2)
    assert newer.read("metadata") == "{}"
    assert checkpoint_of(files(tmp_path), "telemetry", "9").read("metadata") is None
    checkpoint_of(files(tmp_path), "telemetry", 10)
    reset(files(tmp_path), at_home(tmp_path), "telemetry")
    assert checkpoint_of(files(tmp_path), "telemetry", 9, buckets=2).read("metadata") is None


def test_a_checkpoint_says_itself_in_how_many_partitions_its_state_lies(tmp_path: Path) -> None:
    checkpoint = checkpoint_of(files(tmp_path), "telemetry", 2, buckets=2)
    assert checkpoint.partitions() is None
    for batch in (9, 10):
        conf = {"spark.sql.shuffle.partitions": "4", "spark.sql.ansi.enabled": "true"}
        head = json.dumps({"batchWatermarkMs": 41, "batchTimestampMs": 42, "conf": conf})
        checkpoint.write(f"offsets/{batch}", f'v1\n{head}\n{{"t": {{"0": 7}}}}')
    assert checkpoint.partitions() == 4


def test_a_checkpoint_is_reset_by_putting_it_aside(tmp_path: Path) -> None:
    old_checkpoint(tmp_path, "telemetry")
    kept = Path(reset(files(tmp_path), at_home(tmp_path), "telemetry"))
    assert (kept / "offsets").exists()
    assert kept.parent == tmp_path / "checkpoints.old"
    assert list((tmp_path / "checkpoints").iterdir()) == []


def test_a_reset_of_all_checkpoints_where_there_is_none_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODOGRAPH_PATHS_HOME", str(tmp_path))
    monkeypatch.setattr(cli, "configure", lambda _name: None)  # the log is this process's
    with pytest.raises(ConfigError, match=f"no checkpoint in {tmp_path}/checkpoints"):
        CliRunner().invoke(cli.jobs, ["reset", "all"], catch_exceptions=False)


def test_a_checkpoint_goes_on_with_its_own_log_only_and_of_another_one_even_the_archives_is_reset(
    tmp_path: Path,
) -> None:
    old_checkpoint(tmp_path, "archive")
    checkpoint = checkpoint_of(files(tmp_path), "archive", None)
    one, more, two = {"t": "one"}, {"t": "one", "u": "new"}, {"t": "two", "u": "other"}
    of_logs(checkpoint, one)  # of a version that noted none: it is the one at hand
    of_logs(checkpoint, more)
    told = r"checkpoint of archive .* of another log: t was .*\(one; now two\).*odograph jobs reset archive"
    with pytest.raises(ConfigError, match=told):
        of_logs(checkpoint, two)
    for logs in (more, two | one):
        with pytest.raises(ConfigError, match="its files and its lines in the ledger"):
            reset(files(tmp_path), at_home(tmp_path), "archive", logs)
    assert Path(reset(files(tmp_path), at_home(tmp_path), "archive", two)).exists()
    of_logs(checkpoint_of(files(tmp_path), "archive", None), two)


def test_a_reset_of_the_archive_of_nothing_and_under_a_running_program_is_refused(tmp_path: Path) -> None:
    for name in ("telemetry", "archive"):
        old_checkpoint(tmp_path, name)
    with pytest.raises(ConfigError, match="archive: its files and its lines in the ledger hang on"):
        reset(files(tmp_path), at_home(tmp_path), "archive")
    with pytest.raises(ConfigError, match=r"no checkpoint of telemetr in .*; there are: telemetry"):
        reset(files(tmp_path), at_home(tmp_path), "telemetr")
    ticks = processes.start_ticks(os.getpid())
    (tmp_path / "run").mkdir()
    processes.pid_file(tmp_path / "run", "jobs").write_text(f"{os.getpid()}\n{ticks}\nSIGTERM\n")
    with pytest.raises(ConfigError, match="jobs runs and would write on: stop it first"):
        reset(files(tmp_path), at_home(tmp_path), "telemetry")


@pytest.mark.parametrize("by_url", [False, True])
def test_checkpoints_lie_in_a_folder_or_by_a_url_alike(
    java: SparkSession, tmp_path: Path, by_url: bool
) -> None:
    place = f"file://{tmp_path}/checkpoints" if by_url else str(tmp_path / "checkpoints")
    root = checkpoint_files(Settings(paths={"checkpoints": place}), lambda: java)  # type: ignore[arg-type]
    checkpoint = checkpoint_of(root, "telemetry", 2, buckets=3)
    assert checkpoint.location == f"{place}/telemetry"
    assert (checkpoint.query_id(), checkpoint.batches("offsets"), checkpoint.ends_of(4)) == (None, [], None)
    checkpoint.write("metadata", '{"id":"4f6a"}')
    for batch_id in (4, 10):
        checkpoint.write(f"offsets/{batch_id}", f'v1\n{{}}\n{{"t":{{"0":{batch_id}}}}}')
    assert (checkpoint.query_id(), checkpoint.batches("offsets")) == ("4f6a", [4, 10])
    assert checkpoint.ends_of(10) == {"t": {0: 10}}
    with pytest.raises(
        ConfigError, match=r"ODOGRAPH_JOBS_VEHICLE_BUCKETS is 5, and the state .* in 3 buckets"
    ):
        checkpoint_of(root, "telemetry", 2, buckets=5)
    assert checkpoint_of(root, "telemetry", 3).batches("offsets") == []
    assert len([*tmp_path.glob("checkpoints.old/telemetry-*/offsets")]) == 1
    beside = checkpoint_files(Settings(paths={"checkpoints": place}), lambda: java, ".r1")  # type: ignore[arg-type]
    assert beside.names("") == []
    beside.write("telemetry/metadata", "of a run")
    assert (tmp_path / "checkpoints.r1" / "telemetry").exists()
    assert beside.names("") == ["telemetry"]
    beside.remove("")
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoints", "checkpoints.old"}
