"""A bucket of the fleet: each vehicle's distance from the others of its cohort; pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

import numpy as np

from infra.settings.job_sections import Cohort as Terms
from stream_jobs.rules.cohort.metrics import Metric
from stream_jobs.rules.cohort.robust import Floats, others

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
