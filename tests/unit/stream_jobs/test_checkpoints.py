"""A checkpoint is only read by the operators that wrote it."""

from __future__ import annotations

from pathlib import Path

from stream_jobs.checkpoints import checkpoint_of


def old_checkpoint(home: Path, name: str) -> None:
    (home / "checkpoints" / name / "offsets").mkdir(parents=True)


def test_a_checkpoint_of_older_operators_is_put_aside_once_and_its_successor_stays(tmp_path: Path) -> None:
    for name in ("windows", "routing", "archive"):
        old_checkpoint(tmp_path, name)

    folder = checkpoint_of(tmp_path, "windows", 2, replaces=("routing",))
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == ["archive", "windows"]
    assert len(list((tmp_path / "checkpoints.old").glob("*/offsets"))) == 2
    assert not (folder / "offsets").exists()

    (folder / "offsets").mkdir()
    assert (checkpoint_of(tmp_path, "windows", 2, replaces=("routing",)) / "offsets").exists()
    assert not (checkpoint_of(tmp_path, "windows", 3) / "offsets").exists()
    assert (checkpoint_of(tmp_path, "archive", None) / "offsets").exists()
