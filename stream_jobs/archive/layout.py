"""Where the archive keeps what: names of folders and files. Pure.

``<folder>/telemetry/date=YYYY-MM-DD/hour=HH/*.parquet`` by receive time, UTC. ``<folder>`` is
``<home>/archive`` or a generated day, ``<home>/days/<day>``.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

from infra.contract.errors import ConfigError

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS

TELEMETRY: Final = "telemetry"
MANIFEST: Final = "manifest"
PACKED: Final = ".packed"
"""Packed files while the files that they replace are still in their places."""
PACKING: Final = ".packing"
"""Work of a compaction: worth nothing when it does not run."""


def archive_of(home: Path) -> Path:
    """The live archive of a home."""
    return home.absolute() / "archive"


def telemetry_of(home: Path) -> Path:
    """The root of the live archive's Parquet files."""
    return archive_of(home) / TELEMETRY


def hour_name(hour_ms: int) -> str:
    """An hour's folder below ``telemetry``, as ``date=2026-01-31/hour=07``."""
    return datetime.fromtimestamp(hour_ms / 1000, UTC).strftime("date=%Y-%m-%d/hour=%H")


def hour_of(folder: Path) -> int | None:
    """Start of the hour of a folder ``.../date=2026-01-31/hour=07``, ms; None where it is none."""
    try:
        at = datetime.strptime(f"{folder.parent.name}/{folder.name}", "date=%Y-%m-%d/hour=%H")
    except ValueError:
        return None
    return int(at.replace(tzinfo=UTC).timestamp() * 1000)


def manifest_of(folder: Path, hour_ms: int) -> Path:
    """The manifest of an hour."""
    return folder / MANIFEST / f"{hour_name(hour_ms)}.jsonl"


def hours_between(since_ms: int, until_ms: int) -> range:
    """Starts of the hours that hold a moment of [since, until)."""
    return range(since_ms // HOUR_MS * HOUR_MS, until_ms, HOUR_MS)


def day_span(day: str) -> tuple[int, int]:
    """Begin and end of a day of receipt, as ``2026-01-31``, UTC, ms. Raises ConfigError."""
    try:
        begun = datetime.combine(date.fromisoformat(day), datetime.min.time(), UTC)
    except ValueError as error:
        raise ConfigError(f"{day!r} is no day: write it as 2026-01-31") from error
    since_ms = int(begun.timestamp() * 1000)
    return since_ms, since_ms + DAY_MS


def days_of(hours_ms: Iterable[int]) -> list[str]:
    """The days of these hours, as ``2026-01-31``, in order."""
    return sorted({f"{datetime.fromtimestamp(h / 1000, UTC):%Y-%m-%d}" for h in hours_ms})
