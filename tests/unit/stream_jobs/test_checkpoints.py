"""A checkpoint is only read by the operators that wrote it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from infra.contract.errors import ConfigError
from infra.stack import processes
from stream_jobs.app.checkpoints import checkpoint_of, reset


def old_checkpoint(home: Path, name: str) -> None:
    (home / "checkpoints" / name / "offsets").mkdir(parents=True)


def test_a_checkpoint_of_older_operators_is_put_aside_once_and_its_successor_stays(tmp_path: Path) -> None:
    for name in ("telemetry", "windows", "archive"):
        old_checkpoint(tmp_path, name)

    folder = checkpoint_of(tmp_path, "telemetry", 2, replaces=("windows",))
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == ["archive", "telemetry"]
    assert len(list((tmp_path / "checkpoints.old").glob("*/offsets"))) == 2
    assert not (folder / "offsets").exists()

    (folder / "offsets").mkdir()
    assert (checkpoint_of(tmp_path, "telemetry", 2, replaces=("windows",)) / "offsets").exists()
    assert not (checkpoint_of(tmp_path, "telemetry", 3) / "offsets").exists()
    assert (checkpoint_of(tmp_path, "archive", None) / "offsets").exists()


def test_a_checkpoint_is_reset_by_putting_it_aside(tmp_path: Path) -> None:
    old_checkpoint(tmp_path, "telemetry")
    kept = reset(tmp_path, "telemetry")
    assert (kept / "offsets").exists()
    assert kept.parent == tmp_path / "checkpoints.old"
    assert list((tmp_path / "checkpoints").iterdir()) == []


def test_a_reset_of_the_archive_of_nothing_and_under_a_running_program_is_refused(tmp_path: Path) -> None:
    for name in ("telemetry", "archive"):
        old_checkpoint(tmp_path, name)
    with pytest.raises(ConfigError, match="archive: its files and its lines in the ledger hang on"):
        reset(tmp_path, "archive")
    with pytest.raises(ConfigError, match=r"no checkpoint of telemetr in .*; there are: telemetry"):
        reset(tmp_path, "telemetr")
    ticks = processes.start_ticks(os.getpid())
    (tmp_path / "run").mkdir()
    processes.pid_file(tmp_path / "run", "jobs").write_text(f"{os.getpid()}\n{ticks}\nSIGTERM\n")
    with pytest.raises(ConfigError, match="jobs runs and would write on: stop it first"):
        reset(tmp_path, "telemetry")
