"""How big what is kept is, and how long it is kept: for ``odograph status``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from infra.clients.db import connected
from infra.contract.errors import OdographError
from infra.settings.settings import Settings, endpoints

FOLDERS: Final = ("archive", "days", "checkpoints", "data/kafka", "data/postgres", "logs")
"""Below the home, each with everything in it."""
BLOCK_BYTES: Final = 512
"""Kafka's index files are long and nearly empty: blocks tell, not lengths."""
_TABLES: Final = """
SELECT schema || '.' || name, bytes, about_rows, since, kept_days, dropped_before FROM serving.table_size
ORDER BY bytes DESC, 1
"""


@dataclass(frozen=True, slots=True)
class TableSize:
    """A table with its indexes. ``about_rows`` is the database's estimate; ``kept_days`` None: for ever."""

    name: str
    bytes: int
    about_rows: int
    since: datetime | None
    kept_days: int | None
    dropped_before: datetime | None


@dataclass(frozen=True, slots=True)
class Sizes:
    """What lies where; ``tables`` is None where the database does not answer."""

    tables: Sequence[TableSize] | None
    folder_bytes: Mapping[str, int]


def sizes(settings: Settings) -> Sizes:
    """What can be measured now; never raises for a service that is away."""
    home = settings.paths.home.resolve()
    elsewhere = {
        "odograph.alert_evidence": settings.jobs.evidence_days,
        "odograph.cohort_residual": settings.cohort.kept_days,
    }  # their own tasks see to these
    tables: list[TableSize] | None
    try:
        found = table_sizes(endpoints(settings).db_owner_url)
        tables = [replace(t, kept_days=elsewhere.get(t.name, t.kept_days)) for t in found]
    except OdographError:
        tables = None  # the rows of the services say what is wrong with it
    return Sizes(tables, {name: folder_bytes(home / name) for name in FOLDERS if (home / name).is_dir()})


def table_sizes(url: str) -> list[TableSize]:
    """Every table, the biggest first; raises ServiceError."""
    with connected(url) as connection:
        return [TableSize(*row) for row in connection.execute(_TABLES)]


def folder_bytes(folder: Path) -> int:
    """What all files below a folder take on the disk; what goes meanwhile is not counted."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += Path(parent, name).lstat().st_blocks * BLOCK_BYTES
            except FileNotFoundError:
                continue  # a checkpoint's file of a moment ago
    return total
