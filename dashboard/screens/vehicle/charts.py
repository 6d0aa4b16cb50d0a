"""Charts of one vehicle and its trace on the map: frame in, drawing or layer out. Pure.

Times are in the column ``bucket`` of its history.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final, NamedTuple

import pandas as pd
import pydeck as pdk

from dashboard.shared import charts as vega
from dashboard.shared.charts import Drawing, Window, drawing, layer, number, tip
from dashboard.shared.maps import joined, literal, placed
from dashboard.shared.text import Record, rows_of
from dashboard.shared.theme import LIMIT, SERIES, STATES, rgba, speed_colour

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
    """The rows with an empty one put after each step that is missing, so that lines break there."""
    if frame.empty:
        return frame
    whole, step = frame.sort_values("bucket"), pd.Timedelta(seconds=step_s)
    before_gap = whole["bucket"].diff().shift(-1) > step
    holes = pd.DataFrame({"bucket": whole.loc[before_gap, "bucket"] + step})
    return pd.concat([whole, holes]).sort_values("bucket", ignore_index=True)


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
