"""What DuckDB refuses, as the command line tells it."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.clients.duck import connected
from infra.contract.errors import ArchiveError


def test_a_damaged_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "damaged.parquet"
    path.write_bytes(b"PAR1" + b"x" * 100)
    with pytest.raises(ArchiveError, match=r"damaged\.parquet.*archive verify"), connected() as connection:
        connection.execute("SELECT * FROM read_parquet(?)", [str(path)])
