"""How fast each edge will be: what is seen now, fading into what is usual at that hour of the week."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np

from infra.contract.errors import ConfigError
from stream_jobs.frames.arrays import Floats
from stream_jobs.roads.network import RoadNetwork

SLOWEST_KMH: Final = 2.0
"""A street where all stand still is passed at last."""


@dataclass(frozen=True, slots=True)
class Blend:
    """The weight of what is seen: vehicles / (vehicles + few) * 0.5 ^ (age / half_life_s).

    ``age`` is from the five minutes' middle until the edge is reached. Where no speed is known at all, it is
    the limit times what share of it other edges of the class reach, or ``limit_share``.
    """

    few: float = 3.0
    half_life_s: float = 900.0
    limit_share: float = 0.7


@dataclass(frozen=True, slots=True)
class Seen:
    """What the five minutes up to now say of an edge."""

    speed_kmh: float
    vehicles: int


@dataclass(frozen=True, slots=True)
class EdgeSpeeds:
    """Times to drive edges of a network, as known at ``now``; ``usual`` is [hours, n_edges], km/h."""

    net: RoadNetwork
    now: datetime
    zone: ZoneInfo
    usual: Mapping[int, Floats]
    """By hour of the week; nan where nothing is known."""
    seen: Mapping[int, Seen]
    """By edge."""
    age_s: float
    blend: Blend
    fallback: Floats
    """For edges without any history, km/h, [n_edges]."""

    def time_s(self, edge: int, ahead_s: float) -> float:
        """Time to drive all of an edge that is entered ``ahead_s`` from now, s."""
        usual_kmh = self._usual(edge, ahead_s)
        slowness = 1 / max(usual_kmh, SLOWEST_KMH)
        seen = self.seen.get(edge)
        if seen is not None:
            weight = self.weight(seen.vehicles, ahead_s)
            slowness = weight / max(seen.speed_kmh, SLOWEST_KMH) + (1 - weight) * slowness
        return 3.6 * float(self.net.length_m[edge]) * slowness

    def weight(self, vehicles: int, ahead_s: float) -> float:
        """What is seen counts so much, 0 to 1."""
        trust = vehicles / (vehicles + self.blend.few)
        return float(trust * 0.5 ** ((self.age_s + ahead_s) / self.blend.half_life_s))

    def _usual(self, edge: int, ahead_s: float) -> float:
        hour = hour_of_week(self.now + timedelta(seconds=ahead_s), self.zone)
        known = self.usual.get(hour)
        speed = np.nan if known is None else known[edge]
        return float(self.fallback[edge] if np.isnan(speed) else speed)


def fallback(net: RoadNetwork, usual: Mapping[int, Floats], blend: Blend) -> Floats:
    """A speed for each edge at any hour: its mean pace of all hours, else a share of its limit, km/h."""
    if not usual:
        return net.limit_kmh * blend.limit_share
    table = np.stack(list(usual.values()))
    known = ~np.isnan(table)
    slowness = np.where(known, 1 / np.maximum(np.where(known, table, 1.0), SLOWEST_KMH), 0).sum(axis=0)
    count = known.sum(axis=0)
    mean = np.divide(count, slowness, out=np.full(len(count), np.nan), where=count > 0)
    guess = net.limit_kmh * blend.limit_share
    for kind in np.unique(net.road_class):
        own = net.road_class == kind
        told = own & ~np.isnan(mean)
        if told.any():
            free_s = (net.length_m[told] / net.limit_kmh[told]).sum()
            guess[own] = net.limit_kmh[own] * free_s / (net.length_m[told] / mean[told]).sum()
    return np.where(np.isnan(mean), guess, mean)


HOURS_A_DAY: Final = 24
WORKDAYS: Final = 5
DAYS: Final = 7


def off_peak_hours(weekday: str, weekend: str) -> list[int]:
    """Hours of the week in the spans of a weekday and of a day of the weekend, as 9-16,19-22.

    Raises ConfigError for a span that ends before it begins or after 24.
    """
    by_day = [_hours(weekday)] * WORKDAYS + [_hours(weekend)] * (DAYS - WORKDAYS)
    return [day * HOURS_A_DAY + hour for day, hours in enumerate(by_day) for hour in hours]


def hour_of_week(at: datetime, zone: ZoneInfo) -> int:
    """The hour of the local week in which ``at`` lies."""
    there = at.astimezone(zone)
    return there.weekday() * HOURS_A_DAY + there.hour


def _hours(spans: str) -> list[int]:
    found: set[int] = set()
    for span in spans.split(","):
        begin, end = (int(hour) for hour in span.split("-"))
        if not begin < end <= HOURS_A_DAY:
            raise ConfigError(f"roads.off_peak: {span} in {spans}: hours such as 9-16 are wanted, up to 24")
        found |= set(range(begin, end))
    return sorted(found)
