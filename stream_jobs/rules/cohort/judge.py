"""A vehicle against its like: closed buckets in, residuals and findings out; pure.

It is a fold over buckets in order of time, so neither a restart nor a split changes anything. Times are ms
since 1970, begins of buckets.
"""

import math
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

import numpy as np
from pydantic import AfterValidator, Field

from infra.contract.messages import Severity
from infra.settings.sections import Cohort as Terms
from stream_jobs.alerts.derive import AlertRow
from stream_jobs.frames.arrays import Floats
from stream_jobs.maintenance.rollups import NAMES
from stream_jobs.rules.detect.base import Detection
from stream_jobs.rules.detect.level import MAD_TO_SD
from stream_jobs.rules.model import Number, Text, Whole, keys_of, read_entries
from stream_jobs.vehicles import rows

SHIPPED: Final = Path(__file__).with_name("metrics.yaml")
RULE: Final = "cohort_"  # before a metric's name it is the id of its rule
CLEAR_SHARE: Final = 0.75  # of the limit, where a metric does not say below which z it is over
SIDES: Final[Mapping[str, tuple[int, ...]]] = {"above": (1,), "below": (-1,), "both": (1, -1)}
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]*(?!\w|\s*\()", re.IGNORECASE)  # a word that is no function
_KEYWORDS: Final = frozenset(
    ("and", "or", "not", "is", "null", "between", "in", "case", "when", "then", "else", "end")
)
_FUNCTIONS: Final = frozenset(
    ("abs", "ceil", "coalesce", "exp", "floor", "greatest", "least", "ln", "nullif", "power", "round", "sqrt")
)
"""Functions that compute from their arguments; others of PostgreSQL sleep, read files or end sessions."""
_CALL: Final = re.compile(r"([a-z_][a-z0-9_]*)\s*\(", re.IGNORECASE)
_PLAIN: Final = re.compile(r"[\s\w.,()<>=!+*/%-]+", re.ASCII)
"""No text, quoted name, statement's end, cast or parameter; remarks are looked for apart."""


def _sql(sql: str) -> str:
    """SQL that only computes from the columns of a bucket."""
    lower = sql.lower()
    if not _PLAIN.fullmatch(lower) or "--" in lower or "/*" in lower:
        raise ValueError(f"{lower!r} has more than columns, numbers, operators and functions")
    calls = set(_CALL.findall(lower)) - _KEYWORDS - _FUNCTIONS
    if calls:
        known = ", ".join(sorted(_FUNCTIONS))
        raise ValueError(f"calls {', '.join(sorted(calls))}; functions are {known}")
    unknown = set(_NAME.findall(lower)) - _KEYWORDS - set(NAMES)
    if unknown:
        raise ValueError(f"names what is no column of odograph.vehicle_minute: {', '.join(sorted(unknown))}")
    return sql


Positive = Annotated[Number, Field(gt=0)]
Sql = Annotated[Text, AfterValidator(_sql)]
Count = Annotated[Whole, Field(ge=1, le=100)]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; ``value`` and ``when`` are SQL over the columns of a bucket, ``floor`` is in ``unit``."""

    metric: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
    value: Sql
    unit: Text
    side: Literal["above", "below", "both"]
    z: Positive
    floor: Positive
    buckets: Count
    severity: Severity
    version: Count
    message: Text
    clear_z: Positive
    when: Sql = "true"

    @property
    def id(self) -> str:
        return RULE + self.metric

    def summary(self) -> dict[str, Any]:
        """Its rule in short; the limit is in scales of the cohort."""
        return {
            "id": self.id, "version": self.version, "severity": self.severity, "query": "cohort",
            "kind": "cohort", "source": "vehicle_minute", "beyond": self.side, "limit": f"z {self.z:g}",
            "clear_for_s": None, "message": self.message,
        }  # fmt: skip

    def beyond(self, z: float) -> int:
        """On which side ``z`` is beyond the limit: 1 above, -1 below, 0 not."""
        return next((side for side in SIDES[self.side] if side * z >= self.z), 0)


def load_metrics(path: Path | None = None) -> tuple[Metric, ...]:
    """The metrics in ``path``, or those that ship; raises ConfigError naming file, metric and key."""
    found = []
    for entry in read_entries(path or SHIPPED, "cohort metrics", "metrics", "metric"):
        entry.check_keys(keys_of(Metric).values())
        metric = entry.read(Metric, {} if "clear_z" in entry else {"clear_z": 1.0})
        if "clear_z" not in entry:
            metric = replace(metric, clear_z=CLEAR_SHARE * metric.z)
        if metric.clear_z > metric.z:
            raise entry.wrong("clear_z", f"{metric.clear_z:g} is not above 0 and at most z")
        found.append(metric)
    return tuple(found)


MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
Key = tuple[str, str]  # metric and vehicle
States = Mapping[Key, "State"]


def median_of_others(values: Floats) -> Floats:
    """For each value the median of all but itself; there are two values at least."""
    order = np.argsort(values, kind="stable")
    rank = np.empty(len(values), np.int64)
    rank[order] = np.arange(len(values))
    ascending = values[order]
    low, high = (len(values) - 2) // 2, (len(values) - 1) // 2
    middle: Floats = (ascending[low + (rank <= low)] + ascending[high + (rank <= high)]) / 2
    return middle


def others(values: Floats) -> tuple[Floats, Floats]:
    """For each value the median of all but itself, and their scale (1.4826 MAD about that median).

    Leaving one out moves the median to one of three places at most, so this is a few sorts and no square.
    """
    medians = median_of_others(values)
    mads = np.empty_like(medians)
    for median in np.unique(medians):
        mine = medians == median
        mads[mine] = median_of_others(np.abs(values - median))[mine]
    return medians, MAD_TO_SD * mads


NO_BAND: Final = -1  # of vehicles that do not say: without an engine there is no load


class Cohort(NamedTuple):
    """Who is compared with whom. ``load_band``: how many of the edges its load has passed; ``ambient_c``: the
    begin of its band of the weather, degC, None where it does not say.
    """

    model: str
    load_band: int
    ambient_c: int | None


@dataclass(frozen=True, slots=True)
class Bucket:
    """All vehicles from ``at_ms`` on, by cohort: of each its values of the metrics, NaN: none."""

    at_ms: int
    members: Mapping[Cohort, Mapping[str, Sequence[float]]]


@dataclass(frozen=True, slots=True)
class Residual:
    """A value against ``others`` of its cohort, over the ``bucket`` or, where too few, the ``hour``."""

    metric: Metric
    vehicle_id: str
    cohort: Cohort
    at_ms: int
    value: float
    median: float
    scale: float
    others: int
    over: str

    @property
    def z(self) -> float:
        """The robust z: positive above the others."""
        return (self.value - self.median) / self.scale

    def limit(self, side: int) -> float:
        """The limit in force on a side, in the unit."""
        return self.median + side * self.metric.z * self.scale


def cohort_of(model: str, load_pct: float | None, ambient_c: float | None, terms: Terms) -> Cohort:
    """The cohort of a vehicle in a bucket."""
    load = NO_BAND if load_pct is None else sum(load_pct >= edge for edge in terms.load_edges_pct)
    step_c = terms.ambient_step_c
    return Cohort(model, load, None if ambient_c is None else math.floor(ambient_c / step_c) * step_c)


def residuals(
    bucket: Bucket, hour: Sequence[Bucket], metrics: Iterable[Metric], terms: Terms
) -> Iterator[Residual]:
    """Those of one bucket; ``hour`` are the buckets of the hour that ends with it, itself among them."""
    for number, metric in enumerate(metrics):
        for cohort in bucket.members:
            known = _usual(cohort, number, [bucket])
            peers, over = known, "bucket"
            if known and len(known) <= terms.least_others:
                peers, over = _usual(cohort, number, hour), "hour"
            if len(peers) <= terms.least_others:
                continue
            medians, scales = (each.tolist() for each in others(np.array([*peers.values()])))
            for vehicle, median, scale in zip(peers, medians, scales, strict=True):
                if vehicle in known:
                    yield Residual(
                        metric, vehicle, cohort, bucket.at_ms, known[vehicle], median,
                        max(scale, metric.floor), len(peers) - 1, over,
                    )  # fmt: skip


def _usual(cohort: Cohort, number: int, buckets: Iterable[Bucket]) -> dict[str, float]:
    """The median of each vehicle over those of the buckets in this cohort: one vehicle, one value."""
    found: dict[str, list[float]] = defaultdict(list)
    for bucket in buckets:
        for vehicle, values in bucket.members.get(cohort, {}).items():
            if not math.isnan(values[number]):
                found[vehicle].append(values[number])
    return {vehicle: statistics.median(values) for vehicle, values in sorted(found.items())}


@dataclass(frozen=True, slots=True)
class State:
    """What is remembered of a vehicle and a metric while it is beyond, or raised.

    ``streak``: buckets beyond on end, all on ``side`` (1 above, -1 below); ``calm``: buckets within the clear
    level on end. ``since_ms``: the first bucket of the streak, ``last_ms``: the last one with a residual.
    """

    side: int
    streak: int
    calm: int
    raised: bool
    since_ms: int
    last_ms: int


def _step(metric: Metric, state: State | None, z: float, at_ms: int) -> State | None:
    """The state after a bucket with a residual; None: nothing is to be remembered."""
    side = metric.beyond(z)
    if state is not None and state.raised:
        if state.side * z >= metric.clear_z:  # between clear level and limit it stays
            return replace(state, streak=state.streak + (side == state.side), calm=0, last_ms=at_ms)
        over = state.calm + 1 >= metric.buckets  # calm for as long as it took to be raised
        return None if over else replace(state, calm=state.calm + 1, last_ms=at_ms)
    if not side:
        return None
    if state is None or state.side != side:
        state = State(side, 0, 0, raised=False, since_ms=at_ms, last_ms=at_ms)
    streak = state.streak + 1
    return replace(state, streak=streak, raised=streak >= metric.buckets, last_ms=at_ms)


@dataclass(frozen=True, slots=True)
class News:
    """A finding, or with ``residual`` None an end; ``event_ms`` is the end of the bucket that it is of."""

    metric: Metric
    vehicle_id: str
    event_ms: int
    state: State
    residual: Residual | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """What some buckets gave; ``kept`` are residuals worth storing, with the state after them."""

    states: States
    kept: list[tuple[Residual, State | None]]
    news: list[News]


def judge(
    buckets: Sequence[Bucket], from_ms: int, states: States, metrics: Sequence[Metric], terms: Terms
) -> Judged:
    """Judge the buckets that begin at ``from_ms`` or later, in order of time; those before are their past."""
    known = {metric.metric: metric for metric in metrics}
    length_ms, gap_ms = terms.bucket_min * MINUTE_MS, terms.gap_min * MINUTE_MS
    now = {key: state for key, state in states.items() if key[0] in known}
    judged = Judged(now, [], [])
    for bucket in (each for each in buckets if each.at_ms >= from_ms):
        end_ms = bucket.at_ms + length_ms
        hour = [each for each in buckets if end_ms - HOUR_MS <= each.at_ms <= bucket.at_ms]
        for (name, vehicle), state in sorted(now.items()):
            if bucket.at_ms - state.last_ms <= gap_ms:
                continue
            del now[name, vehicle]  # nothing was heard for so long that it says nothing any more
            if state.raised:
                judged.news.append(News(known[name], vehicle, state.last_ms + length_ms, state))
        for residual in residuals(bucket, hour, known.values(), terms):
            metric, vehicle, z = residual.metric, residual.vehicle_id, residual.z
            old = now.pop((metric.metric, vehicle), None)
            new = _step(metric, old, z, bucket.at_ms)
            if new is not None:
                now[metric.metric, vehicle] = new
                if new.raised and metric.beyond(z) == new.side:
                    judged.news.append(News(metric, vehicle, end_ms, new, residual))
            elif old is not None and old.raised:
                judged.news.append(News(metric, vehicle, end_ms, old))
            if new is not None or abs(z) >= terms.keep_z:
                judged.kept.append((residual, new))
    return judged


def alert_row(news: News, now_ms: int) -> AlertRow:
    """The record; ``now_ms`` stands for its receipt: found long after its bucket, it is marked late."""
    residual, unit, over = news.residual, news.metric.unit, "over, or not to be compared any more"
    found = Detection(news.event_ms, news.state.since_ms, None, None, detail=over, ended=True)
    if residual is not None:
        cohort, limit = residual.cohort, residual.limit(news.state.side)
        weather = "" if cohort.ambient_c is None else f", from {cohort.ambient_c} degC"
        hour = " in the last hour" if residual.over == "hour" else ""
        detail = (
            f"{residual.value:.1f} {unit} against {residual.median:.1f} {unit}, the median of "
            f"{residual.others} others{hour} ({cohort.model}, load band {cohort.load_band}{weather}), "
            f"z {residual.z:.1f}"
        )
        found = replace(found, value=residual.value, limit=limit, detail=detail, ended=False)
    return rows.alert_row(news.metric, found, news.vehicle_id, 0, 0, now_ms)
