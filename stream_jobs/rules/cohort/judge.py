"""A vehicle against its like: closed buckets in, residuals and findings out; pure.

It is a fold over buckets in order of time, so neither a restart nor a split changes anything. Times are ms
since 1970, begins of buckets.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple

import numpy as np

from infra.settings.job_sections import Cohort as Terms
from stream_jobs.frames.arrays import Floats
from stream_jobs.rules.cohort.metrics import Metric
from stream_jobs.vehicles.rows import AlertRow, finding_id

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
Key = tuple[str, str]
"""Metric and vehicle."""
States = Mapping[Key, "State"]

MAD_TO_SD: Final = 1.4826
"""A normal distribution's standard deviation over its median absolute deviation."""


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


NO_BAND: Final = -1
"""Of vehicles that do not say: without an engine there is no load."""


class Cohort(NamedTuple):
    """Who is compared with whom. ``load_band``: how many of the edges its load has passed; ``ambient_c``: the
    begin of its band of the weather, degC, None where it does not say.
    """

    model: str
    load_band: int
    ambient_c: int | None


@dataclass(frozen=True, slots=True)
class Bucket:
    """All vehicles in a span of time from ``at_ms`` on; ``values`` is metrics by vehicles, nan: none.

    ``members`` are the places of each cohort's vehicles.
    """

    at_ms: int
    vehicles: tuple[str, ...]
    cohorts: tuple[Cohort, ...]
    values: Floats
    members: Mapping[Cohort, Sequence[int]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Find the members."""
        members: dict[Cohort, list[int]] = defaultdict(list)
        for place, cohort in enumerate(self.cohorts):
            members[cohort].append(place)
        object.__setattr__(self, "members", members)


@dataclass(frozen=True, slots=True)
class Residual:
    """A vehicle's value against ``others`` vehicles of its cohort; ``scale`` is floored, in the unit.

    ``over``: whether they are those of the bucket or, where these are too few, of the last hour.
    """

    metric: Metric
    vehicle_id: str
    cohort: Cohort
    at_ms: int
    value: float
    median: float
    scale: float
    others: int
    over: Literal["bucket", "hour"]

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
    if ambient_c is None:
        return Cohort(model, load, None)
    return Cohort(model, load, math.floor(ambient_c / terms.ambient_step_c) * terms.ambient_step_c)


def residuals(
    bucket: Bucket, hour: Sequence[Bucket], metrics: Sequence[Metric], terms: Terms
) -> Iterator[Residual]:
    """Those of one bucket; ``hour`` are the buckets of the hour that ends with it, itself among them."""
    for number, metric in enumerate(metrics):
        for cohort, places in bucket.members.items():
            row = bucket.values[number, places]
            known = [place for place, there in zip(places, ~np.isnan(row), strict=True) if there]
            if len(known) > terms.least_others:
                yield from _against(metric, cohort, bucket, number, known)
            elif known:
                usual = _usual(cohort, number, hour)
                if len(usual) > terms.least_others:
                    yield from _against(metric, cohort, bucket, number, known, usual)


def _against(
    metric: Metric, cohort: Cohort, bucket: Bucket, number: int, known: Sequence[int],
    usual: dict[str, float] | None = None,
) -> Iterator[Residual]:  # fmt: skip
    """Residuals of vehicles at places ``known``, against each other or against what was ``usual``."""
    values = bucket.values[number, known] if usual is None else np.array([*usual.values()])
    medians, scales = others(values)
    rank = {vehicle: k for k, vehicle in enumerate(usual)} if usual is not None else {}
    for k, place in enumerate(known):
        vehicle = bucket.vehicles[place]
        at = k if usual is None else rank[vehicle]
        yield Residual(
            metric=metric,
            vehicle_id=vehicle,
            cohort=cohort,
            at_ms=bucket.at_ms,
            value=float(bucket.values[number, place]),
            median=float(medians[at]),
            scale=max(float(scales[at]), metric.floor),
            others=len(values) - 1,
            over="bucket" if usual is None else "hour",
        )


def _usual(cohort: Cohort, number: int, hour: Iterable[Bucket]) -> dict[str, float]:
    """The median of each vehicle over its buckets of the hour in this cohort: one vehicle, one value."""
    found: dict[str, list[float]] = defaultdict(list)
    for bucket in hour:
        for place in bucket.members.get(cohort, ()):
            value = float(bucket.values[number, place])
            if not math.isnan(value):
                found[bucket.vehicles[place]].append(value)
    return {vehicle: float(np.median(values)) for vehicle, values in sorted(found.items())}


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


def step(metric: Metric, state: State | None, z: float, at_ms: int) -> State | None:
    """The state after a bucket with a residual; None: nothing is to be remembered."""
    if state is not None and state.raised:
        return _raised(metric, state, z, at_ms)
    side = metric.beyond(z)
    if not side:
        return None
    if state is None or state.side != side:
        state = State(side, 0, 0, raised=False, since_ms=at_ms, last_ms=at_ms)
    streak = state.streak + 1
    return replace(state, streak=streak, raised=streak >= metric.buckets, last_ms=at_ms)


def _raised(metric: Metric, state: State, z: float, at_ms: int) -> State | None:
    """Between clear level and limit it stays; calm for as long as it took to be raised, it is over."""
    if state.side * z >= metric.clear_z:
        streak = state.streak + (metric.beyond(z) == state.side)
        return replace(state, streak=streak, calm=0, last_ms=at_ms)
    if state.calm + 1 >= metric.buckets:
        return None
    return replace(state, calm=state.calm + 1, last_ms=at_ms)


def _forgotten(state: State, at_ms: int, gap_ms: int) -> bool:
    """Whether nothing was heard for so long that what was remembered says nothing any more."""
    return at_ms - state.last_ms > gap_ms


@dataclass(frozen=True, slots=True)
class News:
    """A finding, or with ``residual`` None an end; ``event_ms`` is the end of the bucket that it is of."""

    metric: Metric
    vehicle_id: str
    event_ms: int
    since_ms: int
    side: int
    residual: Residual | None


@dataclass(frozen=True, slots=True)
class Judged:
    """What some buckets gave; ``kept`` are residuals worth storing, with the state after them."""

    states: States
    kept: list[tuple[Residual, State | None]] = field(default_factory=list)
    news: list[News] = field(default_factory=list)


def judge(
    buckets: Sequence[Bucket], from_ms: int, states: States, metrics: Sequence[Metric], terms: Terms
) -> Judged:
    """Judge the buckets that begin at ``from_ms`` or later, in order of time; those before are their past."""
    known = {metric.metric: metric for metric in metrics}
    judged = Judged(states={key: state for key, state in states.items() if key[0] in known})
    for bucket in buckets:
        if bucket.at_ms >= from_ms:
            since_ms = bucket.at_ms + terms.bucket_min * MINUTE_MS - HOUR_MS
            hour = [b for b in buckets if since_ms <= b.at_ms <= bucket.at_ms]
            judged = _one(judged, bucket, hour, known, terms)
    return judged


def _one(
    before: Judged, bucket: Bucket, hour: Sequence[Bucket], metrics: Mapping[str, Metric], terms: Terms
) -> Judged:
    length_ms = terms.bucket_min * MINUTE_MS
    after = Judged(dict(before.states), before.kept, before.news)
    states: dict[Key, State] = {}
    for key, state in sorted(before.states.items()):
        if not _forgotten(state, bucket.at_ms, terms.gap_min * MINUTE_MS):
            states[key] = state
        elif state.raised:
            after.news.append(_end(metrics[key[0]], key[1], state, state.last_ms + length_ms))
    for residual in residuals(bucket, hour, [*metrics.values()], terms):
        key = residual.metric.metric, residual.vehicle_id
        old = states.pop(key, None)
        new = step(residual.metric, old, residual.z, bucket.at_ms)
        if new is not None:
            states[key] = new
        after.news.extend(_news(residual, old, new, bucket.at_ms + length_ms))
        if new is not None or abs(residual.z) >= terms.keep_z:
            after.kept.append((residual, new))
    return Judged(states, after.kept, after.news)


def _news(residual: Residual, old: State | None, new: State | None, event_ms: int) -> list[News]:
    if new is not None and new.raised and residual.metric.beyond(residual.z) == new.side:
        return [News(residual.metric, residual.vehicle_id, event_ms, new.since_ms, new.side, residual)]
    if new is None and old is not None and old.raised:
        return [_end(residual.metric, residual.vehicle_id, old, event_ms)]
    return []


def _end(metric: Metric, vehicle_id: str, state: State, event_ms: int) -> News:
    return News(metric, vehicle_id, event_ms, state.since_ms, state.side, None)


def alert_row(news: News, now_ms: int) -> AlertRow:
    """The record; what it is known by does not depend on ``now_ms``, when it was found.

    That stands for the receipt: found long after its bucket, it is marked late and told to nobody.
    """
    metric, residual = news.metric, news.residual
    limit = None if residual is None else residual.limit(news.side)
    return AlertRow(
        alert_id=finding_id(
            news.vehicle_id, metric.rule, metric.version, news.event_ms, ended=residual is None
        ),
        vehicle_id=news.vehicle_id,
        rule=metric.rule,
        rule_version=metric.version,
        severity=metric.severity,
        event_ms=news.event_ms,
        value=None if residual is None else residual.value,
        limit=limit,
        message=f"{metric.message}: {evidence(news)}",
        boot_id=0,
        seq=0,
        received_ms=now_ms,
        lat_deg=None,
        lon_deg=None,
        since_ms=news.since_ms,
        ended=residual is None,
    )


def evidence(news: News) -> str:
    """What it was compared with, in a few words."""
    residual = news.residual
    if residual is None:
        return "over, or not to be compared any more"
    unit, cohort = news.metric.unit, residual.cohort
    weather = "" if cohort.ambient_c is None else f", from {cohort.ambient_c} degC"
    hour = " in the last hour" if residual.over == "hour" else ""
    return (
        f"{residual.value:.1f} {unit} against {residual.median:.1f} {unit}, the median of "
        f"{residual.others} others{hour} ({cohort.model}, load band {cohort.load_band}{weather}), "
        f"z {residual.z:.1f}"
    )
