"""Ground truth from a simulator run's file into the table ``odograph.truth``."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from psycopg.rows import namedtuple_row

from infra.clients.db import asked, connected, sql_of
from infra.contract.errors import ConfigError

FILE = "truth.jsonl"
SQL: Final = sql_of(__file__)
_HEAD = ("kind", "what", "vehicle_id", "from_ms", "full_ms", "to_ms", "severity")


def find(home: Path, run_id: str) -> Path:
    """The truth file of a run or a generated day; raises ConfigError."""
    places = [home / folder / run_id / FILE for folder in ("runs", "days")]
    for path in places:
        if path.is_file():
            return path
    raise ConfigError(f"{run_id}: no such run; looked for {' and '.join(map(str, places))}")


def load(url: str, run_id: str, path: Path) -> int:
    """Put a truth file into the table, over what it said before; how many rows.

    A last line that is still being written is left for the next time. Raises ConfigError, ServiceError.
    """
    with connected(url) as connection, connection.cursor() as cursor:
        cursor.execute(SQL["incoming"])
        with cursor.copy("COPY incoming FROM STDIN") as copy:
            for row in _rows(path):
                copy.write_row(row)
        cursor.execute(SQL["take_in"], (run_id,))
        return cursor.rowcount


def counts(url: str, run_id: str | None) -> list[Any]:
    """Rows of what the table says happened, counted; of one run or of all. Raises ServiceError."""
    return asked(url, SQL["counts"], (run_id, run_id), row_factory=namedtuple_row)


def _rows(path: Path) -> Iterator[tuple[object, ...]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                yield (number, *_columns(json.loads(line)))
            except (ValueError, KeyError, TypeError) as error:
                why = f"{type(error).__name__}: {error}"
                raise ConfigError(f"{path}, line {number}: not a row of truth ({why})") from error


def _columns(row: Mapping[str, Any]) -> tuple[object, ...]:
    kind, vehicle_id = row["kind"], row["vehicle_id"]
    what = str(row.get("what") or row.get("fault") or kind)
    truth_id = str(row.get("fault_id") or f"{kind}:{what}:{vehicle_id}:{row['from_ms']}")
    rest = {k: v for k, v in row.items() if k not in (*_HEAD, "fault", "fault_id", "phase", "details")}
    details = json.dumps({**rest, **(row.get("details") or {})})
    moments = (row.get(key) for key in ("from_ms", "full_ms", "to_ms"))
    times = (None if ms is None else datetime.fromtimestamp(ms / 1000, UTC) for ms in moments)
    return (truth_id, kind, what, vehicle_id, *times, row.get("severity"), details)
