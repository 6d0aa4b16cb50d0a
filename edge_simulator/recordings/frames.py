"""Frames out of a recorded drive: what the recording lacks is worked out from what it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from geopy.distance import geodesic

from edge_simulator.geo import bearing_rad
from edge_simulator.recordings.drives import GAP, Drive, Row, spacing_ms
from edge_simulator.scenario import SAMPLES
from infra.contract import frame
from infra.contract.signals import BY_NAME, FAST, SLOW

OFF_GRID = 0.1  # A row joins a frame when it is within this share of the spacing from its place in it
MOVED_M = 3.0  # a position nearer than this is the receiver catching up or trembling: the heading is held

_ALWAYS = frozenset((
    "speed_kmh", "lat_deg", "lon_deg", "heading_deg", "accel_long_mps2", "altitude_m", "ambient_temp_c",
    "soc_pct", "speed_limit_kmh", "gear", "odometer_m",
))  # fmt: skip
"""Signals that a drive's frames have even where they are not available."""
Values = list[float | None]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A drive ready to send: times (recorded, UTC ms) and columns on the wire's steps."""

    drive: Drive
    t_ms: list[int]
    dt_ms: int  # the usual spacing of the rows
    columns: dict[str, Values]
    speed_distance_m: float
    trace_m: float

    def groups(self) -> list[range]:
        """Indices of the rows of each frame: up to 10 rows evenly spaced; a gap begins a new one."""
        found: list[range] = []
        begin = 0
        for k in range(1, len(self.t_ms) + 1):
            last = k == len(self.t_ms)
            place = self.t_ms[begin] + (k - begin) * self.dt_ms
            if last or k - begin == SAMPLES or abs(self.t_ms[k] - place) > OFF_GRID * self.dt_ms:
                found.append(range(begin, k))
                begin = k
        return found

    def frame(self, rows: range, seq: int, boot_id: int, shift_ms: int, sent_ms: int) -> bytes:
        """The frame of ``rows``, all times moved by ``shift_ms``; slow signals have their newest value."""
        body: dict[str, Any] = {
            "schema": frame.SCHEMA, "vehicle_id": self.drive.vehicle_id, "boot_id": boot_id, "seq": seq,
            "t0_ms": self.t_ms[rows.start] + shift_ms, "dt_ms": self.dt_ms, "n": len(rows),
            "sent_ms": sent_ms, "ignition_on": True,
        }  # fmt: skip
        columns = {name: column[rows.start : rows.stop] for name, column in self.columns.items()}
        body |= {signal.name: columns[signal.name] for signal in FAST if signal.name in columns}
        for signal in (signal for signal in SLOW if signal.name in columns):
            newest = next((value for value in reversed(columns[signal.name]) if value is not None), None)
            body[signal.name] = bool(newest) if signal.kind == "flag" and newest is not None else newest
        return frame.encode(body)


def prepare(drive: Drive) -> Prepared:
    """What of a drive does not depend on when it is sent; a measured signal goes before a worked-out one."""
    rows = drive.rows
    t_ms = [row.t_ms for row in rows]
    dt_ms = spacing_ms(t_ms)
    measured = {name for row in rows for name, value in row.values.items() if value is not None}
    columns: dict[str, Values] = {n: [row.values.get(n) for row in rows] for n in _ALWAYS | measured}
    # by the speed: distance driven (trapezoids), m, and acceleration, m/s2; none across a gap
    v = np.array(columns["speed_kmh"], dtype=np.float64) / 3.6
    steps_ms = np.diff(t_ms)
    joined = ~np.isnan(v[:-1] + v[1:]) & (steps_ms <= GAP * dt_ms)
    metres = np.where(joined, (v[:-1] + v[1:]) / 2 * (steps_ms / 1000), 0.0)
    odometer = np.cumsum([0.0, *metres]).tolist()
    accels = zip((np.diff(v) / (steps_ms / 1000)).tolist(), joined, strict=True)
    headings, trace_m = _track(rows)
    worked_out: dict[str, Values] = {
        "odometer_m": odometer, "heading_deg": headings,
        "accel_long_mps2": [None, *(a if both else None for a, both in accels)],
    }  # fmt: skip
    columns |= {name: column for name, column in worked_out.items() if name not in measured}
    stepped = {name: [_stepped(name, value) for value in column] for name, column in columns.items()}
    dt_ms = min(dt_ms, frame.MAX_DT_MS)
    return Prepared(drive, t_ms, dt_ms, stepped, round(odometer[-1], 1), round(trace_m, 1))


def _stepped(name: str, value: float | None) -> float | None:
    """A value on its signal's steps; what is out of range (a worked-out one too) is not available."""
    signal = BY_NAME[name]
    if value is None or not signal.minimum <= value <= signal.maximum:
        return None
    steps = signal.steps_per_unit
    stepped = round(value * steps) / steps
    return int(stepped) if steps == 1 else stepped


def _track(rows: Sequence[Row]) -> tuple[Values, float]:
    """Bearing of each movement of at least MOVED_M, held in between (None before the first); the trace, m."""
    headings: Values = []
    anchor: tuple[float, float] | None = None
    last, trace_m = anchor, 0.0
    heading: float | None = None
    for row in rows:
        lat, lon = row.values.get("lat_deg"), row.values.get("lon_deg")
        if lat is not None and lon is not None and (lat, lon) != last:
            trace_m += geodesic(last, (lat, lon)).m if last is not None else 0.0
            last = (lat, lon)
            if anchor is None:
                anchor = last
            elif geodesic(anchor, last).m >= MOVED_M:
                bearing = bearing_rad(*(np.array(v) for v in (*anchor, lat, lon)))
                heading, anchor = round(float(np.degrees(bearing) % 360.0), 1) % 360.0, last
        headings.append(heading)
    return headings, trace_m
