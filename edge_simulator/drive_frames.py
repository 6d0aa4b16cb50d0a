"""Frames out of a recorded drive: what the recording lacks is worked out from what it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from geopy.distance import geodesic

from edge_simulator import vin
from edge_simulator.drives import Drive, Row
from edge_simulator.geo import bearing_deg
from infra.contract import frame
from infra.contract.signals import BY_NAME

SAMPLES = 10
DT_MS = 1000
MOVED_M = 3.0
"""A position nearer than this to the last is the receiver catching up or trembling: the heading is held."""

_FAST = ("speed_kmh", "lat_deg", "lon_deg", "heading_deg", "accel_long_mps2")
_SLOW = ("altitude_m", "ambient_temp_c", "soc_pct", "speed_limit_kmh", "gear", "odometer_m")
Values = dict[str, list[float | None]]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A drive ready to send: times (recorded, UTC ms) and columns on the wire's steps."""

    vehicle_id: str
    drive: Drive
    t_ms: list[int]
    columns: Values
    speed_distance_m: float
    trace_m: float

    def groups(self) -> list[range]:
        """Indices of the rows of each frame: up to 10 rows one second apart; a gap begins a new one."""
        found: list[range] = []
        begin = 0
        for k in range(1, len(self.t_ms) + 1):
            last = k == len(self.t_ms)
            if last or k - begin == SAMPLES or self.t_ms[k] - self.t_ms[k - 1] != DT_MS:
                found.append(range(begin, k))
                begin = k
        return found

    def frame(self, rows: range, seq: int, boot_id: int, shift_ms: int, sent_ms: int) -> bytes:
        """The frame of ``rows``, with all times moved by ``shift_ms``."""
        body: dict[str, Any] = {
            "schema": frame.SCHEMA, "vehicle_id": self.vehicle_id, "boot_id": boot_id, "seq": seq,
            "t0_ms": self.t_ms[rows.start] + shift_ms, "dt_ms": DT_MS, "n": len(rows), "sent_ms": sent_ms,
        }  # fmt: skip
        body |= {name: [self.columns[name][k] for k in rows] for name in _FAST}
        body |= {name: self._newest(name, rows) for name in _SLOW}
        return frame.encode(body | {"ignition_on": True})

    def _newest(self, name: str, rows: range) -> float | None:
        for k in reversed(rows):
            if self.columns[name][k] is not None:
                return self.columns[name][k]
        return None


def prepare(drive: Drive) -> Prepared:
    """Everything of a drive that does not depend on when it is sent."""
    rows = drive.rows
    columns: Values = {
        name: [row.values.get(name) for row in rows] for name in BY_NAME if name in rows[0].values
    }
    odometer = _odometer(rows)
    columns["odometer_m"] = list(odometer)
    columns["heading_deg"] = _headings(rows)
    columns["accel_long_mps2"] = _accelerations(rows)
    absent: list[float | None] = [None] * len(rows)
    stepped = {name: _stepped(name, columns.get(name, absent)) for name in (*_FAST, *_SLOW)}
    return Prepared(
        vehicle_id=vin.make(drive.name),
        drive=drive,
        t_ms=[row.t_ms for row in rows],
        columns=stepped,
        speed_distance_m=round(odometer[-1], 1),
        trace_m=round(_trace_m(rows), 1),
    )


def _stepped(name: str, values: Sequence[float | None]) -> list[float | None]:
    """Values on the signal's steps; what is out of range (a worked-out one too) is not available."""
    signal = BY_NAME[name]
    steps = signal.steps_per_unit
    found: list[float | None] = []
    for value in values:
        inside = value is not None and signal.minimum <= value <= signal.maximum
        stepped = round(value * steps) / steps if value is not None and inside else None
        found.append(int(stepped) if stepped is not None and steps == 1 else stepped)
    return found


def _odometer(rows: Sequence[Row]) -> list[float]:
    """Distance since the drive's begin by the speed's integral (trapezoids; none across a gap)."""
    total, found = 0.0, [0.0]
    for before, row in pairwise(rows):
        a, b = before.values.get("speed_kmh"), row.values.get("speed_kmh")
        if a is not None and b is not None and row.t_ms - before.t_ms == DT_MS:
            total += (a + b) / 2 / 3.6
        found.append(total)
    return found


def _accelerations(rows: Sequence[Row]) -> list[float | None]:
    found: list[float | None] = [None]
    for before, row in pairwise(rows):
        a, b = before.values.get("speed_kmh"), row.values.get("speed_kmh")
        joined = a is not None and b is not None and row.t_ms - before.t_ms == DT_MS
        found.append((b - a) / 3.6 if joined and a is not None and b is not None else None)
    return found


def _headings(rows: Sequence[Row]) -> list[float | None]:
    """Bearing of each movement of at least MOVED_M, held in between; None before the first."""
    found: list[float | None] = []
    anchor: tuple[float, float] | None = None
    heading: float | None = None
    for row in rows:
        lat, lon = row.values.get("lat_deg"), row.values.get("lon_deg")
        if lat is not None and lon is not None:
            if anchor is None:
                anchor = (lat, lon)
            elif geodesic(anchor, (lat, lon)).m >= MOVED_M:
                arrow = bearing_deg(*(np.array(v) for v in (*anchor, lat, lon)))
                heading, anchor = round(float(arrow), 1) % 360.0, (lat, lon)
        found.append(heading)
    return found


def _trace_m(rows: Sequence[Row]) -> float:
    """Geodesic length of the recorded positions."""
    total, last = 0.0, None
    for row in rows:
        here = (row.values.get("lat_deg"), row.values.get("lon_deg"))
        if None not in here and here != last:
            total += geodesic(last, here).m if last is not None else 0.0
            last = here
    return total
