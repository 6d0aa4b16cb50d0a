"""Seams: views that give a table's rows with those of promoted runs in their place. SQL text only, pure.

``reading.<table>`` is the table itself outside the runs' spans and vehicles, and within them the newest
promoted run. What reads the table in schema serving is made again to read the seam.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from infra.replay.tables import Table, within

ALERTS_A_RUN: Final = 1_000_000_000
"""Numbers of alerts that a run can have: they are shown as negative ones, so none is taken for a live one."""


@dataclass(frozen=True, slots=True)
class Promoted:
    """A promoted run: its schema, span and vehicles (None: all)."""

    schema: str
    since: datetime
    until: datetime
    vehicles: tuple[str, ...] | None


def seam(table: Table, columns: Sequence[str], runs: Sequence[Promoted]) -> str:
    """The view of a table over ``runs``, the one promoted last at their end."""
    names = ", ".join(columns)
    given = [run for run in runs if run.vehicles is None or not table.fleet]
    parts = [_part(f"odograph.{table.name}", table, names, given)]
    for place, run in enumerate(given):
        parts.append(_part(f"{run.schema}.{table.name}", table, names, given[place + 1 :]))
    return f"CREATE OR REPLACE VIEW reading.{table.name} AS " + " UNION ALL ".join(parts)


def _part(source: str, table: Table, names: str, over: Sequence[Promoted]) -> str:
    """Rows of ``source`` that none of the runs ``over`` it has in its place."""
    if table.with_alerts or not over:
        return f"SELECT {names} FROM {source}"  # noqa: S608
    hidden = " AND ".join(f"({_inside(table, run)}) IS NOT TRUE" for run in over)
    return f"SELECT {names} FROM {source} WHERE {hidden}"  # noqa: S608


def _inside(table: Table, run: Promoted) -> str:
    """tables.within with its values written out: a view takes no parameters."""
    listed = "NULL"
    if run.vehicles is not None:
        listed = "'{" + ",".join(_plain(vehicle) for vehicle in run.vehicles) + "}'"
    values = {"since": _moment(run.since), "until": _moment(run.until), "vehicles": listed}
    return within(table) % values


def _moment(at: datetime) -> str:
    return f"'{at.isoformat()}'::timestamptz"


def _plain(vehicle: str) -> str:
    """A VIN, by its form; raises ValueError for anything else, since it becomes SQL."""
    if not vehicle.isalnum() or not vehicle.isascii():
        raise ValueError(vehicle)
    return vehicle


def through_seams(definition: str, tables: Sequence[Table]) -> str:
    """A definition that reads ``odograph.<table>``, reading the seams instead."""
    listed = "|".join(table.name for table in tables)
    return re.sub(rf"\bodograph\.({listed})\b(?!_)", r"reading.\1", definition)
