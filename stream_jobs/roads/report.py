"""Congestion as rows, the slowest places first."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from infra.contract.errors import ConfigError
from stream_jobs.app.database import Connection, fetch

COLUMNS: Final = {
    "place": 18, "congestion": 10, "source": 8, "speed_kmh": 9, "free_flow_kmh": 13, "travel_time_index": 17,
    "vehicles": 8,
}  # fmt: skip
"""What is told of a place, and how wide it is shown."""

_FROM: Final = {
    "edge": "SELECT road_class || ' ' || edge_id AS place, t.* FROM serving.road_edge_at(%(at)s) t",
    "cell": (
        "SELECT cell || ' ' || substr('?NESW', heading_sector + 2, 1) AS place, t.* "
        "FROM serving.road_cell_at(%(at)s) t"
    ),
}


def moment(text: str | None) -> datetime:
    """A moment as ISO 8601, UTC unless it says otherwise; None: now. Raises ConfigError."""
    if text is None:
        return datetime.now(UTC)
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"--at {text}: a moment such as 2026-11-20T08:15Z is wanted") from error
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def congestion(connection: Connection, by: str, at: datetime, limit: int) -> list[dict[str, Any]]:
    """The places of which a speed is known, the lowest share of free flow first. Raises ConfigError."""
    if by not in _FROM:
        raise ConfigError(f"--by {by}: edge or cell is wanted")
    names = ", ".join(COLUMNS)
    statement = (
        f"SELECT {names} FROM ({_FROM[by]}) p WHERE speed_ratio IS NOT NULL "  # noqa: S608  names of this file
        "ORDER BY speed_ratio, place LIMIT %(limit)s"
    )
    rows = fetch(connection, statement, {"at": at, "limit": limit})
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]
