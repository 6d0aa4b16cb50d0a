"""Rows/s of the sink's COPY and upsert into odograph.vehicle_window, beside plain COPY of the same rows.

Run: python -m load_tests.upsert_rate [--rows 20000] [--rounds 5] [--secure]

Services of its own, stopped at the end. Every way in turn, ``--rounds`` times after one round that is thrown
away; figures are medians. ``copy`` is the limit: binary rows made and copied into a plain table of the same
columns without an index; ``copy, indexed`` has the keys' index. The sink's rows are new ones, then the same
again. ``--secure``: over TLS and plain in turns, at the server of a secure home that is told to take both.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
from psycopg import conninfo

from infra.settings.settings import load
from infra.stack import postgres
from infra.stack.downloads import rootfs
from load_tests.bench.parts import cpu_s
from load_tests.drills.site import Site, opened
from load_tests.filling import vehicle
from stream_jobs.app.database import TYPES, Connection, copy_rows
from stream_jobs.app.sinks import VEHICLE, write_latest, write_rows
from stream_jobs.windows.vehicle import NO_WINDOWS, latest_of

MODES = ("disable", "verify-full")
VEHICLES = 10_000
WINDOW_S = 10
PLAIN, INDEXED = "upsert_rate_plain", "upsert_rate_indexed"
PREPARE = (
    f"CREATE TABLE {PLAIN} AS SELECT * FROM {VEHICLE.name} WHERE false",
    f"CREATE TABLE {INDEXED} AS SELECT * FROM {VEHICLE.name} WHERE false",
    f"CREATE UNIQUE INDEX ON {INDEXED} ({', '.join(VEHICLE.keys)})",
)

Way = Callable[[Connection, pa.Table], None]


@dataclass(frozen=True, slots=True)
class Timed:
    """One write of one batch."""

    way: str
    rows_per_s: float
    server_us_a_row: float
    """CPU time of PostgreSQL."""
    own_us_a_row: float
    """CPU time of this process."""


def batch(types: dict[str, str], rows: int, number: int) -> pa.Table:
    """Windows of the fleet, one after the other: no key of one batch is in another."""
    rng = np.random.default_rng(number)
    first = number * rows
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    starts = [begin + timedelta(seconds=WINDOW_S * ((first + k) // VEHICLES)) for k in range(rows)]
    columns: dict[str, Any] = {}
    for name in (*NO_WINDOWS.column_names, "batch_id"):
        kind = types[name]
        if name == "vehicle_id":
            columns[name] = [vehicle((first + k) % VEHICLES) for k in range(rows)]
        elif kind.startswith("timestamp"):
            columns[name] = pa.array(starts, pa.timestamp("us", tz="UTC"))
        elif kind == "boolean":
            columns[name] = rng.random(rows) < 0.5
        elif kind in ("integer", "bigint", "smallint"):
            columns[name] = rng.integers(1, 100, rows)
        elif kind == "text":
            columns[name] = ["x"] * rows
        else:
            columns[name] = np.round(rng.random(rows) * 100, 4)
    return pa.table(columns)


def copied(table: str) -> Way:
    """COPY into a table, and nothing else."""
    return lambda connection, rows: copy_rows(connection, VEHICLE.name, rows, table)


def upserted(connection: Connection, rows: pa.Table) -> None:
    """What the sink does with a batch, the newest states included."""
    windows = rows.drop_columns(["batch_id"])
    write_rows(connection, VEHICLE, windows, 1)
    write_latest(connection, latest_of(windows))


WAYS: tuple[tuple[str, Way], ...] = (
    ("copy", copied(PLAIN)),
    ("copy, indexed", copied(INDEXED)),
    ("sink, new rows", upserted),
    ("sink, the same rows again", upserted),
)


def take_both(site: Site) -> None:
    """Let the server take plain connections too."""
    rootfs.write_config(site.home / "config" / "postgres", postgres.USER, {"pg_hba.conf": postgres.ACCESS})
    with postgres.as_superuser(site.stack.superuser_url()) as superuser:
        superuser.execute("SELECT pg_reload_conf()")


def measured(site: Site, rows: int, rounds: int, modes: Sequence[str]) -> Iterator[Timed]:
    """Every way once a round and mode of TLS (libpq's sslmode), in turns; in each round rows of its own."""
    with ExitStack() as ending:
        urls = {mode: conninfo.make_conninfo(site.endpoints.db_owner_url, sslmode=mode) for mode in modes}
        opened = {
            m: ending.enter_context(Connection.connect(url, autocommit=True)) for m, url in urls.items()
        }
        first = opened[modes[0]]
        for statement in PREPARE:
            first.execute(statement.encode())
        types: dict[str, str] = dict(first.execute(TYPES, {"table": VEHICLE.name}).fetchall())
        for turn, (number, mode) in enumerate(product(range(rounds + 1), modes)):
            table, connection = batch(types, rows, turn), opened[mode]
            for name, way in WAYS:
                before_s, begun, own_s = (
                    cpu_s(site.home)["postgres"],
                    time.perf_counter(),
                    time.process_time(),
                )
                with connection.transaction():
                    way(connection, table)
                wall_s, own_s = time.perf_counter() - begun, time.process_time() - own_s
                spent_s = cpu_s(site.home)["postgres"] - before_s
                if number:
                    named = name if len(modes) == 1 else f"{name}, {mode}"
                    yield Timed(named, rows / wall_s, 1e6 * spent_s / rows, 1e6 * own_s / rows)


def table_of(found: list[Timed]) -> str:
    """Medians, and each as a share of the first way."""
    names = dict.fromkeys(t.way for t in found)
    rate = {name: statistics.median(t.rows_per_s for t in found if t.way == name) for name in names}
    cost = {name: statistics.median(t.server_us_a_row for t in found if t.way == name) for name in names}
    own = {name: statistics.median(t.own_us_a_row for t in found if t.way == name) for name in names}
    head = "| way | rows/s | of plain COPY | CPU us a row: PostgreSQL | client |\n|---|---|---|---|---|"
    most = rate[next(iter(names))]
    rows = [f"| {n} | {rate[n]:,.0f} | {rate[n] / most:.2f} | {cost[n]:.1f} | {own[n]:.1f} |" for n in names]
    return "\n".join([head, *rows])


def main() -> None:
    """Write, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20_000, help="of a batch")
    parser.add_argument("--rounds", type=int, default=5, help="after one that is thrown away")
    parser.add_argument("--secure", action="store_true", help="plain and over TLS")
    asked = parser.parse_args()
    if asked.secure:
        os.environ["ODOGRAPH_SECURE"] = "true"
    with opened(load(), "upsert-rate", lambda text: print(text, file=sys.stderr, flush=True)) as site:
        if asked.secure:
            take_both(site)
        found = list(measured(site, asked.rows, asked.rounds, MODES if asked.secure else MODES[:1]))
    print(f"{asked.rows:,} rows of {NO_WINDOWS.num_columns + 1} columns a batch\n\n{table_of(found)}")


if __name__ == "__main__":
    main()
