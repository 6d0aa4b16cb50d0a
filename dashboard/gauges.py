"""A vehicle's signals against the limits of the rules in force: rows in, readings out. Pure.

The limits are those of ``serving.rule``, as the rules file has them; a rule that is not in force, or whose
limit is no plain number, sets none here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import pandas as pd

from dashboard import text
from dashboard.palette import SEVERITIES, SEVERITY_SIGNS

Side = Literal["above", "below"]
HEAVY: Final = "heavy"
NOMINAL_12_V: Final = 18.0
"""A system above is one of 24 V; rules look at half of it (rules.yaml, `twelve_volts`)."""


@dataclass(frozen=True, slots=True)
class Gauge:
    """One signal: ``column`` of the newest minute, and the rules that it is held against.

    ``low`` and ``high`` are the ends of the scale, in ``unit``. ``floor``: the rules' own limit is an
    expression, but the column is measured from it.
    """

    label: str
    unit: str
    column: str
    rules: tuple[str, ...]
    low: float
    high: float
    digits: int = 1
    floor: float | None = None


GAUGES: Final = (
    Gauge("Coolant", "°C", "coolant_max_c", ("coolant_hot", "coolant_critical"), 0, 130),
    Gauge("Oil pressure above its floor", "kPa", "oil_margin_kpa", ("oil_pressure_low",), -100, 400, 0, 0.0),
    Gauge("12 V, engine or drive on", "V", "battery_running_v", ("charge_low", "charge_high"), 10, 17, 2),
    Gauge("12 V, at rest", "V", "battery_rest_v", ("battery_rest_low",), 10, 15, 2),
    Gauge("Hottest tyre", "°C", "tyre_temp_max_c", ("tyre_hot",), -20, 120),
    Gauge("Most worn pad", "%", "brake_pad_wear_max_pct", ("pads_worn",), 0, 100, 0),
    Gauge("Fuel trim", "%", "fuel_trim_mean_pct", ("fuel_lean", "fuel_rich"), -30, 30),
    Gauge("Filter soot", "%", "dpf_soot_max_pct", ("dpf_soot", "dpf_clogged"), 0, 150, 0),
    Gauge("Hottest cell", "°C", "cell_temp_max_c", ("cells_warm", "cell_hot"), -20, 80),
    Gauge("Cells apart, at rest", "mV", "cell_spread_rest_mv", ("cells_apart", "cell_imbalance"), 0, 150, 0),
)
HEAVY_RULES: Final = {"coolant_hot": "coolant_hot_heavy"}
"""The rule that a heavy vehicle has in the place of another."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit: beyond it on its side is trouble."""

    value: float
    side: Side
    severity: str
    rule: str

    def broken(self, value: float) -> bool:
        """Whether a value is beyond it."""
        return value > self.value if self.side == "above" else value < self.value


@dataclass(frozen=True, slots=True)
class Reading:
    """A signal that has a value, and its limits; ``worst`` is the gravest that is broken."""

    gauge: Gauge
    value: float
    limits: tuple[Limit, ...]

    @property
    def worst(self) -> Limit | None:
        """The gravest broken limit."""
        order = list(SEVERITIES)
        broken = [limit for limit in self.limits if limit.broken(self.value)]
        return min(broken, key=lambda limit: order.index(limit.severity), default=None)


def readings(signals: Mapping[str, Any], rules: pd.DataFrame, vehicle_class: str | None) -> list[Reading]:
    """The signals of a vehicle that have a value, in the order of GAUGES."""
    known = {str(row["rule"]): row for row in rules.to_dict("records") if row["in_force"]}
    found = []
    for gauge in GAUGES:
        value = signals.get(gauge.column)
        if not text.missing(value):
            limits = tuple(_limits(gauge, known, vehicle_class == HEAVY))
            found.append(Reading(gauge, _twelve_volts(gauge, float(value)), limits))  # type: ignore[arg-type]
    return found


def _twelve_volts(gauge: Gauge, value: float) -> float:
    return value / 2 if gauge.unit == "V" and value > NOMINAL_12_V else value


def _limits(gauge: Gauge, known: Mapping[str, Mapping[Any, Any]], heavy: bool) -> list[Limit]:
    names = [HEAVY_RULES.get(name, name) if heavy else name for name in gauge.rules]
    return [limit for name in names if name in known and (limit := _limit(gauge, known[name])) is not None]


def _limit(gauge: Gauge, rule: Mapping[Any, Any]) -> Limit | None:
    value = gauge.floor if gauge.floor is not None else number(rule["limit_sql"])
    if value is None or rule["beyond"] not in ("above", "below"):
        return None
    return Limit(value, rule["beyond"], str(rule["severity"]), str(rule["rule"]))


def number(limit_sql: object) -> float | None:
    """A limit that is a plain number, as ``105`` or Spark's ``105.0D``; None for an expression."""
    try:
        return float(str(limit_sql).removesuffix("D"))
    except ValueError:
        return None


def words(reading: Reading) -> str:
    """What the reading says: within its limits, beyond one, or that none is known."""
    gauge, worst = reading.gauge, reading.worst
    if worst is not None:
        bound = text.number(worst.value, gauge.unit, gauge.digits)
        return f"{SEVERITY_SIGNS[worst.severity]} {worst.severity}: {worst.side} {bound} ({worst.rule})"
    if not reading.limits:
        return "no limit in force"
    ends = sorted({(limit.side, limit.value) for limit in reading.limits})
    told = " and ".join(
        f"{'at most' if side == 'above' else 'at least'} {value:g}" for side, value in _first(ends)
    )
    return f"within its limits: {told} {gauge.unit}"


def _first(ends: list[tuple[Side, float]]) -> list[tuple[Side, float]]:
    """Of each side the limit that is met first."""
    lows = [value for side, value in ends if side == "below"]
    highs = [value for side, value in ends if side == "above"]
    below: list[tuple[Side, float]] = [("below", max(lows))] if lows else []
    above: list[tuple[Side, float]] = [("above", min(highs))] if highs else []
    return below + above
