"""Fences: in and out by the way between two positions, with a margin against a receiver's noise."""

import math
from bisect import bisect_left
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from infra.contract.signals import M_PER_DEG
from stream_jobs.frames.arrays import Flags
from stream_jobs.rules.detect.base import Detection, Detections, Detector, Memory, ms
from stream_jobs.rules.inputs import RuleEvaluation
from stream_jobs.rules.model import Fence, Geofence
from stream_jobs.vehicles.features import Features

STEPS: Final = 32  # points of a way that are looked at for a passage through a polygon
PARTS: Final = 2**20  # of a way, to one of which it is told where it crosses a border


class Was(NamedTuple):
    """A memory: the last position and its time; by fence whether inside (None: not sure yet) and raised."""

    lat_deg: float
    lon_deg: float
    at_ms: int
    inside: tuple[bool | None, ...]
    raised: tuple[bool, ...]


class GeofenceDetector(Detector[Geofence]):
    """Found at the crossing, ended at the crossing back; a passage between two positions is both at once.

    A vehicle is inside from ``margin_m`` within the border on, outside from ``margin_m`` beyond it, and
    between them where it was. Where it was first seen is no crossing. ``rare`` has a ``Was`` of each vehicle.
    """

    def wakes(self, now: RuleEvaluation) -> tuple[Flags, Flags]:
        """See Detector: where the condition holds or is not known."""
        return now.holds >= 0, now.holds >= 0

    def step(self, memory: Memory, frames: Features, now: RuleEvaluation) -> Detections:  # noqa: ARG002  the protocol's
        lat, lon, end_ms = frames["lat_deg"], frames["lon_deg"], frames["end_ms"]
        lanes = np.flatnonzero(~np.isnan(lat) & ~np.isnan(lon))
        never = (None,) * len(self.spec.fences), (False,) * len(self.spec.fences)
        found: Detections = []
        for lane in lanes.tolist():
            place, here = int(frames.vehicle[lane]), (float(lat[lane]), float(lon[lane]), int(end_ms[lane]))
            was = Was(*memory.rare.get(place, (*here, *never)))
            if here[2] < was.at_ms:
                continue
            crossed = [self._cross(fence, was, k, *here) for k, fence in enumerate(self.spec.fences)]
            memory.rare[place] = Was(*here, tuple(c[0] for c in crossed), tuple(c[1] for c in crossed))
            found += [(lane, each) for _, _, more in crossed for each in more]
        memory.on[frames.vehicle[lanes]] = True
        return found

    def _cross(
        self, fence: Fence, was: Was, k: int, lat_deg: float, lon_deg: float, to_ms: int
    ) -> tuple[bool | None, bool, tuple[Detection, ...]]:
        """Whether it is inside fence ``k`` now, whether the rule is raised, and what was found."""
        begin, end = _flat(fence, was.lat_deg, was.lon_deg), _flat(fence, lat_deg, lon_deg)
        before, raised, depth_m = was.inside[k], was.raised[k], _depth_m(fence, end)
        margin_m, no_gap = min(self.spec.margin_m, _reach_m(fence)), to_ms - was.at_ms <= ms(self.rule.gap_s)
        now = depth_m > 0 if abs(depth_m) >= margin_m else before
        enters = self.spec.on == "enter"
        if before is None or now is None or (now == before and (now or not enters or not no_gap)):
            return now, raised, ()

        def crossed(part: int) -> bool:
            return (_depth_m(fence, begin + part / PARTS * (end - begin)) > 0) == (depth_m > 0)

        share = 1.0
        if now == before:
            share = _deepest(fence, begin, end)
            if _depth_m(fence, begin + share * (end - begin)) < margin_m:  # a graze
                return now, raised, ()
        elif no_gap and not crossed(0):  # when the border was crossed, by halving the way
            share = bisect_left(range(PARTS), True, key=crossed) / PARTS
        at_ms, ended = was.at_ms + round(share * (to_ms - was.at_ms)), now != enters
        found = Detection(at_ms, at_ms, None, None, detail=fence.name, part=fence.name, ended=ended)
        if now == before:
            passes = replace(found, detail=f"{fence.name}, passed through", ended=False)
            return now, raised, (passes, replace(found, event_ms=to_ms))
        return now, not ended, () if ended and not raised else (found,)

    def unended(self, memory: Memory, place: int) -> list[tuple[int, str | None]]:
        """See Detector: the fences that it did not cross back."""
        if place not in memory.rare:
            return []
        was = Was(*memory.rare[place])
        return [(was.at_ms, fence.name) for fence, on in zip(self.spec.fences, was.raised, strict=True) if on]


def _flat(fence: Fence, lat_deg: float, lon_deg: float) -> complex:
    """Metres east (real) and north of a fence's first point; east is taken the short way round."""
    lat0, lon0 = fence.points[0]
    east = (lon_deg - lon0 + 180) % 360 - 180
    return complex(east * M_PER_DEG * math.cos(math.radians(lat0)), (lat_deg - lat0) * M_PER_DEG)


def _reach_m(fence: Fence) -> float:
    """At most half of the depth of a fence's middle: the margin of a small or narrow one cannot be more."""
    if fence.radius_m is not None:
        return fence.radius_m / 2
    corners = [_flat(fence, *point) for point in fence.points]
    sides = [*zip(corners, [*corners[1:], corners[0]], strict=True)]
    area_m2 = abs(sum((a.conjugate() * b).imag for a, b in sides)) / 2
    return area_m2 / sum(abs(b - a) for a, b in sides) / 2 if area_m2 else 0.0


def _depth_m(fence: Fence, point: complex) -> float:
    """Distance to the border, m; positive inside."""
    if fence.radius_m is not None:
        return fence.radius_m - abs(point)
    corners = [_flat(fence, *corner) for corner in fence.points]
    distance, crossings = math.inf, 0
    for a, b in zip(corners, [*corners[1:], corners[0]], strict=True):
        side, off = b - a, point - a
        distance = min(distance, abs(off - _nearest(side, off) * side))
        if (a.imag > point.imag) != (b.imag > point.imag):
            crossings += point.real < side.real * off.imag / side.imag + a.real
    return distance if crossings % 2 else -distance


def _nearest(way: complex, point: complex) -> float:
    """Where on the way from the origin (0..1) a point is nearest."""
    length2 = (way * way.conjugate()).real
    return min(1.0, max(0.0, (point * way.conjugate()).real / length2)) if length2 else 0.0


def _deepest(fence: Fence, begin: complex, end: complex) -> float:
    """Where on the way (0..1) it was deepest inside: exact for a circle, by steps for a polygon."""
    if fence.radius_m is not None:
        return _nearest(end - begin, -begin)
    shares = [k / STEPS for k in range(STEPS + 1)]
    return max(shares, key=lambda share: _depth_m(fence, begin + share * (end - begin)))
