"""Two databases row by row: hashes by slice first, then the rows of slices that differ.

The last comparison of each run is kept for the dashboard, a row a table.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from infra.clients.database_url import with_name
from infra.contract.errors import ServiceError
from stream_jobs.replay.databases import Connection, Table, connected, dead_letters, names, of_run, within
from stream_jobs.replay.runs import Run

SLICES_READ: Final = 200
"""Slices whose rows are read to count how many rows differ, and in which columns."""
COLUMNS_SHOWN: Final = 6
LEFT_OUT: Final = "dead_letter"
NAMED: Final = 20
"""So many records that were left out are named."""
Rows = Mapping[tuple[Any, ...], Mapping[str, Any]]
"""Rows of one slice by their keys."""

_KEPT: Final = """
INSERT INTO odograph.replay_verdict (run_id, table_name, place, compared_at, since, until, vehicles, changed,
    live_rows, run_rows, slices, slices_differing, rows_differing, by_column, first_difference)
VALUES (%(run_id)s, %(table)s, %(place)s, clock_timestamp(), %(since)s, %(until)s, %(vehicles)s, %(changed)s,
    %(live_rows)s, %(run_rows)s, %(slices)s, %(slices_differing)s, %(rows_differing)s, %(by_column)s,
    %(first)s)
"""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first row that differs. ``column`` None: the row is in one of the two only."""

    table: str
    key: Mapping[str, Any]
    column: str | None
    live: Any
    run: Any

    def text(self) -> str:
        """In one line."""

        def shown(value: Any) -> str:
            return value.isoformat() if isinstance(value, datetime) else str(value)

        row = f"{self.table} ({', '.join(f'{name}={shown(value)}' for name, value in self.key.items())})"
        if self.column is None:
            return f"{row}: only in {'live' if self.live else 'the run'}"
        return f"{row}: {self.column} is live {shown(self.live)}, run {shown(self.run)}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a comparison of one table found.

    ``rows_differing`` and ``by_column`` are of the first SLICES_READ slices that differ.
    """

    table: str
    live_rows: int
    run_rows: int
    slices: int
    slices_differing: int
    rows_differing: int = 0
    by_column: Mapping[str, int] = field(default_factory=dict)
    first: Difference | None = None
    named: tuple[str, ...] = ()
    """Records left out: of the table of dead letters, which is listed and not compared."""

    @property
    def equal(self) -> bool:
        """Whether every row is the same in both."""
        return not self.slices_differing


def compared(
    live_url: str, run: Run, wanted: Callable[[Table], bool], say: Callable[[Verdict], None]
) -> list[Verdict]:
    """Each table of ``wanted`` in both databases, one after the other; what is found is kept."""
    found = []
    with connected(live_url) as here, connected(with_name(live_url, run.database)) as there:
        for table in filter(wanted, of_run(run.whole_fleet)):
            found.append(compare(here, there, table, run.parameters()))
            say(found[-1])
        named, live_too = dead_letters(here, there)
        if named:
            found.append(Verdict(LEFT_OUT, live_too, len(named), 0, 0, named=tuple(named[:NAMED])))
            say(found[-1])
        keep(here, run, found)
    return found


def compare(live: Connection, run: Connection, table: Table, values: Mapping[str, Any]) -> Verdict:
    """A table of both, within a run's span and vehicles (``values`` of tables.within)."""
    compared = [n for n in names(live, table.name) if n not in table.apart]
    missing = set(compared) ^ {n for n in names(run, table.name) if n not in table.apart}
    if missing:
        raise ServiceError(f"{table.name}: column {min(missing)} is in one database only; migrate both alike")
    # Number of rows and a sum of their hashes by slice: whatever the order of the rows.
    hashes = (
        f"SELECT {table.keys[0]}::text, date_trunc('hour', {table.time}), count(*), "  # noqa: S608
        f"sum(hashtextextended(ROW({', '.join(compared)})::text, 0)::numeric) "
        f"FROM odograph.{table.name} WHERE {within(table)} AND {table.only} GROUP BY 1, 2"
    )
    here, there = (
        {(key, hour): (count, total) for key, hour, count, total in each.execute(hashes, values).fetchall()}
        for each in (live, run)
    )
    places = sorted(here.keys() | there.keys())
    differing = [place for place in places if here.get(place) != there.get(place)]
    live_rows, run_rows = (sum(count for count, _ in side.values()) for side in (here, there))
    verdict = Verdict(table.name, live_rows, run_rows, len(places), len(differing))
    first: Difference | None = None
    rows, by_column = 0, Counter[str]()
    for key, hour in differing[:SLICES_READ]:
        place = {**values, "slice": key, "hour": hour}
        for difference in differences(table, *(_rows(each, table, compared, place) for each in (live, run))):
            first = first or difference[0]
            rows += 1
            by_column.update(each.column or "(row missing)" for each in difference)
    return replace(verdict, rows_differing=rows, by_column=dict(by_column), first=first)


def _rows(connection: Connection, table: Table, compared: Sequence[str], place: Mapping[str, Any]) -> Rows:
    found = connection.execute(
        f"SELECT {', '.join(compared)} FROM odograph.{table.name} WHERE {within(table)} "  # noqa: S608
        f"AND {table.only} AND {table.keys[0]}::text = %(slice)s AND {table.time} >= %(hour)s "
        f"AND {table.time} < %(hour)s + interval '1 hour'",
        place,
    ).fetchall()
    rows = [dict(zip(compared, row, strict=True)) for row in found]
    return {tuple(row[k] for k in table.keys): row for row in rows}


def differences(table: Table, live: Rows, run: Rows) -> Iterator[list[Difference]]:
    """Each row that differs, by time and key: its columns that do, in the table's order."""
    by_time = table.keys.index(table.time) if table.time in table.keys else 0
    for key in sorted(live.keys() | run.keys(), key=lambda k: (k[by_time], k)):
        named = dict(zip(table.keys, key, strict=True))
        here, there = live.get(key), run.get(key)
        if here is None or there is None:
            yield [Difference(table.name, named, None, here is not None, there is not None)]
            continue
        columns = (column for column, value in here.items() if value != there[column])
        found = [Difference(table.name, named, column, here[column], there[column]) for column in columns]
        if found:
            yield found


def table_line(verdict: Verdict) -> str:
    """One table of a comparison."""
    if verdict.named:
        lines = "".join(f"\n{'':18} {line}" for line in verdict.named)
        records = f"{verdict.run_rows} records, {verdict.live_rows} in live too"
        return f"{verdict.table:18} left out   {records}{lines}"
    if verdict.equal:
        return f"{verdict.table:18} equal      {verdict.live_rows} rows in {verdict.slices} slices"
    most = sorted(verdict.by_column.items(), key=lambda item: (-item[1], item[0]))[:COLUMNS_SHOWN]
    columns = ", ".join(f"{name} {count}" for name, count in most)
    first = "" if verdict.first is None else f"\n{'':18} first: {verdict.first.text()}"
    return (
        f"{verdict.table:18} DIFFERENT  {verdict.live_rows} rows live, {verdict.run_rows} in the run; "
        f"{verdict.slices_differing} of {verdict.slices} slices, {verdict.rows_differing} rows looked at: "
        f"{columns}{first}"
    )


def as_json(verdicts: Sequence[Verdict]) -> str:
    """A comparison for machines."""
    return json.dumps([asdict(v) | {"equal": v.equal} for v in verdicts], default=str)


def keep(live: Connection, run: Run, found: Sequence[Verdict]) -> None:
    """Put these verdicts in the place of the run's former ones, in one transaction."""
    with live.transaction():
        live.execute("DELETE FROM odograph.replay_verdict WHERE run_id = %s", (run.run_id,))
        for place, verdict in enumerate(found):
            values = {
                "run_id": run.run_id, "place": place, "since": run.span.since, "until": run.span.until,
                "vehicles": None if run.whole_fleet else len(run.vehicles), "changed": run.changed(),
                "first": "; ".join(verdict.named) or (verdict.first and verdict.first.text()),
            }  # fmt: skip
            found_values = asdict(verdict) | {"by_column": json.dumps(dict(verdict.by_column))}
            live.execute(_KEPT, found_values | values)
