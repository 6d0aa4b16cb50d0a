"""A run's folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge_simulator.runfiles import RunFiles
from infra.contract.errors import ConfigError


@pytest.mark.parametrize("name", ["", ".", "..", "../elsewhere", "/tmp/x", "a/b"])
def test_a_run_lies_in_a_folder_of_its_name_and_nowhere_else(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=f"--run-id '{name}': the name of a folder is wanted"):
        RunFiles(tmp_path, name, log_frames=False)
    with RunFiles(tmp_path, "a name", log_frames=False) as files:
        assert files.folder == tmp_path / "runs" / "a name"
    with pytest.raises(ConfigError, match="exists; give another id"), RunFiles(tmp_path, "a name", False):
        pass
