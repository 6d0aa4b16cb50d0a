"""Where a query keeps its checkpoint, and what becomes of one that other operators wrote.

State is worth nothing to operators that did not write it. A query with state therefore has a version of its
operators; it stands in its checkpoint, and a checkpoint of another version, or of a query that is no more, is
put aside: the query starts anew, from the earliest record that Kafka keeps, to equal windows.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import structlog

MARK: Final = "operators"
"""File in a checkpoint with the version of the operators that wrote it."""
ASIDE: Final = "checkpoints.old"

log = structlog.get_logger("stream_jobs.checkpoints")


def checkpoint_of(home: Path, query: str, operators: int | None, replaces: Iterable[str] = ()) -> Path:
    """The checkpoint of ``query``, fit for its ``operators``; None: without state, any checkpoint is."""
    folder = (home / "checkpoints" / query).absolute()
    if operators is None:
        return folder
    mark = folder / MARK
    if not mark.exists() or mark.read_text().strip() != str(operators):
        for name in (query, *replaces):
            _put_aside(home, name)
        folder.mkdir(parents=True)
        mark.write_text(f"{operators}\n")
    return folder


def _put_aside(home: Path, name: str) -> None:
    folder = home / "checkpoints" / name
    if folder.exists():
        target = home / ASIDE / f"{name}-{time.time_ns() // 1_000_000}"
        target.parent.mkdir(exist_ok=True)
        folder.rename(target)
        log.warning(
            "checkpoint of other operators put aside: windows come again from Kafka", kept=str(target)
        )
