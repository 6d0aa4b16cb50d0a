"""Windows rolled up to minutes, hours and days: a queue says what changed, those buckets are made again.

A column of windows is a whole number of steps over a constant, so it is multiplied by it and rounded: then
the sums are over whole numbers again, and neither the order of rows nor a level between can change a bit.
"""

from itertools import takewhile
from typing import Final, NamedTuple

from infra.clients.db import sql_of
from stream_jobs.app.database import Connection, Database, execute, fetch
from stream_jobs.app.statements import on_conflict
from stream_jobs.windows.vehicle import HOW, MEASURES, Measure

SQL: Final = sql_of(__file__)

LINES: Final = 200  # lines of the queue in one transaction: some minutes of a batch each
PASSES: Final = 20  # transactions in one call, at most: then the thread sees whether it is to stop
NOT_ROLLED: Final = frozenset((
    "gear_min", "gear_max", "rpm_per_kmh", "brake_pad_wear_max_pct", "lat_deg", "lon_deg", "heading_deg",
    "speed_last_kmh", "speed_limit_kmh", "ignition_on", "fuel_level_pct", "soc_pct", "ambient_temp_c",
))  # fmt: skip
"""Columns of windows that say nothing of a longer time."""


class Column(NamedTuple):
    """A column of the roll-ups: its SQL over windows and over the roll-ups below."""

    name: str
    over_windows: str
    over_rollups: str


_COUNTS: Final = {m.parts: m.name for m in MEASURES if m.parts[0].kind == "count"}
"""By what is counted the column that says how many."""
_STEPS: Final = {m.name: round(m.parts[0].quantity.per_unit) for m in MEASURES} | dict.fromkeys(
    _COUNTS.values(), 1
)
"""By column its steps in a unit."""


def _total(name: str, where: str = "") -> str:
    only, steps = f" FILTER (WHERE {where})" if where else "", _STEPS[name]
    if steps == 1:
        return f"sum({name}){only}::bigint"
    return f"sum(round({name} * {steps})::bigint){only}::double precision / {steps}"


def _mean(value: str, weight: str, number: str, steps: int) -> str:
    total = f"sum(round({value} * {weight} * {steps})::bigint)::double precision"
    return f"{total} / nullif({number} * {steps}, 0)::double precision"


def _rolled(measure: Measure) -> Column:
    """The column of a measure, of the same SQL over windows and roll-ups; it combines as its parts do."""
    name, kinds = measure.name, [part.kind for part in measure.parts]
    how = HOW[kinds[-1]]
    sql = _total(name) if how == "sum" else f"{how}({name})"
    if kinds == ["sum", "count"]:
        count = _COUNTS[measure.parts[1:]]
        sql = _mean(name, count, f"sum({count})", _STEPS[name])
    return Column(name, sql, sql)


AMBIENT: Final = _STEPS["ambient_temp_c"]
COLUMNS: Final[tuple[Column, ...]] = (
    Column("windows", "count(*)", "sum(windows)::bigint"),
    *(_rolled(measure) for measure in MEASURES if measure.name not in NOT_ROLLED),
    Column(
        "ambient_mean_c",
        _mean("ambient_temp_c", "1", "count(ambient_temp_c)", AMBIENT),
        _mean("ambient_mean_c", "ambient_n", "sum(ambient_n)", AMBIENT),
    ),
    Column("ambient_n", "count(ambient_temp_c)::bigint", "sum(ambient_n)::bigint"),
)  # fmt: skip  all but the keys and the layer
NAMES: Final = tuple(column.name for column in COLUMNS)
WRITTEN: Final = (*COLUMNS, *(Column(n, f"max({n})", f"max({n})") for n in ("revision", "restated_at")))
"""Of the newest layer below it."""
NOTE_CHANGES: Final = SQL["note_changes"]
MANY: Final = 100  # buckets from which on the rows below are read once, and not by vehicle
IN_ANOTHER_ZONE: Final = ("forget_zone", "note_zone", "drop_hours", "drop_days", "note_minutes")
"""Hours and days are cut in the zone: in another one all are made again whose minutes are still there."""


def roll_up_changes(database: Database, tz: str) -> int:
    """Make minutes, hours and days (of the zone ``tz``) again whose windows changed; how many minutes."""
    database.run(lambda c: set_zone(c, tz))
    return sum(takewhile(bool, (database.run(lambda c: roll_up(c, tz)) for _ in range(PASSES))))


def set_zone(connection: Connection, tz: str) -> None:
    """Where hours and days were cut in another zone, they are made again."""
    if fetch(connection, SQL["zone"]) != [(tz,)]:
        for name in IN_ANOTHER_ZONE:
            execute(connection, SQL[name], {"tz": tz})


def roll_up(connection: Connection, tz: str) -> int:
    """One pass over some lines of the queue; the number of minutes made again."""
    execute(connection, SQL["one_at_a_time"])
    execute(connection, SQL["create_due"])
    due = execute(connection, SQL["take"], {"lines": LINES})
    below = "window"
    for unit, statements in LEVELS.items():
        if below != "window":
            execute(connection, SQL["lift"], {"unit": unit, "below": below, "tz": tz})
        for since, last, until, number in fetch(connection, SQL["spans"], {"unit": unit}):
            span = {"since": since, "last": last, "until": until, "tz": tz}
            execute(connection, SQL["nested_loops"], {"loop": "off" if number >= MANY else "on"})
            for statement in statements:
                execute(connection, statement, span)
        below = unit
    return due


def _level_sql(unit: str, below: str, time: str, end: str) -> str:
    """The due buckets of a span; ``since`` and ``until`` bound the rows: other chunks are not read."""
    names = [column.name for column in WRITTEN]
    sources = [column.over_windows if below == "window" else column.over_rollups for column in WRITTEN]
    return SQL["level"].format(
        unit=unit, below=below, time=time, end=end, names=", ".join(names), sources=", ".join(sources),
        on_conflict=on_conflict(("vehicle_id", "bucket"), names),
    )  # fmt: skip


FLEET_SQL: Final = SQL["fleet"].format(
    fuel_distance_m=_total("distance_m", "fuel_l IS NOT NULL"),
    energy_distance_m=_total("distance_m", "energy_kwh IS NOT NULL"),
    **{name: _total(name) for name in ("distance_m", "moving_s", "idle_s", "fuel_l", "energy_kwh")},
)
DAY_END: Final = "(d.bucket AT TIME ZONE %(tz)s + interval '1 day') AT TIME ZONE %(tz)s"
LEVELS: Final = {
    "minute": (_level_sql("minute", "window", "s.window_start", "d.bucket + interval '1 minute'"), FLEET_SQL),
    "hour": (_level_sql("hour", "minute", "s.bucket", "d.bucket + interval '1 hour'"),),
    "day": (_level_sql("day", "hour", "s.bucket", DAY_END),),
}
"""What makes odograph.vehicle_<unit>, from the lowest up: minutes are made of windows, hours of minutes."""
