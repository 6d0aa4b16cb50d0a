"""A picture of one failing vehicle: its metric by minute, the cohort's band, the limits, onset and finding.

The run and the way to its minutes are those of load_tests/cohort_run.py: the transforms of the stream.

Run: python -m load_tests.trend_picture --fault overheating=1 --minutes 40 --png FILE
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from PIL import Image, ImageDraw

from infra.settings.sections import Cohort as Terms
from load_tests.cohort_run import Run, add_options, judged, of_options
from stream_jobs.rules.cohort.judge import MINUTE_MS, Metric, News, Residual

WIDTH, HEIGHT = 1200, 620
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 70, 50
TICKS: Final = 8
BAND, OTHERS, MEDIAN = (198, 219, 239), (205, 205, 205), (49, 130, 189)
OWN, LIMIT, FIXED, ONSET, FOUND = (215, 48, 39), (230, 130, 0), (120, 120, 120), (0, 0, 0), (123, 50, 148)

Line = Sequence[tuple[float, float]]
"""Minutes since the run's begin, and values."""


@dataclass(frozen=True, slots=True)
class Story:
    """What is drawn of one vehicle; moments in minutes since the run's begin."""

    title: str
    unit: str
    own: Line
    others: Sequence[Line]
    residuals: Sequence[tuple[float, float, Residual]]
    """Begin and end of a bucket, and what it gave."""
    limit: float | None
    onset: float
    found: float


def story(run: Run, metric: str, column: str, limit: float | None) -> Story:
    """The first failing vehicle that was found by the metric; raises ValueError where there is none."""
    terms = Terms(keep_z=0)
    result = judged(run, terms)
    first = next((n for n in result.news if _wanted(n, metric) and n.vehicle_id in run.faults), None)
    if first is None:
        raise ValueError(f"{metric} found no failing vehicle in this run")
    begin_ms: float = min(run.minutes["bucket"].to_pylist()).timestamp() * 1000

    def minute(ms: float) -> float:
        return (ms - begin_ms) / MINUTE_MS

    lines = _lines(run, column, first.vehicle_id, minute)
    own = [r for r, _ in result.kept if (r.vehicle_id, r.metric.metric) == (first.vehicle_id, metric)]
    fault = run.faults[first.vehicle_id]
    return Story(
        title=f"{fault['fault']}, {run.models[first.vehicle_id]}: {_text(first.metric)}",
        unit=first.metric.unit,
        own=lines.pop(first.vehicle_id),
        others=[*lines.values()],
        residuals=[(minute(r.at_ms), minute(r.at_ms) + terms.bucket_min, r) for r in own],
        limit=limit,
        onset=minute(fault["from_ms"]),
        found=minute(first.event_ms),
    )


def _wanted(news: News, metric: str) -> bool:
    return news.metric.metric == metric and news.residual is not None


def _text(metric: Metric) -> str:
    return f"{metric.value}, {metric.unit} (rule {metric.id}, z {metric.z:g} in {metric.buckets} buckets)"


def _lines(
    run: Run, column: str, vehicle: str, minute: Callable[[float], float]
) -> dict[str, list[tuple[float, float]]]:
    """The metric by minute, of the vehicle and of all others of its model without a fault."""
    like = {v for v, model in run.models.items() if model == run.models[vehicle] and v not in run.faults}
    lines: dict[str, list[tuple[float, float]]] = {v: [] for v in (*sorted(like), vehicle)}
    for row in run.minutes.select(["vehicle_id", "bucket", column]).to_pylist():
        if row["vehicle_id"] in lines and row[column] is not None:
            at = minute(row["bucket"].timestamp() * 1000) + 0.5
            lines[row["vehicle_id"]].append((at, row[column]))
    return lines


class Chart:
    """Axes in minutes and in the unit, and what is drawn on them."""

    def __init__(self, told: Story) -> None:
        self.told = told
        shown = [v for _, v in told.own] + [r.median + r.metric.z * r.scale for *_, r in told.residuals]
        shown += [r.median - r.scale for *_, r in told.residuals]
        shown += [] if told.limit is None else [told.limit]
        self.low, self.high = math.floor(min(shown) / 5) * 5 - 5, math.ceil(max(shown) / 5) * 5 + 5
        self.until = told.own[-1][0] + 1
        self.image = Image.new("RGB", (WIDTH, HEIGHT), "white")
        self.pen = ImageDraw.Draw(self.image)

    def at(self, minute: float, value: float) -> tuple[float, float]:
        """The pixel of a point; what lies outside is put on the edge."""
        inside = min(max(value, self.low), self.high)
        x = LEFT + min(minute / self.until, 1.0) * (WIDTH - LEFT - RIGHT)
        return x, HEIGHT - BOTTOM - (inside - self.low) / (self.high - self.low) * (HEIGHT - TOP - BOTTOM)

    def axes(self) -> None:
        """Ticks and their figures."""
        step = max(1, round((self.high - self.low) / TICKS))
        for value in range(self.low, self.high + 1, step):
            x, y = self.at(0, value)
            self.pen.line([(x, y), self.at(self.until, value)], fill=(238, 238, 238))
            self.pen.text((LEFT - 34, y - 6), str(value), fill="black")
        for minute in range(0, int(self.until) + 1, 5):
            x, y = self.at(minute, self.low)
            self.pen.line([(x, y), (x, y + 5)], fill="black")
            self.pen.text((x - 6, y + 9), str(minute), fill="black")
        self.pen.text((WIDTH - 110, HEIGHT - 18), "minutes of the run", fill="black")
        self.pen.text((10, TOP - 22), self.told.unit, fill="black")

    def curve(self, points: Line, colour: tuple[int, int, int], width: int) -> None:
        """A line by minute; a gap of more than two minutes stays one."""
        for (t, value), (later, after) in itertools.pairwise(points):
            if later - t <= 2:
                self.pen.line([self.at(t, value), self.at(later, after)], fill=colour, width=width)

    def dashed(self, since: float, until: float, value: float, colour: tuple[int, int, int]) -> None:
        """A level, in dashes."""
        (x, y), (end, _) = self.at(since, value), self.at(until, value)
        while x < end:
            self.pen.line([(x, y), (min(x + 7, end), y)], fill=colour, width=2)
            x += 12

    def moment(self, minute: float, colour: tuple[int, int, int], text: str, row: int) -> None:
        """A moment with its name."""
        self.pen.line([self.at(minute, self.low), self.at(minute, self.high)], fill=colour, width=2)
        self.pen.text((self.at(minute, 0)[0] + 5, TOP + 4 + 14 * row), text, fill=colour)


def draw(told: Story) -> Image.Image:
    """The whole picture."""
    chart = Chart(told)
    for since, until, r in told.residuals:
        chart.pen.rectangle(
            (*chart.at(since, r.median + r.scale), *chart.at(until, r.median - r.scale)), fill=BAND
        )
    chart.axes()
    for line in told.others:
        chart.curve(line, OTHERS, 1)
    for since, until, r in told.residuals:
        chart.pen.line([chart.at(since, r.median), chart.at(until, r.median)], fill=MEDIAN, width=2)
        chart.dashed(since, until, r.limit(1 if r.metric.side != "below" else -1), LIMIT)
    if told.limit is not None:
        chart.dashed(0, chart.until, told.limit, FIXED)
    chart.curve(told.own, OWN, 3)
    chart.moment(told.onset, ONSET, "onset (truth)", 0)
    chart.moment(told.found, FOUND, f"found, {told.found - told.onset:.1f} min after", 1)
    chart.pen.text((LEFT, 12), told.title, fill="black")
    _legend(chart)
    return chart.image


def _legend(chart: Chart) -> None:
    names = (
        (OWN, "the vehicle"), (OTHERS, "sound ones of its model"), (MEDIAN, "median of its cohort's others"),
        (BAND, "+/- their scale"), (LIMIT, "limit in force"), (FIXED, "fixed limit"),
    )  # fmt: skip
    x = LEFT
    for colour, name in names[: 6 if chart.told.limit is not None else 5]:
        chart.pen.rectangle((x, 36, x + 16, 46), fill=colour)
        chart.pen.text((x + 22, 35), name, fill="black")
        x += 46 + 6 * len(name)


def main() -> None:
    """Simulate, judge, draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    parser.add_argument("--metric", default="coolant")
    parser.add_argument("--column", default="coolant_mean_c", help="column of the minutes that is drawn")
    parser.add_argument("--limit", type=float, default=105.0, help="the fixed limit that is drawn too")
    parser.add_argument("--png", type=Path, required=True)
    arguments = parser.parse_args()
    told = story(of_options(arguments), arguments.metric, arguments.column, arguments.limit)
    draw(told).save(arguments.png, optimize=True)


if __name__ == "__main__":
    main()
