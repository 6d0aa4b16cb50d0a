"""The frames around an alert as charts: its signals, and value and limit as its rule saw them; pure.

A rule's expressions are Spark SQL over a frame's signals. DuckDB reads nearly all of them in its own words;
where it does not, the signals are shown without value. Times are s from the alert's opening.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any, Final, NamedTuple

import duckdb
import pandas as pd
import pyarrow as pa
import sqlglot
from sqlglot.errors import SqlglotError

from dashboard.shared import charts, text
from dashboard.shared.charts import Drawing, Spec, drawing, layer, number, tip, words
from dashboard.shared.theme import SERIES, SEVERITIES
from infra.clients.duck import connected
from infra.contract.signals import BY_NAME, SIGNALS
from stream_jobs.frames import reading
from stream_jobs.frames.plausibility import plausible_columns
from stream_jobs.vehicles.lookups import COLUMNS

AROUND_S: Final = 30.0
COMPARED: Final = ("frame", "level")  # kinds whose limit is in the unit of a frame's value
MEMORY: Final = "128MB"
USUAL: Final = ("speed_kmh",)  # shown where no rule says what matters

_UNITS: Final = {"degC": "°C", "deg": "°", "bool": "", "m/s^2": "m/s²", "deg/s": "°/s"}
_WORD: Final = re.compile(r"[a-z_][a-z0-9_]*", re.IGNORECASE)
_PICKING: Final = re.compile(r"\b(?:least|greatest|array_min|array_max)\b|[(),\s]")

HEIGHT_PX: Final = 230
LEAST_SHARE: Final = 0.02  # of a signal's size, that its axis spans at least
COLOURS: Final = {"value": SERIES[0], "limit": "#d9482b"}
_AROUND: Final = {"domain": [-AROUND_S, AROUND_S], "nice": False, "clamp": False}
_X: Final = number("s", "s from opening", _AROUND, grid=False, tickCount=7, labelFlush=True)
_TIP: Final = tip("s", "+.1f", "s from opening")

Row = Mapping[str, Any]


class Judged(NamedTuple):
    """A rule on an alert's frames.

    ``values``: ``s``, ``value`` and ``limit`` a row a frame, at its end; empty where they cannot be known.
    ``unit``: the value's, empty where it is a figure of the rule's own.
    """

    values: pd.DataFrame
    unit: str
    signals: tuple[str, ...]

    @property
    def known(self) -> bool:
        return bool(self.values["value"].notna().any())

    @property
    def limited(self) -> bool:
        return bool(self.values["limit"].notna().any())


def read(frames: Sequence[Row], alert: Row) -> pa.Table:
    """The frames as the jobs read them, a row each, in the columns that rules know; ``place`` is their order.

    A value is null where it is out of its range or not there.
    """
    # jsonb writes 1e30 out, and orjson writes no such integer
    parsed = reading.read(pa.array((json.dumps(frame).encode() for frame in frames), pa.binary()))
    of_vehicle = {name: pa.array([alert.get(name)] * len(frames), pa.string()) for name in COLUMNS}
    columns = dict(zip(parsed.column_names, parsed.columns, strict=True)) | of_vehicle
    columns |= plausible_columns(parsed, [signal.name for signal in SIGNALS])
    return pa.table({"place": pa.array(range(len(frames)), pa.int64()), **columns})


def judged(frames: pa.Table, opened_ms: int, alert: Row, rule: Row | None) -> Judged:
    """What the rule of ``alert`` saw; ``rule`` None: it is not known, or no longer this version."""
    value_sql = None if rule is None or rule["source"] != "frame" else rule["value_sql"]
    signals = _named(value_sql, rule)
    if value_sql is None:
        return Judged(pd.DataFrame(columns=["s", "value", "limit"]), "", signals)
    compared = rule is not None and rule["kind"] in COMPARED
    limit_sql = rule["limit_sql"] if rule is not None and compared else None
    values, limits = _evaluated((value_sql, limit_sql), frames)
    follows = len({limit for limit in limits if limit is not None}) > 1
    stored = alert["limit_value"]
    if compared and not follows and stored is not None:  # the one in force, perhaps an escalated one
        limits = [stored] * len(limits)
    t0_ms, n, dt_ms = (frames[name].to_numpy() for name in ("t0_ms", "n", "dt_ms"))
    ends = (t0_ms + (n - 1) * dt_ms - opened_ms) / 1000
    drawn = pd.DataFrame({"s": ends, "value": values, "limit": limits}).astype(float)
    # the unit where the value is a signal or picked among some; a difference or product has none
    picked, units = set(_PICKING.sub(" ", value_sql).split()), {unit(name) for name in signals}
    same = picked <= set(signals) and len(units) == 1
    return Judged(drawn, units.pop() if same else "", signals)


def caption(frames: int, rule: Row | None, seen: Judged) -> str:
    """What is drawn, and what could not be."""
    drawn = f"{frames} frames, 30 s before to 30 s after it opened, as the vehicle sent them."
    if rule is None:
        return f"{drawn} This version of the rule is not noted in the database: only signals are shown."
    if rule["value_sql"] is None or rule["source"] != "frame":
        return f"{drawn} Rules of this kind compare no value of a frame."
    if not seen.known:
        return f"{drawn} The rule's value cannot be computed here: only signals are shown."
    if rule["kind"] not in COMPARED:
        return f"{drawn} A rule of kind {rule['kind']} judges more than these frames: no limit on this axis."
    return f"{drawn} Value and limit are computed as the rule has them."


def curve(frames: pa.Table, opened_ms: int, name: str) -> pd.DataFrame:
    """``s`` and ``value`` of a signal: each sample of a fast one, one a frame of a slow one.

    A line breaks at a null.
    """
    times = zip(frames["t0_ms"].to_pylist(), frames["dt_ms"].to_pylist(), strict=True)
    rows = [
        ((t0_ms + place * dt_ms - opened_ms) / 1000, value)
        for (t0_ms, dt_ms), values in zip(times, _samples(frames, name), strict=True)
        for place, value in enumerate(values)
    ]
    return pd.DataFrame(rows, columns=["s", "value"], dtype=float)


def present(frames: pa.Table) -> list[str]:
    """Signals with a number or flag in at least one frame, in the contract's order."""
    numbers = (s.name for s in SIGNALS if s.kind != "codes")
    return [name for name in numbers if any(v is not None for vs in _samples(frames, name) for v in vs)]


def label(name: str) -> str:
    """A signal in words with its unit."""
    signal = BY_NAME[name]
    return f"{signal.meaning}, {unit(name)}" if unit(name) else signal.meaning


def unit(name: str) -> str:
    """A signal's unit as people write it; empty where it has none."""
    return _UNITS.get(BY_NAME[name].unit, BY_NAME[name].unit)


def _samples(frames: pa.Table, name: str) -> list[list[float | None]]:
    """By frame."""
    return [value if isinstance(value, list) else [value] for value in frames[name].to_pylist()]


def _named(value_sql: str | None, rule: Row | None) -> tuple[str, ...]:
    """The signals that an expression reads, else those of the condition, else the usual ones."""
    for sql in (value_sql, None if rule is None else rule["condition"]):
        read = set(_WORD.findall(sql or ""))
        found = tuple(s.name for s in SIGNALS if s.name in read and s.kind == "number")
        if found:
            return found
    return USUAL


def _evaluated(expressions: Sequence[str | None], frames: pa.Table) -> Iterator[list[float | None]]:
    """Each expression for each frame; nulls where there is none or where it cannot be read."""
    with connected(MEMORY) as connection:
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        connection.register("frame", frames)
        for expression in expressions:
            try:
                (plain,) = sqlglot.transpile(expression or "NULL", read="spark", write="duckdb")
                asked = f"SELECT ({plain})::DOUBLE FROM frame ORDER BY place"  # noqa: S608  the operator's rule
                yield [row[0] for row in connection.execute(asked).fetchall()]
            except (duckdb.Error, SqlglotError):  # a name or function that only the jobs know: without it
                yield [None] * frames.num_rows


def value_chart(judged: Judged, title: str, cleared_s: float | None) -> Drawing:
    """The rule's value by frame as points on a line, its limit dashed, the opening as an upright line."""
    title += f", {judged.unit}" if judged.unit else ""
    rows = judged.values.melt("s", ["value", "limit"], "series", "y").dropna(subset=["y"])
    colours = COLOURS if judged.limited else {"value": COLOURS["value"]}
    encoding = {
        "x": _X,
        "y": number("y", title, charts.CLOSE),
        "color": charts.colour("series", colours, offset=18),
        "tooltip": [_TIP, words("series"), tip("y", ".2f", title)],
    }
    look: Any = {"strokeWidth": 2, "point": {"size": 22, "filled": True}}
    lines = [layer("line", encoding, "datum.series == 'value'", **look)]
    if judged.limited:
        look = {"strokeWidth": 1.6, "strokeDash": [6, 4]}
        lines.append(layer("line", encoding, "datum.series == 'limit'", **look))
    return drawing(rows, f"{title}, around the opening", HEIGHT_PX, *lines, *_marks(cleared_s))


def signal_chart(frame: pd.DataFrame, name: str, cleared_s: float | None) -> Drawing:
    """One signal as the vehicle sent it; a slow one, one value a frame, holds until the next.

    Its axis is not closer than a share of the values: noise is no event, one value no axis.
    """
    slow, title = BY_NAME[name].rate == "slow", label(name)
    least, most = frame["value"].min(), frame["value"].max()
    middle, half = (least + most) / 2, LEAST_SHARE / 2 * max(abs(least), abs(most)) or 0.5
    close = most - least < 2 * half  # false of missing values
    near = {"domain": [middle - half, middle + half]} if close else {}
    y = number("value", unit(name), {"zero": False} | near)
    look: Any = {"strokeWidth": 1.6, "color": SERIES[0], "point": slow}
    look["interpolate"] = "step-after" if slow else "linear"
    line = layer("line", {"x": _X, "y": y, "tooltip": [_TIP, tip("value", ".2f", title)]}, **look)
    return drawing(frame[["s", "value"]], f"{title}, around the opening", 150, line, *_marks(cleared_s))


def _marks(cleared_s: float | None) -> list[Spec]:
    """Where the alert opened, and where it ended if that is near."""
    marks = {"opened": 0.0}
    if cleared_s is not None and cleared_s <= AROUND_S:
        marks["cleared"] = cleared_s
    return charts.upright(marks, "s")


_ALERT_TIP: Final = [words("rule"), words("vehicle_id"), words("message")]


def bars(alerts: pd.DataFrame) -> Drawing:
    """The alerts of an incident from their opening to their last finding, by rule and severity."""
    rows = alerts[["opened_at", "last_at", "rule", "vehicle_id", "severity", "message"]]
    rows = rows.rename(columns={"opened_at": "time"})
    there = {name: colour for name, colour in SEVERITIES.items() if (rows["severity"] == name).any()}
    encoding = {
        "x": charts.moments(form="%H:%M:%S"),
        "x2": {"field": "last_at"},
        "y": words("rule", title=None, sort=None, axis={"labelOverlap": False, "labelLimit": 160}),
        "color": charts.colour("severity", there, sign="square"),
        "tooltip": [charts.tip_time(), *_ALERT_TIP],
    }
    many = rows["rule"].nunique()
    bar = layer("bar", encoding, cornerRadius=2, height=12, minBandSize=4)
    begin = layer("tick", {k: encoding[k] for k in ("x", "y", "color", "tooltip")}, thickness=4, size=14)
    return drawing(rows, "Alerts of the incident over time, by rule", 40 + 26 * many, bar, begin)


def together(alerts: pd.DataFrame) -> Drawing:
    """How many vehicles had an alert of the incident, as they opened."""
    opened = alerts.sort_values("opened_at").drop_duplicates("vehicle_id")
    rows = pd.DataFrame({"time": opened["opened_at"], "vehicles": range(1, len(opened) + 1)})
    rows = rows.drop_duplicates("time", keep="last")  # an area would stack what is of one moment
    encoding = {
        "x": charts.moments(form="%H:%M:%S"),
        "y": number("vehicles", "vehicles", format=",.0f"),
        "tooltip": [charts.tip_time(), tip("vehicles", ",", "vehicles")],
    }
    look: Any = {"interpolate": "step-after", "color": SERIES[0], "opacity": 0.12}
    look["line"] = {"strokeWidth": 1.7}
    return drawing(rows, "Vehicles of the incident over time", HEIGHT_PX, layer("area", encoding, **look))


def by_day(counted: pd.DataFrame, days: Sequence[date]) -> Drawing:
    """Alerts that opened, by day of the reader's zone and the gravest severity of their rule on it."""
    colours = {text.severity(name): colour for name, colour in SEVERITIES.items()}
    named = [list(colours)[int(worst) - 1] for worst in counted["worst"]]
    known = counted.assign(severity=named, day=counted["day"].astype(str))
    rows = known.groupby(["day", "severity"])["alerts"].sum().reset_index()
    axis, span = {"labelAngle": 0, "labelOverlap": True, "grid": False}, [str(day) for day in days]
    day = {"field": "day", "type": "ordinal"}
    encoding = {
        "x": day | {"title": None, "scale": {"domain": span}, "axis": axis},
        "y": number("alerts", "alerts opened"),
        "color": charts.colour("severity", colours, offset=18, sign="square") | {"sort": list(colours)},
        "tooltip": [day, words("severity"), tip("alerts", ",", "alerts")],
    }
    return drawing(rows, "Alerts opened, by day and severity", HEIGHT_PX, layer("bar", encoding))
