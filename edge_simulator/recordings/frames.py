"""Frames out of a recorded drive: what the recording lacks is worked out from what it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from geopy.distance import geodesic

from edge_simulator.geo import bearing_deg
from edge_simulator.recordings.drives import GAP, Drive, Row, spacing_ms
from infra.contract import frame
from infra.contract.signals import BY_NAME, FAST, SLOW

SAMPLES = 10
OFF_GRID = 0.1  # A row joins a frame when it is within this share of the spacing from its place in it
MOVED_M = 3.0
"""A position nearer than this to the last is the receiver catching up or trembling: the heading is held."""

_ALWAYS = frozenset((
    "speed_kmh", "lat_deg", "lon_deg", "heading_deg", "accel_long_mps2", "altitude_m", "ambient_temp_c",
    "soc_pct", "speed_limit_kmh", "gear", "odometer_m",
))  # fmt: skip
"""Signals that a drive's frames have even where they are not available."""
Values = dict[str, list[float | None]]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A drive ready to send: times (recorded, UTC ms) and columns on the wire's steps."""

    vehicle_id: str
    drive: Drive
    t_ms: list[int]
    dt_ms: int  # the usual spacing of the rows
    columns: Values
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
        """The frame of ``rows``, with all times moved by ``shift_ms``."""
        body: dict[str, Any] = {
            "schema": frame.SCHEMA, "vehicle_id": self.vehicle_id, "boot_id": boot_id, "seq": seq,
            "t0_ms": self.t_ms[rows.start] + shift_ms, "dt_ms": self.dt_ms, "n": len(rows),
            "sent_ms": sent_ms, "ignition_on": True,
        }  # fmt: skip
        for signal in FAST:
            if signal.name in self.columns:
                body[signal.name] = [self.columns[signal.name][k] for k in rows]
        for signal in SLOW:
            if signal.name in self.columns:
                value = self._newest(signal.name, rows)
                flag = signal.kind == "flag" and value is not None
                body[signal.name] = bool(value) if flag else value
        return frame.encode(body)

    def _newest(self, name: str, rows: range) -> float | None:
        for k in reversed(rows):
            if self.columns[name][k] is not None:
                return self.columns[name][k]
        return None


def prepare(drive: Drive) -> Prepared:
    """What of a drive does not depend on when it is sent; a measured signal goes before a worked-out one."""
    rows = drive.rows
    t_ms = [row.t_ms for row in rows]
    dt_ms = spacing_ms(t_ms)
    measured = {name for row in rows for name, value in row.values.items() if value is not None}
    columns: Values = {name: [row.values.get(name) for row in rows] for name in _ALWAYS | measured}
    odometer, accels = _by_speed(rows, t_ms, dt_ms)
    worked_out: Values = {
        "odometer_m": [*odometer], "heading_deg": _headings(rows), "accel_long_mps2": accels,
    }  # fmt: skip
    columns |= {name: column for name, column in worked_out.items() if name not in measured}
    return Prepared(
        vehicle_id=drive.vehicle_id, drive=drive, t_ms=t_ms, dt_ms=min(dt_ms, frame.MAX_DT_MS),
        columns={name: _stepped(name, column) for name, column in columns.items()},
        speed_distance_m=round(odometer[-1], 1), trace_m=round(_trace_m(rows), 1),
    )  # fmt: skip


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


def _by_speed(rows: Sequence[Row], t_ms: Sequence[int], dt_ms: int) -> tuple[list[float], list[float | None]]:
    """Distance driven (trapezoids), m, and acceleration, m/s2, by the speed; none across a gap."""
    kmh = [row.values.get("speed_kmh") for row in rows]
    v = np.array([np.nan if value is None else value for value in kmh]) / 3.6
    steps_ms = np.diff(t_ms)
    joined = ~np.isnan(v[:-1] + v[1:]) & (steps_ms <= GAP * dt_ms)
    metres = np.where(joined, (v[:-1] + v[1:]) / 2 * (steps_ms / 1000), 0.0)
    accel = (np.diff(v) / (steps_ms / 1000)).tolist()
    accels = [a if both else None for a, both in zip(accel, joined, strict=True)]
    return np.cumsum([0.0, *metres]).tolist(), [None, *accels]


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
