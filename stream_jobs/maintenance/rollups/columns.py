"""The columns of the roll-ups: how each comes out of the rows below it. Pure; SQL as text.

A column of windows is a whole number of steps over a constant, so it is multiplied by it and rounded: then
the sums are over whole numbers again, and neither the order of rows nor a level between can change a bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from infra.contract.signals import BY_NAME, WHEELS

MS: Final = 1000
"""Steps in a second of times."""
DISTANCE: Final = 360_000
"""Steps of 0.01 km/h times ms in a metre."""
FUEL: Final = 360_000_000
"""Steps of 0.01 l/h times ms in a litre."""
ENERGY: Final = 360_000_000_000
"""Steps of 0.1 V times 0.1 A times ms in a kWh."""

How = Literal["sum", "max", "min"]


@dataclass(frozen=True, slots=True)
class Total:
    """A column that is added up; ``steps`` of it are whole in one of its unit."""

    name: str
    steps: int

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that it fills."""
        return (self.name,)

    def expressions(self, lowest: bool) -> tuple[str, ...]:  # noqa: ARG002  all levels are alike
        """SQL of its columns over the rows below."""
        return (f"sum(round({self.name} * {self.steps})::bigint)::double precision / {self.steps}",)


@dataclass(frozen=True, slots=True)
class Count:
    """A column of whole numbers that is added up."""

    name: str

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that it fills."""
        return (self.name,)

    def expressions(self, lowest: bool) -> tuple[str, ...]:
        """SQL of its columns over the rows below."""
        return ("count(*)" if lowest and self.name == "windows" else f"sum({self.name})::bigint",)


@dataclass(frozen=True, slots=True)
class Extreme:
    """The largest or the least of a column."""

    name: str
    how: How

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that it fills."""
        return (self.name,)

    def expressions(self, lowest: bool) -> tuple[str, ...]:  # noqa: ARG002  all levels are alike
        """SQL of its columns over the rows below."""
        return (f"{self.how}({self.name})",)


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean and, in ``count``, how many values it is over; ``once``: a window's value that counts once."""

    name: str
    count: str
    steps: int
    once: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that it fills."""
        return (self.name, self.count)

    def expressions(self, lowest: bool) -> tuple[str, ...]:
        """SQL of its columns over the rows below."""
        if lowest and self.once:
            name, weight, n = self.once, "1", f"count({self.once})"
        else:
            name, weight, n = self.name, self.count, f"sum({self.count})"
        total = f"sum(round({name} * {weight} * {self.steps})::bigint)::double precision"
        return (f"{total} / nullif({n} * {self.steps}, 0)::double precision", f"{n}::bigint")


Column = Total | Count | Extreme | Mean


def _mean(name: str, count: str, signal: str) -> Mean:
    return Mean(name, count, BY_NAME[signal].steps_per_unit)


COLUMNS: Final[tuple[Column, ...]] = (
    *(Count(n) for n in ("windows", "frames", "frames_late", "samples", "out_of_range")),
    Extreme("first_event", "min"),
    Extreme("last_event", "max"),
    Total("distance_m", DISTANCE),
    *(Total(n, MS) for n in ("moving_s", "idle_s")),
    *(Total(n, MS) for n in ("speeding_s", "speeding_10_s", "speeding_20_s", "speeding_30_s")),
    Total("fuel_l", FUEL),
    Total("idle_fuel_l", FUEL),
    Total("energy_kwh", ENERGY),
    _mean("speed_mean_kmh", "speed_n", "speed_kmh"),
    Extreme("speed_max_kmh", "max"),
    Extreme("accel_long_max_mps2", "max"),
    Extreme("accel_long_min_mps2", "min"),
    Extreme("accel_lat_max_mps2", "max"),
    _mean("rpm_mean", "rpm_n", "engine_rpm"),
    Extreme("rpm_max", "max"),
    _mean("engine_load_mean_pct", "engine_load_n", "engine_load_pct"),
    _mean("coolant_mean_c", "coolant_n", "coolant_temp_c"),
    Extreme("coolant_max_c", "max"),
    Extreme("oil_pressure_min_kpa", "min"),
    Extreme("oil_shortfall_max_kpa", "max"),
    Total("oil_below_floor_s", MS),
    Extreme("oil_temp_max_c", "max"),
    _mean("fuel_trim_mean_pct", "fuel_trim_n", "fuel_trim_short_pct"),
    Extreme("dpf_soot_max_pct", "max"),
    Extreme("dpf_delta_p_max_pa", "max"),
    *(_mean(f"tyre_{w}_kpa20", f"tyre_{w}_n", f"tyre_pressure_{w}_kpa") for w in WHEELS),
    Extreme("tyre_temp_max_c", "max"),
    *(Extreme(f"brake_pad_wear_{w}_pct", "max") for w in WHEELS),
    _mean("battery_mean_v", "battery_n", "battery_voltage_v"),
    Extreme("battery_min_v", "min"),
    _mean("battery_rest_v", "battery_rest_n", "battery_voltage_v"),
    _mean("battery_running_v", "battery_running_n", "battery_voltage_v"),
    Extreme("battery_on_min_v", "min"),
    Extreme("cell_spread_max_mv", "max"),
    Extreme("cell_spread_rest_mv", "max"),
    Extreme("cell_temp_min_c", "min"),
    Extreme("cell_temp_max_c", "max"),
    Extreme("cell_temp_rate_c_min", "max"),
    Extreme("pack_voltage_min_v", "min"),
    Extreme("motor_temp_max_c", "max"),
    Extreme("dtc_count", "max"),
    Extreme("odometer_m", "max"),
    Mean("ambient_mean_c", "ambient_n", BY_NAME["ambient_temp_c"].steps_per_unit, once="ambient_temp_c"),
)
"""All but the keys and the layer."""
LAYER: Final = (Extreme("revision", "max"), Extreme("restated_at", "max"))
"""Which layer a row is of: the newest of those below it."""
NAMES: Final = tuple(name for column in COLUMNS for name in column.names)
