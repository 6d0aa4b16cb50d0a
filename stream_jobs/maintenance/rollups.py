"""Windows rolled up to minutes, hours and days: a queue says what changed, those buckets are made again.

A column of windows is a whole number of steps over a constant, so it is multiplied by it and rounded: then
the sums are over whole numbers again, and neither the order of rows nor a level between can change a bit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from infra.contract.signals import BY_NAME, WHEELS
from stream_jobs.app.database import Connection, Database, execute, fetch

LINES: Final = 200
"""Lines of the queue in one transaction: some minutes of a batch each."""
PASSES: Final = 20
"""Transactions in one call, at most: then the task lets its thread see whether it is to stop."""
MS: Final = 1000
"""Steps in a second of times."""
DISTANCE: Final = 360_000
"""Steps of 0.01 km/h times ms in a metre."""
FUEL: Final = 360_000_000
"""Steps of 0.01 l/h times ms in a litre."""
ENERGY: Final = 360_000_000_000
"""Steps of 0.1 V times 0.1 A times ms in a kWh."""


@dataclass(frozen=True, slots=True)
class Column:
    """What one quantity fills: names, and their SQL over windows and over the roll-ups below."""

    names: tuple[str, ...]
    over_windows: tuple[str, ...]
    over_rollups: tuple[str, ...]

    def expressions(self, lowest: bool) -> tuple[str, ...]:
        """SQL of its columns over the rows below; ``lowest``: these are windows."""
        return self.over_windows if lowest else self.over_rollups


def _alike(name: str, sql: str) -> Column:
    return Column((name,), (sql,), (sql,))


def _total(name: str, steps: int, where: str = "") -> str:
    """SQL: a sum over whole steps."""
    only = f" FILTER (WHERE {where})" if where else ""
    return f"sum(round({name} * {steps})::bigint){only}::double precision / {steps}"


def _totals(steps: int, *names: str) -> list[Column]:
    return [_alike(name, _total(name, steps)) for name in names]


def _extremes(how: str, *names: str) -> list[Column]:
    return [_alike(name, f"{how}({name})") for name in names]


def _mean_of(value: str, weight: str, count: str, steps: int) -> tuple[str, str]:
    total = f"sum(round({value} * {weight} * {steps})::bigint)::double precision"
    return f"{total} / nullif({count} * {steps}, 0)::double precision", f"{count}::bigint"


def _mean(name: str, count: str, signal: str, once: str = "") -> Column:
    """A mean and how many values it is over; ``once``: the window's value that counts once."""
    steps = BY_NAME[signal].steps_per_unit
    above = _mean_of(name, count, f"sum({count})", steps)
    return Column((name, count), _mean_of(once, "1", f"count({once})", steps) if once else above, above)


COLUMNS: Final[tuple[Column, ...]] = (
    Column(("windows",), ("count(*)",), ("sum(windows)::bigint",)),
    *(_alike(n, f"sum({n})::bigint") for n in ("frames", "frames_late", "samples", "out_of_range")),
    *_extremes("min", "first_event"),
    *_extremes("max", "last_event"),
    *_totals(DISTANCE, "distance_m"),
    *_totals(MS, "moving_s", "idle_s", "speeding_s", "speeding_10_s", "speeding_20_s", "speeding_30_s"),
    *_totals(FUEL, "fuel_l", "idle_fuel_l"),
    *_totals(ENERGY, "energy_kwh"),
    _mean("speed_mean_kmh", "speed_n", "speed_kmh"),
    *_extremes("max", "speed_max_kmh", "accel_long_max_mps2"),
    *_extremes("min", "accel_long_min_mps2"),
    *_extremes("max", "accel_lat_max_mps2"),
    _mean("rpm_mean", "rpm_n", "engine_rpm"),
    *_extremes("max", "rpm_max"),
    _mean("engine_load_mean_pct", "engine_load_n", "engine_load_pct"),
    _mean("coolant_mean_c", "coolant_n", "coolant_temp_c"),
    *_extremes("max", "coolant_max_c"),
    *_extremes("min", "oil_pressure_min_kpa"),
    *_extremes("max", "oil_shortfall_max_kpa"),
    *_totals(MS, "oil_below_floor_s"),
    *_extremes("max", "oil_temp_max_c"),
    _mean("fuel_trim_mean_pct", "fuel_trim_n", "fuel_trim_short_pct"),
    *_extremes("max", "dpf_soot_max_pct", "dpf_delta_p_max_pa"),
    *(_mean(f"tyre_{w}_kpa20", f"tyre_{w}_n", f"tyre_pressure_{w}_kpa") for w in WHEELS),
    *_extremes("max", "tyre_temp_max_c", *(f"brake_pad_wear_{w}_pct" for w in WHEELS)),
    _mean("battery_mean_v", "battery_n", "battery_voltage_v"),
    *_extremes("min", "battery_min_v"),
    _mean("battery_rest_v", "battery_rest_n", "battery_voltage_v"),
    _mean("battery_running_v", "battery_running_n", "battery_voltage_v"),
    *_extremes("min", "battery_on_min_v"),
    *_extremes("max", "cell_spread_max_mv", "cell_spread_rest_mv"),
    *_extremes("min", "cell_temp_min_c"),
    *_extremes("max", "cell_temp_max_c", "cell_temp_rate_c_min"),
    *_extremes("min", "pack_voltage_min_v"),
    *_extremes("max", "motor_temp_max_c", "dtc_count", "odometer_m"),
    _mean("ambient_mean_c", "ambient_n", "ambient_temp_c", once="ambient_temp_c"),
)
"""All but the keys and the layer."""
NAMES: Final = tuple(name for column in COLUMNS for name in column.names)
WRITTEN: Final = (*COLUMNS, *_extremes("max", "revision", "restated_at"))
"""With the layer that a row is of: the newest of those below it."""
FLEET: Final[dict[str, str]] = {
    "vehicles": "count(*)",
    "moving": "count(*) FILTER (WHERE moving_s > 0)",
    "on_road": "count(*) FILTER (WHERE moving_s > 0 OR idle_s > 0)",
    "frames": "sum(frames)",
    "samples": "sum(samples)",
    "distance_m": _total("distance_m", DISTANCE),
    "moving_s": _total("moving_s", MS),
    "idle_s": _total("idle_s", MS),
    "fuel_l": _total("fuel_l", FUEL),
    "fuel_distance_m": _total("distance_m", DISTANCE, "fuel_l IS NOT NULL"),
    "energy_kwh": _total("energy_kwh", ENERGY),
    "energy_distance_m": _total("distance_m", DISTANCE, "energy_kwh IS NOT NULL"),
}
"""Column of odograph.fleet_minute -> SQL over the vehicles' rows of the minute."""


LEVELS: Final = ("minute", "hour", "day")
"""Units of odograph.vehicle_<unit>, from the lowest up: minutes are made of windows, hours of minutes."""

NOTE_CHANGES: Final = """
INSERT INTO odograph.window_change (minute, vehicles)
SELECT date_trunc('minute', window_start), array_agg(DISTINCT vehicle_id)
FROM staged_vehicle_window GROUP BY 1
"""
"""In the transaction that writes windows: whoever sees the line sees them too."""
ONE_AT_A_TIME: Final = "SELECT pg_advisory_xact_lock(7012)"
"""`odograph recompute` rolls up too: of two passes at once the older one could have the last word."""
CREATE_DUE: Final = """
CREATE TEMP TABLE IF NOT EXISTS rollup_due (unit text, vehicle_id text, bucket timestamptz)
ON COMMIT DELETE ROWS
"""
TAKE: Final = """
WITH taken AS (
    DELETE FROM odograph.window_change
    WHERE change_no IN (SELECT change_no FROM odograph.window_change ORDER BY change_no LIMIT %(lines)s)
    RETURNING minute, vehicles
)
INSERT INTO rollup_due SELECT DISTINCT 'minute', vehicle_id, minute FROM taken, unnest(vehicles) AS vehicle_id
WHERE minute >= coalesce(
    (SELECT dropped_before FROM odograph.retention WHERE table_name = 'vehicle_window'), '-infinity')
"""
"""A minute whose windows have gone stays as it is, whatever late frame brings one of them back."""
LIFT: Final = """
INSERT INTO rollup_due
SELECT DISTINCT %(unit)s, vehicle_id, date_trunc(%(unit)s, bucket, %(tz)s)
FROM rollup_due WHERE unit = %(below)s
"""
SPANS: Final = """
SELECT min(bucket), max(bucket),
       max(bucket) + ('1 ' || %(unit)s)::interval
           + CASE %(unit)s WHEN 'day' THEN interval '2 hours' ELSE '0' END,
       sum(vehicles)
FROM (
    SELECT *, count(*) FILTER (WHERE far) OVER (ORDER BY bucket) AS span FROM (
        SELECT bucket, count(*) AS vehicles,
               bucket > lag(bucket) OVER (ORDER BY bucket) + 10 * ('1 ' || %(unit)s)::interval AS far
        FROM rollup_due WHERE unit = %(unit)s GROUP BY bucket
    ) b
) s
GROUP BY span
"""
"""Due buckets that lie close together: the first, the last, the end of the rows below them (a day may have
25 hours), and how many.
"""
NESTED_LOOPS: Final = "SELECT set_config('enable_nestloop', %(loop)s, true)"
"""PostgreSQL's statistics know nothing of the newest windows: it takes them for one row, and reads all of the
span again for each vehicle.
"""
MANY: Final = 100
"""Buckets from which on the rows below are read once, and not by vehicle."""
ZONE: Final = "SELECT tz FROM odograph.rollup_zone"
CHANGE_ZONE: Final = (
    "DELETE FROM odograph.rollup_zone",
    "INSERT INTO odograph.rollup_zone (tz) VALUES (%(tz)s)",
    "DELETE FROM odograph.vehicle_hour WHERE bucket >= odograph.minutes_from()",
    "DELETE FROM odograph.vehicle_day WHERE bucket >= odograph.minutes_from()",
    "INSERT INTO odograph.window_change (minute, vehicles) "
    "SELECT bucket, array_agg(vehicle_id) FROM odograph.vehicle_minute "
    "WHERE bucket >= odograph.minutes_from() GROUP BY bucket",
)
"""Hours and days are cut in the zone: in another one all are made again whose minutes are still there."""


class RollUps:
    """Makes the minutes, hours and days again whose windows changed; days are cut in the zone ``tz``."""

    def __init__(self, database: Database, tz: str) -> None:
        self._database = database
        self._tz = tz
        self._zone_stands = False

    def __call__(self) -> int:
        """Roll up what changed since the last call; the number of minutes made again."""
        if not self._zone_stands:
            self._database.run(lambda c: set_zone(c, self._tz))
            self._zone_stands = True
        made = 0
        for _ in range(PASSES):
            step = self._database.run(lambda c: roll_up(c, self._tz))
            made += step
            if not step:
                break
        return made


def set_zone(connection: Connection, tz: str) -> None:
    """Where hours and days were cut in another zone, they are made again."""
    if fetch(connection, ZONE) != [(tz,)]:
        for statement in CHANGE_ZONE:
            execute(connection, statement, {"tz": tz} if "%(tz)s" in statement else None)


def roll_up(connection: Connection, tz: str) -> int:
    """One pass over some lines of the queue; the number of minutes made again."""
    execute(connection, ONE_AT_A_TIME)
    execute(connection, CREATE_DUE)
    due = execute(connection, TAKE, {"lines": LINES})
    below = "window"
    for unit in LEVELS:
        if unit != LEVELS[0]:
            execute(connection, LIFT, {"unit": unit, "below": below, "tz": tz})
        for since, last, until, number in fetch(connection, SPANS, {"unit": unit}):
            span = {"since": since, "last": last, "until": until, "tz": tz}
            execute(connection, NESTED_LOOPS, {"loop": "off" if number >= MANY else "on"})
            execute(connection, _level_sql(unit, below), span)
            if unit == LEVELS[0]:
                execute(connection, _fleet_sql(), span)
        below = unit
    return due


def _level_sql(unit: str, below: str) -> str:
    """The due buckets of a span; ``since`` and ``until`` bound the rows: other chunks are not read."""
    lowest = unit == LEVELS[0]
    names = [name for column in WRITTEN for name in column.names]
    sources = ", ".join(sql for column in WRITTEN for sql in column.expressions(lowest))
    time = "s.window_start" if lowest else "s.bucket"
    end = f"d.bucket + interval '1 {unit}'"
    if unit == "day":
        end = "(d.bucket AT TIME ZONE %(tz)s + interval '1 day') AT TIME ZONE %(tz)s"
    return (
        f"INSERT INTO odograph.vehicle_{unit} (vehicle_id, bucket, {', '.join(names)}) "  # noqa: S608  own names
        f"SELECT vehicle_id, d.bucket, {sources} "
        f"FROM rollup_due d JOIN odograph.vehicle_{below} s USING (vehicle_id) "
        f"WHERE d.unit = '{unit}' AND d.bucket BETWEEN %(since)s AND %(last)s "
        f"AND {time} >= d.bucket AND {time} < {end} "
        f"AND {time} >= %(since)s AND {time} < %(until)s "
        f"GROUP BY vehicle_id, d.bucket ORDER BY vehicle_id, d.bucket "
        f"ON CONFLICT (vehicle_id, bucket) DO UPDATE SET {_replaced(names)}"
    )


def _fleet_sql() -> str:
    """The due minutes of the fleet, made of the vehicles' minutes."""
    return (
        f"INSERT INTO odograph.fleet_minute (minute, {', '.join(FLEET)}) "  # noqa: S608  own names
        f"SELECT m.bucket, {', '.join(FLEET.values())} "
        "FROM (SELECT DISTINCT bucket FROM rollup_due "
        "WHERE unit = 'minute' AND bucket BETWEEN %(since)s AND %(last)s) d "
        "JOIN odograph.vehicle_minute m ON m.bucket = d.bucket "
        "WHERE m.bucket >= %(since)s AND m.bucket < %(until)s "
        "GROUP BY m.bucket ORDER BY m.bucket "
        f"ON CONFLICT (minute) DO UPDATE SET {_replaced(FLEET)}"
    )


def _replaced(names: Iterable[str]) -> str:
    return ", ".join(f"{name} = excluded.{name}" for name in names)
