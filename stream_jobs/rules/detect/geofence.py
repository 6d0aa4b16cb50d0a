"""Fences: in and out by the way between two positions, with a margin against a receiver's noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from stream_jobs.frames.arrays import Flags
from stream_jobs.rules.detect.base import Detection, Detections, Detector, Memory
from stream_jobs.rules.inputs import RuleEvaluation
from stream_jobs.rules.model import Fence
from stream_jobs.vehicles.rounds import Round

M_PER_DEG: Final = 111_194.93
"""Metres in a degree of latitude on a sphere of 6,371 km."""

Flat = tuple[float, float]


class Was(NamedTuple):
    """A memory: the last position and its time; by fence whether inside (None: not sure yet) and raised."""

    lat_deg: float
    lon_deg: float
    at_ms: int
    inside: tuple[bool | None, ...]
    raised: tuple[bool, ...]


class Now(NamedTuple):
    """A position and its time."""

    lat_deg: float
    lon_deg: float
    at_ms: int


@dataclass(frozen=True, slots=True)
class GeofenceDetector(Detector):
    """Found at the crossing, ended at the crossing back; a passage between two positions is both at once.

    A vehicle is inside from ``margin_m`` within the border on, outside from ``margin_m`` beyond it, and
    between them where it was. Where it was first seen is no crossing. ``rare`` has a ``Was`` of each vehicle.
    """

    fences: tuple[Fence, ...]
    on_enter: bool
    margin_m: float
    gap_ms: int

    def relevant(self, said: RuleEvaluation) -> Flags:
        """See Detector."""
        holds_or_unknown: Flags = said.holds >= 0
        return holds_or_unknown

    def step(self, memory: Memory, frames: Round, said: RuleEvaluation) -> Detections:  # noqa: ARG002  the protocol's
        """See Detector."""
        lat, lon, end_ms = frames["lat_deg"], frames["lon_deg"], frames["end_ms"]
        lanes = np.flatnonzero(~np.isnan(lat) & ~np.isnan(lon))
        found: Detections = []
        for lane in lanes.tolist():
            now = Now(float(lat[lane]), float(lon[lane]), int(end_ms[lane]))
            place = int(frames.places[lane])
            found += [(lane, each) for each in self._at(memory, place, now)]
        memory.on[frames.places[lanes]] = True
        return found

    def _at(self, memory: Memory, place: int, now: Now) -> Sequence[Detection]:
        before = memory.rare.get(place)
        unknown = (None,) * len(self.fences)
        was = Was(*now, unknown, (False,) * len(self.fences)) if before is None else Was(*before)
        if now.at_ms < was.at_ms:
            return ()
        inside, raised, found = list(was.inside), list(was.raised), list[Detection]()
        for k, fence in enumerate(self.fences):
            inside[k], raised[k], more = self._cross(fence, was, k, now)
            found.extend(more)
        memory.rare[place] = Was(*now, tuple(inside), tuple(raised))
        return found

    def _cross(
        self, fence: Fence, was: Was, k: int, to: Now
    ) -> tuple[bool | None, bool, Sequence[Detection]]:
        path = _flat(fence, (was.lat_deg, was.lon_deg)), _flat(fence, (to.lat_deg, to.lon_deg))
        before, raised = was.inside[k], was.raised[k]
        depth_m = _depth_m(fence, path[1])
        now = depth_m > 0 if abs(depth_m) >= min(self.margin_m, _reach_m(fence)) else before
        if before is None or now is None:
            return now, raised, ()
        if now == before:
            through = self.on_enter and not now and to.at_ms - was.at_ms <= self.gap_ms
            return now, raised, self._passage(fence, path, was.at_ms, to.at_ms) if through else ()
        at_ms = self._at_ms(fence, path, was.at_ms, to.at_ms)
        if now == self.on_enter:
            return now, True, (Detection(at_ms, at_ms, None, None, detail=fence.name, part=fence.name),)
        ended = Detection(at_ms, at_ms, None, None, detail=fence.name, part=fence.name, ended=True)
        return now, False, (ended,) if raised else ()

    def _passage(
        self, fence: Fence, path: tuple[Flat, Flat], from_ms: int, to_ms: int
    ) -> Sequence[Detection]:
        """In and out between two positions: deep enough to be no graze."""
        share = _deepest(fence, path)
        deep = (
            path[0][0] + share * (path[1][0] - path[0][0]),
            path[0][1] + share * (path[1][1] - path[0][1]),
        )
        if _depth_m(fence, deep) < min(self.margin_m, _reach_m(fence)):
            return ()
        at_ms = from_ms + round(share * (to_ms - from_ms))
        first = Detection(at_ms, at_ms, None, None, detail=f"{fence.name}, passed through", part=fence.name)
        return first, Detection(to_ms, at_ms, None, None, detail=fence.name, part=fence.name, ended=True)

    def _at_ms(self, fence: Fence, path: tuple[Flat, Flat], from_ms: int, to_ms: int) -> int:
        """When the border was crossed, by halving the way; the later position where there was a gap."""
        begin_in, end_in = (_depth_m(fence, point) > 0 for point in path)
        if begin_in == end_in or to_ms - from_ms > self.gap_ms:
            return to_ms
        low, high = 0.0, 1.0
        for _ in range(20):
            mid = (low + high) / 2
            point = tuple(a + mid * (b - a) for a, b in zip(*path, strict=True))
            if (_depth_m(fence, (point[0], point[1])) > 0) == begin_in:
                low = mid
            else:
                high = mid
        return from_ms + round(high * (to_ms - from_ms))


def _flat(fence: Fence, point: tuple[float, float]) -> Flat:
    """Metres east and north of the fence's first point; east is taken the short way round."""
    lat0, lon0 = fence.points[0]
    east = (point[1] - lon0 + 180) % 360 - 180
    return east * M_PER_DEG * math.cos(math.radians(lat0)), (point[0] - lat0) * M_PER_DEG


def _reach_m(fence: Fence) -> float:
    """Half of the least depth a fence's middle has: the margin of a small fence cannot be more."""
    if fence.radius_m is not None:
        return fence.radius_m / 2
    flat = [_flat(fence, point) for point in fence.points]
    width = max(p[0] for p in flat) - min(p[0] for p in flat)
    height = max(p[1] for p in flat) - min(p[1] for p in flat)
    return min(width, height) / 4


def _depth_m(fence: Fence, point: Flat) -> float:
    """Distance to the border, m; positive inside."""
    if fence.radius_m is not None:
        return fence.radius_m - math.hypot(*point)
    flat = [_flat(fence, corner) for corner in fence.points]
    edges = list(zip(flat, [*flat[1:], flat[0]], strict=True))
    distance = min(_distance_m(point, a, b) for a, b in edges)
    crossings = sum(
        (a[1] > point[1]) != (b[1] > point[1])
        and point[0] < (b[0] - a[0]) * (point[1] - a[1]) / (b[1] - a[1]) + a[0]
        for a, b in edges
    )
    return distance if crossings % 2 else -distance


def _distance_m(point: Flat, a: Flat, b: Flat) -> float:
    """From a point to the stretch from ``a`` to ``b``."""
    dx, dy = b[0] - a[0], b[1] - a[1]
    length2 = dx * dx + dy * dy
    along = 0.0 if length2 == 0 else ((point[0] - a[0]) * dx + (point[1] - a[1]) * dy) / length2
    along = min(1.0, max(0.0, along))
    return math.hypot(point[0] - a[0] - along * dx, point[1] - a[1] - along * dy)


def _deepest(fence: Fence, path: tuple[Flat, Flat]) -> float:
    """Where on the way (0..1) it was deepest inside: exact for a circle, by 32 steps for a polygon."""
    (x0, y0), (x1, y1) = path
    dx, dy = x1 - x0, y1 - y0
    if fence.radius_m is not None:
        length2 = dx * dx + dy * dy
        return 0.0 if length2 == 0 else min(1.0, max(0.0, -(x0 * dx + y0 * dy) / length2))
    shares = [k / 32 for k in range(33)]
    return max(shares, key=lambda share: _depth_m(fence, (x0 + share * dx, y0 + share * dy)))
