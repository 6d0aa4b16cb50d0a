"""Charts and tables of one vehicle, its trace on the map, its signals against the limits of rules. Pure.

Times are in the column ``bucket`` of its history.
"""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import pandas as pd
import pydeck as pdk

from dashboard.screens.crashes.charts import RECORDS
from dashboard.screens.trips import path
from dashboard.screens.vehicle.queries import METRICS
from dashboard.shared import charts as vega
from dashboard.shared import text
from dashboard.shared.charts import Drawing, Window, drawing, layer, number, tip
from dashboard.shared.maps import joined, literal, placed
from dashboard.shared.text import Columns, Record, clock, duration, known, minute, rows_of, severity
from dashboard.shared.theme import LIMIT, SERIES, SEVERITIES, SEVERITY_SIGNS, STATES, rgba, speed_colour

A_DAY: Final = pd.Timedelta(hours=26)
SPEEDS: Final = {"speed_mean_kmh": "mean", "speed_max_kmh": "highest", "speed_limit_kmh": "limit"}
SPEED_COLOURS: Final = {"mean": SERIES[0], "highest": "#7fb8e6", "limit": LIMIT}
FAR_DAYS: Final = 30.0  # a line is not drawn further ahead than this, days


class Panel(NamedTuple):
    """Columns of a vehicle's history with their labels, in one unit; ``zero``: the axis starts at 0."""

    title: str
    unit: str
    lines: dict[str, str]
    zero: bool = False


_WHEELS: Final = {"fl": "front L", "fr": "front R", "rl": "rear L", "rr": "rear R"}
HEALTH: Final[tuple[Panel, ...]] = (
    Panel("Coolant", "°C", {"coolant_mean_c": "mean", "coolant_max_c": "highest"}),
    Panel("Oil pressure, lowest", "kPa", {"oil_pressure_min_kpa": "lowest"}, zero=True),
    Panel("Oil temperature, highest", "°C", {"oil_temp_max_c": "highest"}),
    Panel("12 V system", "V", {"battery_mean_v": "mean", "battery_min_v": "lowest"}),
    Panel("Tyre pressure at 20 °C", "kPa", {f"tyre_{k}_kpa20": words for k, words in _WHEELS.items()}),
    Panel("State of charge", "%", {"soc_pct": "charge"}),
    Panel("Cell temperature, highest", "°C", {"cell_temp_max_c": "highest"}),
    Panel("Cell spread, largest", "mV", {"cell_spread_max_mv": "largest"}, zero=True),
    Panel("Motor temperature, highest", "°C", {"motor_temp_max_c": "highest"}),
    Panel("Particulate filter soot", "%", {"dpf_soot_max_pct": "soot"}, zero=True),
    Panel("Fuel level", "%", {"fuel_level_pct": "level"}),
)


def present(frame: pd.DataFrame) -> list[Panel]:
    """The panels that have at least one value: a car without an engine has no coolant."""
    return [panel for panel in HEALTH if _columns(frame, panel.lines)]


def with_gaps(frame: pd.DataFrame, step_s: float) -> pd.DataFrame:
    """The rows, in order of time, with an empty one put after each step that is missing: lines break there.

    Sorted by the clock, the two hours that it shows alike in autumn would be one.
    """
    if frame.empty:
        return frame
    whole, step = frame.reset_index(drop=True), pd.Timedelta(seconds=step_s)
    before_gap = whole["bucket"].diff().shift(-1) > step
    holes = pd.DataFrame({"bucket": whole.loc[before_gap, "bucket"] + step})
    return pd.concat([whole, holes]).sort_index(kind="stable", ignore_index=True)


def panel(frame: pd.DataFrame, spec: Panel, window: Window | None = None) -> Drawing:
    """Lines over time: one colour a column, a legend where there are several."""
    labels = _columns(frame, spec.lines)
    several, colours = len(labels) > 1, dict(zip(labels.values(), SERIES, strict=False))
    encoding = _over_time(colours, spec.unit, ".2f", window, several)
    encoding["y"]["scale"] = vega.ZERO if spec.zero else vega.CLOSE
    line, high = layer("line", encoding, strokeWidth=1.7), vega.HEIGHT_PX + (vega.LEGEND_PX if several else 0)
    return drawing(_wide(frame, labels), f"{spec.title}, {spec.unit}, over time", high, line, fold=colours)


def speed(frame: pd.DataFrame, window: Window | None = None) -> Drawing:
    """Mean and highest speed with the limit in force as a stepped line, km/h."""
    labels = _columns(frame, SPEEDS)
    colours = {label: SPEED_COLOURS[label] for label in labels.values()}
    encoding = _over_time(colours, "km/h", ".1f", window, legend=True)
    layers = [layer("line", encoding, "datum.series != 'limit'", strokeWidth=1.7)]
    if "limit" in colours:
        look: Any = {"strokeWidth": 1.3, "strokeDash": [4, 3], "interpolate": "step-after"}
        layers.append(layer("line", encoding, "datum.series == 'limit'", **look))
    rows, alt = _wide(frame, labels), "Speed and its limit, km/h, over time"
    return drawing(rows, alt, 290, *layers, fold=colours)


def _columns(frame: pd.DataFrame, lines: Mapping[str, str]) -> dict[str, str]:
    return {c: label for c, label in lines.items() if c in frame and frame[c].notna().any()}


def _wide(frame: pd.DataFrame, labels: dict[str, str]) -> pd.DataFrame:
    """``time`` and a column a line: the browser folds them, which would cost the server most."""
    return frame[["bucket", *labels]].rename(columns={"bucket": "time"} | labels)


def _over_time(
    colours: dict[str, str], unit: str, form: str, window: Window | None, legend: bool
) -> vega.Spec:
    days = window is not None and window[1] - window[0] > A_DAY
    return {
        "x": vega.moments(window, "%d %b %H:%M" if days else "%H:%M"),
        "y": number("value", unit),
        "color": vega.colour("series", colours, legend),
        "tooltip": [vega.tip_time(), vega.words("series"), tip("value", form, unit)],
    }


def forecast(hours: pd.DataFrame, trend: Mapping[str, Any]) -> Drawing:
    """Points of the hours, the robust line of ``trend`` and its continuation, the threshold."""
    unit = str(trend["unit"])
    points = hours[["bucket", "value"]].rename(columns={"bucket": "time"}).assign(part="hours")
    rows = pd.concat([points, line_of(trend)], ignore_index=True)
    value = number("value", unit, vega.CLOSE, tickCount=4, labelFlush=True)
    place = {"x": vega.moments(form="%d %b", ticks=5), "y": value}
    tips = [vega.tip_time(), tip("value", ".1f", unit)]
    dots: Any = {"color": SERIES[0], "opacity": 0.55, "size": 16, "filled": True}
    line: Any = {"color": SERIES[1], "strokeWidth": 2}
    return drawing(
        rows,
        f"Trend and threshold, {unit}, over days",
        170,
        layer("point", place | {"tooltip": tips}, "datum.part == 'hours'", **dots),
        layer("line", place, "datum.part == 'past'", **line),
        layer("line", place, "datum.part == 'ahead'", **line, strokeDash=[4, 4]),
        vega.level("value", float(trend["threshold"]), strokeDash=[2, 3]),
    )


def line_of(trend: Mapping[str, Any]) -> pd.DataFrame:
    """The line in two parts: over the hours it is of, and ahead until it meets the threshold."""
    as_of, value, slope = trend["as_of"], float(trend["value"]), float(trend["slope_per_day"])
    days = trend["days_to_threshold"]
    ahead = min(FAR_DAYS, float(days)) if days is not None and not pd.isna(days) else 0.0
    ends = [("past", -float(trend["span_days"])), ("past", 0.0)]
    ends += [("ahead", 0.0), ("ahead", ahead)] if ahead else []
    rows = [(part, as_of + pd.Timedelta(days=d), value + slope * d) for part, d in ends]
    return pd.DataFrame(rows, columns=["part", "time", "value"])


def trace(points: pd.DataFrame) -> pdk.Layer:
    """The path of one vehicle in pieces coloured by speed; broken where it was silent or jumped."""
    pieces = [_piece(a, b) for a, b in pairwise(rows_of(placed(points))) if joined(a, b)]
    ends = {"get_source_position": "from", "get_target_position": "to", "get_color": "colour"}
    look: Any = {"get_width": 4, "width_units": literal("pixels"), "pickable": True}
    return pdk.Layer("LineLayer", pieces, id="trace", **ends, **look)


def _piece(a: Record, b: Record) -> Record:
    kmh = b["speed_mean_kmh"]
    return {
        "from": [a["lon_deg"], a["lat_deg"]],
        "to": [b["lon_deg"], b["lat_deg"]],
        "colour": list(rgba(STATES["silent"] if kmh is None else speed_colour(kmh))),
        "tip": f"{b['local_time']:%Y-%m-%d %H:%M:%S}\n" + ("no speed" if kmh is None else f"{kmh:.0f} km/h"),
    }


NOMINAL_12_V: Final = 18.0  # above it is a system of 24 V; rules look at half of it (`twelve_volts`)
HEAVY_RULES: Final = {"coolant_hot": "coolant_hot_heavy"}  # what a heavy vehicle has instead
CALM: Final = "#12937e"


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
        sides = {"above": self.value.__gt__, "below": self.value.__lt__}
        broken = [limit for limit in self.limits if sides[limit.side](limit.value)]
        return min(broken, key=lambda limit: list(SEVERITIES).index(limit.severity), default=None)


def readings(signals: Mapping[str, Any], rules: pd.DataFrame, vehicle_class: str | None) -> list[Reading]:
    """The signals of a vehicle that have a value, in the order of GAUGES; limits are serving.rule's."""
    in_force = {str(row["rule"]): row for row in rules.to_dict("records") if row["in_force"]}
    found = []
    for gauge in GAUGES:
        if text.missing(signals.get(gauge.column)):
            continue
        names = [HEAVY_RULES.get(name, name) if vehicle_class == "heavy" else name for name in gauge.rules]
        limits = []
        for rule in (in_force[name] for name in names if name in in_force):
            bound = gauge.floor if gauge.floor is not None else plain_number(rule["limit_sql"])
            if bound is not None and rule["beyond"] in ("above", "below"):
                limits.append(Limit(bound, rule["beyond"], str(rule["severity"]), str(rule["rule"])))
        value = float(signals[gauge.column])
        halved = value / 2 if gauge.unit == "V" and value > NOMINAL_12_V else value
        found.append(Reading(gauge, halved, tuple(limits)))
    return found


def plain_number(limit_sql: object) -> float | None:
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
    """A bar a reading with its limits marked, and in words what it says."""
    made = text.template(Path(__file__).with_name("gauges.html"))
    return made.render(readings=found, words=words, number=text.number, colours=SEVERITIES, calm=CALM)


def days(value: Any) -> str:
    """Days to a threshold in words."""
    if text.missing(value):
        return "not heading there"
    return "beyond its threshold" if value <= 0 else f"threshold in {duration(86_400 * value)}"


_HEADS: Final = {"up": "▲", "down": "▼"}
TRENDS: Final[Columns] = {  # where slow quantities are heading
    "Signal": ("metric", lambda metric: METRICS.get(metric, metric)),
    "Threshold": ("days_to_threshold", days),
    "Now": lambda row: text.number(row["value"], row["unit"], 1),
    "A day": lambda row: f"{row['slope_per_day']:+.2f} {row['unit']}",
    "90 % sure": lambda row: f"{row['slope_low_per_day']:+.2f} to {row['slope_high_per_day']:+.2f}",
    "Limit": lambda row: f"{_HEADS[row['heads']]} {text.number(row['threshold'], row['unit'], 1)}",
    "Met on": ("threshold_at", minute),
    "Hours": "points",
    "Over": ("span_days", lambda days: duration(86_400 * days)),
}


def near(found: pd.DataFrame) -> dict[str, str]:
    """Colours of the words for thresholds that are ahead or crossed; the words say the same."""
    _, major, minor, warning = SEVERITIES.values()
    known = found["days_to_threshold"].dropna().astype(float)
    return {days(d): major if d <= 0 else minor if d < 7 else warning for d in known}


_ITS: Final = ("Vehicle", "Model")  # what the page says above
TRIPS: Final[Columns] = {label: column for label, column in path.TRIPS.items() if label not in _ITS}
CRASHES: Final[Columns] = {label: column for label, column in RECORDS.items() if label not in _ITS} | {
    "Complete": ("complete", {True: "complete", False: "incomplete"}.get),
    "Why": ("reasons", "; ".join),
}

CODES: Final[Columns] = {  # trouble codes of alerts
    "Code": ("code", known),
    "What": ("rule", {"dtc_active": "set", "dtc_intermittent": "comes and goes"}.get),
    "Severity": ("severity", severity),
    "Status": ("active", {True: "active", False: "cleared"}.get),
    "First": ("opened_at", clock),
    "Last": ("last_at", clock),
    "Seen": "findings",
}
