"""A vehicle's signals against the limits of the rules in force: rows in, readings and their bars out. Pure.

The limits are those of ``serving.rule``, as the rules file has them; a rule that is not in force, or whose
limit is no plain number, sets none here.
"""

from collections.abc import Mapping
from html import escape
from typing import Any, Final, NamedTuple

import pandas as pd

from dashboard.shared import text
from dashboard.shared.theme import SEVERITIES, SEVERITY_SIGNS

NOMINAL_12_V: Final = 18.0
"""A system above is one of 24 V; rules look at half of it (rules.yaml, `twelve_volts`)."""
HEAVY_RULES: Final = {"coolant_hot": "coolant_hot_heavy"}
"""The rule that a heavy vehicle has in the place of another."""
CALM: Final = "#12937e"
_GRID: Final = "display:grid;grid-template-columns:repeat(auto-fill,minmax(250px,1fr));gap:10px 26px"
_BAR: Final = "height:8px;border-radius:4px"


class Gauge(NamedTuple):
    """One signal: ``column`` of the newest minute, the rules that it is held against, the ends of its scale.

    ``floor``: the rules' own limit is an expression, but the column is measured from it.
    """

    label: str
    unit: str
    column: str
    rules: tuple[str, ...]
    low: float
    high: float
    digits: int = 1
    floor: float | None = None

    def share(self, value: float) -> float:
        """Where a value lies on the scale, %."""
        return min(100.0, max(0.0, 100 * (value - self.low) / (self.high - self.low)))


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


class Limit(NamedTuple):
    """Beyond ``value``, ``above`` or ``below`` it, is trouble."""

    value: float
    side: str
    severity: str
    rule: str


class Reading(NamedTuple):
    """A signal that has a value, and its limits."""

    gauge: Gauge
    value: float
    limits: tuple[Limit, ...]

    @property
    def worst(self) -> Limit | None:
        """The gravest limit that the value is beyond."""
        sides = {"above": self.value.__gt__, "below": self.value.__lt__}
        broken = [limit for limit in self.limits if sides[limit.side](limit.value)]
        return min(broken, key=lambda limit: list(SEVERITIES).index(limit.severity), default=None)


def readings(signals: Mapping[str, Any], rules: pd.DataFrame, vehicle_class: str | None) -> list[Reading]:
    """The signals of a vehicle that have a value, in the order of GAUGES."""
    known = {str(row["rule"]): row for row in rules.to_dict("records") if row["in_force"]}
    found = []
    for gauge in GAUGES:
        if text.missing(signals.get(gauge.column)):
            continue
        names = [HEAVY_RULES.get(name, name) if vehicle_class == "heavy" else name for name in gauge.rules]
        limits = []
        for rule in (known[name] for name in names if name in known):
            bound = gauge.floor if gauge.floor is not None else number(rule["limit_sql"])
            if bound is not None and rule["beyond"] in ("above", "below"):
                limits.append(Limit(bound, rule["beyond"], str(rule["severity"]), str(rule["rule"])))
        value = float(signals[gauge.column])
        halved = value / 2 if gauge.unit == "V" and value > NOMINAL_12_V else value
        found.append(Reading(gauge, halved, tuple(limits)))
    return found


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
    lows = [limit.value for limit in reading.limits if limit.side == "below"]
    highs = [limit.value for limit in reading.limits if limit.side == "above"]
    least = [f"at least {max(lows):g}"] if lows else []
    most = [f"at most {min(highs):g}"] if highs else []
    return f"within its limits: {' and '.join(least + most)} {gauge.unit}"


def picture(found: list[Reading]) -> str:
    """A bar a reading with its limits marked, and in words what it says: HTML of our own words."""
    return f'<div style="{_GRID}">{"".join(map(_bar, found))}</div>'


def _bar(reading: Reading) -> str:
    gauge, worst = reading.gauge, reading.worst
    colour = CALM if worst is None else SEVERITIES[worst.severity]
    marks = "".join(
        f'<div style="position:absolute;top:-3px;left:{gauge.share(limit.value):.1f}%;width:2px;height:14px;'
        f'background:{SEVERITIES.get(limit.severity, CALM)}"></div>'
        for limit in reading.limits
    )
    value = text.number(reading.value, gauge.unit, gauge.digits)
    return (
        '<div style="font-size:0.85rem"><div style="display:flex;justify-content:space-between">'
        f"<span>{escape(gauge.label)}</span><b>{value}</b></div>"
        f'<div style="{_BAR};position:relative;background:rgba(128,140,155,0.25);margin:4px 0">'
        f'<div style="{_BAR};width:{gauge.share(reading.value):.1f}%;background:{colour}"></div>{marks}</div>'
        f'<div style="opacity:0.8">{escape(words(reading))}</div></div>'
    )
