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

from infra.contract.errors import ConfigError
from infra.stack import processes

MARK: Final = "operators"
"""File in a checkpoint with the version of the operators that wrote it, and the number of their buckets."""
ASIDE: Final = "checkpoints.old"

NEVER_RESET: Final = {
    "archive": "its files and its lines in the ledger hang on its checkpoint: see Reset and back-fill in "
    "stream_jobs/README.md"
}
PROGRAM_OF: Final = {"instant": "instant", "instant-crash": "instant"}
"""The program that runs a query, where it is not ``jobs``."""

log = structlog.get_logger("stream_jobs.app.checkpoints")


def checkpoint_of(
    home: Path, query: str, operators: int | None, replaces: Iterable[str] = (), buckets: int | None = None
) -> Path:
    """The checkpoint of ``query``, fit for its ``operators``; None: without state, any checkpoint is.

    Raises ConfigError where its state lies in another number of ``buckets``.
    """
    folder = (home / "checkpoints" / query).absolute()
    if operators is None:
        return folder
    mark = folder / MARK
    version, *held = mark.read_text().split() if mark.exists() else ("",)
    if version != str(operators):
        for name in (query, *replaces):
            _put_aside(home, name)
        folder.mkdir(parents=True)
        mark.write_text(f"{operators}\n" if buckets is None else f"{operators}\n{buckets}\n")
    elif buckets is not None and held != [str(buckets)]:
        raise ConfigError(
            f"ODOGRAPH_JOBS_VEHICLE_BUCKETS is {buckets}, and the state of {query} lies in {' '.join(held)} "
            f"buckets: set it back, or run `odograph jobs reset {query}`: it reads again what Kafka keeps"
        )
    return folder


def reset(home: Path, query: str) -> Path:
    """Put a query's checkpoint aside by request; where it is kept. Raises ConfigError.

    The query must not be running. It starts anew from the earliest record that Kafka keeps.
    """
    folder = home / "checkpoints" / query
    known = sorted(path.name for path in folder.parent.glob("*") if path.name not in NEVER_RESET)
    if query in NEVER_RESET:
        raise ConfigError(f"{query}: {NEVER_RESET[query]}")
    if query not in known:
        raise ConfigError(
            f"no checkpoint of {query} in {folder.parent}; there are: {', '.join(known) or 'none'}"
        )
    program = PROGRAM_OF.get(query, "jobs")
    if processes.find(home / "run", program) is not None:
        raise ConfigError(
            f"{program} runs and would write on: stop it first (odograph down, or its own Ctrl-C)"
        )
    kept = _put_aside(home, query)
    assert kept is not None
    return kept


def _put_aside(home: Path, name: str) -> Path | None:
    """Where the checkpoint is kept; None where there was none."""
    folder = home / "checkpoints" / name
    if not folder.exists():
        return None
    target = home / ASIDE / f"{name}-{time.time_ns()}"
    target.parent.mkdir(exist_ok=True)
    folder.rename(target)
    log.warning("checkpoint put aside: the query reads again what Kafka keeps", kept=str(target))
    return target
