"""SQL of the sinks, built from table and column names of this package only (never from data)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from infra.clients.db import sql_of
from stream_jobs.app.schema import WRITER_COLUMNS

SQL: Final = sql_of(__file__)


def staged(table: str) -> str:
    """Name of the temporary table that stands before ``table``."""
    return "staged_" + table.rpartition(".")[2]


def quoted(columns: Iterable[str]) -> str:
    """Names in a row: users' SQL may have a column called order."""
    return ", ".join(f'"{column}"' for column in columns)


def on_conflict(keys: Iterable[str], columns: Iterable[str]) -> str:
    """The end of an INSERT: a row with keys that are there takes the place of the one that has them."""
    changes = ", ".join(f'"{c}" = excluded."{c}"' for c in columns if c not in keys)
    return f"ON CONFLICT ({quoted(keys)}) DO {f'UPDATE SET {changes}' if changes else 'NOTHING'}"


def insert(table: str, columns: Iterable[str], end: str = "") -> str:
    """One row into ``table`` of odograph, by parameters with the names of its columns."""
    values = ", ".join(f"%({c})s" for c in columns)
    return f"INSERT INTO odograph.{table} ({', '.join(columns)}) VALUES ({values}) {end}"  # noqa: S608  own names


_KINDS: Final = {
    "bigint": "boot_id seq log_offset alert_no",
    "integer": "rule_version version findings partition bytes messages part parts frames",
    "double precision": "value worst_value limit lat_deg lon_deg delta_v_max_kmh clear_for_s",
    "boolean": "ended late airbag_deployed complete hash_ok final",
    "jsonb": "record defects frame reasons figures",
}  # fmt: skip
_KIND_OF: Final = {key: kind for kind, keys in _KINDS.items() for key in keys.split()}
"""PostgreSQL types by keys of rows; times are keys `..._ms`, in ms since 1970, and all others texts."""
_COLUMN_OF: Final = {
    "event_ms": "event_time", "from_ms": "from_time", "to_ms": "to_time", "t0_ms": "t0",
    "limit": "limit_value",
}  # fmt: skip


def column_of(key: str) -> str:
    """The column that a key of rows is stored in."""
    return _COLUMN_OF.get(key) or (key.removesuffix("_ms") + "_at" if key.endswith("_ms") else key)


def json_value(key: str) -> str:
    """What a row of ``json_rows`` gives for a column."""
    return f"to_timestamp(n.{key} / 1000.0)" if key.endswith("_ms") else f'n."{key}"'


def json_rows(keys: str) -> str:
    """Rows ``n``, which come as one JSON parameter, ``rows``."""
    kinds = ((k, "bigint" if k.endswith("_ms") else _KIND_OF.get(k, "text")) for k in keys.split())
    columns = ", ".join(f'"{key}" {kind}' for key, kind in kinds)
    return f"jsonb_to_recordset(%(rows)s) AS n({columns})"


def insert_json(table: str, keys: str, end: str = "ON CONFLICT DO NOTHING") -> str:
    """Such rows into a table of odograph."""
    columns, values = (", ".join(map(of, keys.split())) for of in (column_of, json_value))
    return f"INSERT INTO odograph.{table} ({columns}) SELECT {values} FROM {json_rows(keys)} {end}"  # noqa: S608


def set_columns(keys: str, value: Callable[[str], str]) -> str:
    """The SET of an UPDATE."""
    return ", ".join(f"{column_of(key)} = {value(key)}" for key in keys.split())


@dataclass(frozen=True, slots=True)
class Table:
    """A table that the stream writes and the batch layer restates, and its natural keys.

    ``time``: the one that bounds the chunks looked at. ``reopen``: the name of a statement for staged rows
    some of which were restated already; none where rows never change once written. ``also``: what belongs to
    a transaction that writes them.
    """

    name: str
    keys: tuple[str, ...]
    time: str
    reopen: str = ""
    also: str = ""

    def upsert(self, columns: Sequence[str]) -> str:
        """Speed layer: staged rows into the table; a row that the batch layer restated stays as it is."""
        return f"{self.put(columns)} WHERE excluded.revision >= {self.name}.revision"

    def restate(self, columns: Sequence[str]) -> str:
        """Batch layer: staged rows into the table as the next revision."""
        sql = self.put((*columns, "revision", "restated_at"), ("1", "now()"))
        return sql.replace('= excluded."revision"', f"= {self.name}.revision + 1")

    def leave_equal(self, columns: Sequence[str]) -> str:
        """Staged rows that the table holds just so go: what stays is to be restated.

        Chunks looked at are those of the parameters ``since`` to ``until``.
        """
        values = [c for c in columns if c not in self.keys and c not in WRITER_COLUMNS]
        staged_values, stored = (", ".join(f"{of}.{c}" for c in values) for of in ("s", "w"))
        return self._sql("leave_equal", staged_values=staged_values, stored=stored)

    def leave_stored(self) -> str:
        """Staged rows that the table has, just so or not, go: of the time ``since`` to before ``until``."""
        return self._sql("leave_stored")

    def reopen_late(self) -> str:
        """A restated row that the stream touches again has to be restated again: its late frames reopen.

        Those of any vehicle where it is of roads; of a journey those of its vehicle repaired within a day.
        """
        own = "AND l.vehicle_id = s.vehicle_id" if "vehicle_id" in self.keys else ""
        return self._sql(self.reopen, keys=quoted(self.keys), own=own)

    def not_staged(self) -> str:
        """SQL: that no staged row is the one ``w`` of the table."""
        return self._sql("not_staged")

    def _sql(self, name: str, **parts: str) -> str:
        matched = " AND ".join(f"s.{key} = w.{key}" for key in self.keys)
        own = {"table": self.name, "staged": staged(self.name), "time": self.time, "matched": matched}
        return SQL[name].format(**own, **parts)

    def put(self, columns: Sequence[str], constants: Sequence[str] = ()) -> str:
        """Staged rows in the place of those with the same keys; the last columns are ``constants``."""
        sources = ", ".join([quoted(columns[: len(columns) - len(constants)]), *constants])
        keys, ends = quoted(self.keys), on_conflict(self.keys, columns)
        return self._sql("put", columns=quoted(columns), sources=sources, keys=keys, on_conflict=ends)


def insert_new(table: str, columns: Sequence[str]) -> str:
    """Staged rows into ``table``; those that are there already stay as they are."""
    return SQL["insert_new"].format(table=table, columns=quoted(columns), staged=staged(table))
