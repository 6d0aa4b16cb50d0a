"""Frames out of a recorded drive: what the recording lacks is worked out from what it has."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from geopy.distance import geodesic

from edge_simulator.geo import Floats, Ints, bearing_rad, metres_per_degree
from edge_simulator.recordings.drives import GAP, Drive, Row, signal_of, spacing_ms
from edge_simulator.scenario import SAMPLES
from infra.contract import frame
from infra.contract.signals import BY_NAME, FAST, JUMP_M, SLOW, TOP_MPS

OFF_GRID = 0.1  # A row joins a frame when it is within this share of the spacing from its place in it
FASTER = 1.5  # a vehicle may have driven so much further than its speed signal says
SPAN_MS = 20_000  # a frame of more is late when its last sample is taken, or nearly so
MOVED_M = 3.0  # a position nearer than this is the receiver catching up or trembling: the heading is held

_ALWAYS = frozenset((
    "speed_kmh", "lat_deg", "lon_deg", "heading_deg", "accel_long_mps2", "altitude_m", "ambient_temp_c",
    "soc_pct", "speed_limit_kmh", "gear", "odometer_m",
))  # fmt: skip
"""Signals that a drive's frames have even where they are not available."""
Values = list[float | None]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A drive ready to send: times (recorded, UTC ms) and columns on the wire's steps.

    ``jumps``: fixes that were left out because the vehicle cannot have been there, by line.
    """

    drive: Drive
    t_ms: list[int]
    dt_ms: int  # the usual spacing of the rows
    columns: dict[str, Values]
    speed_distance_m: float
    trace_m: float
    jumps: Sequence[str]

    def groups(self) -> list[range]:
        """Indices of the rows of each frame: up to 10 rows evenly spaced; a gap begins a new one."""
        found: list[range] = []
        begin, most = 0, max(1, min(SAMPLES, SPAN_MS // self.dt_ms))
        for k in range(1, len(self.t_ms) + 1):
            last = k == len(self.t_ms)
            place = self.t_ms[begin] + (k - begin) * self.dt_ms
            if last or k - begin == most or abs(self.t_ms[k] - place) > OFF_GRID * self.dt_ms:
                found.append(range(begin, k))
                begin = k
        return found

    def frame(self, rows: range, seq: int, boot_id: int, shift_ms: int, sent_ms: int) -> bytes:
        """The frame of ``rows``, all times moved by ``shift_ms``; slow signals have their newest value.

        In the last frame the ignition is off, whatever was recorded: a recording's end is no silence. Before
        it is on where it was not recorded.
        """
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
        body["ignition_on"] = body["ignition_on"] and rows.stop < len(self.t_ms)
        return frame.encode(body)


def prepare(drive: Drive) -> Prepared:
    """What of a drive does not depend on when it is sent; a measured signal goes before a worked-out one."""
    rows, jumps = _without_jumps(drive.rows)
    t_ms = [row.t_ms for row in rows]
    dt_ms = spacing_ms(t_ms)
    measured = {name for row in rows for name, value in row.values.items() if value is not None}
    columns: dict[str, Values] = {n: [row.values.get(n) for row in rows] for n in _ALWAYS | measured}
    # by the speed: distance driven (trapezoids), m, and acceleration, m/s2; none across a gap. Loggers repeat
    # a reading until a new one comes: a change belongs to all the time since the one before
    v = np.array(columns["speed_kmh"], dtype=np.float64) / 3.6
    steps_ms = np.diff(t_ms)
    joined = ~np.isnan(v[:-1] + v[1:]) & (steps_ms <= GAP * dt_ms)
    metres = np.where(joined, (v[:-1] + v[1:]) / 2 * (steps_ms / 1000), 0.0)
    odometer = np.cumsum([0.0, *metres]).tolist()
    fresh = np.concatenate([[True], (np.diff(v) != 0) | ~joined])
    since = np.maximum.accumulate(np.where(fresh, np.arange(len(v)), 0))[:-1]
    passed_s = (np.array(t_ms)[1:] - np.array(t_ms)[since]) / 1000
    accels = zip((np.diff(v) / passed_s).tolist(), joined, strict=True)
    headings, trace_m = _track(rows)
    worked_out: dict[str, Values] = {
        "odometer_m": odometer, "heading_deg": headings,
        "accel_long_mps2": [None, *(a if both else None for a, both in accels)],
    }  # fmt: skip
    columns |= {name: column for name, column in worked_out.items() if name not in measured}
    stepped = {name: [_stepped(name, value) for value in column] for name, column in columns.items()}
    dt_ms = min(dt_ms, frame.MAX_DT_MS)
    return Prepared(drive, t_ms, dt_ms, stepped, round(odometer[-1], 1), round(trace_m, 1), jumps)


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


def _without_jumps(rows: Sequence[Row]) -> tuple[Sequence[Row], list[str]]:
    """Rows without the fixes where the vehicle cannot have been, and these named by line.

    Fixes that a vehicle can drive between are a run. Of the runs those count that lie within reach of each
    other and have the most fixes.
    """
    lat, lon = signal_of(rows, "lat_deg"), signal_of(rows, "lon_deg")
    at = np.flatnonzero(~np.isnan(lat + lon))
    moved = np.flatnonzero((np.diff(lat[at], prepend=np.inf) != 0) | (np.diff(lon[at], prepend=np.inf) != 0))
    fixes = at[moved]
    reach_m = _reach_m(rows)

    def within(a: Ints, b: Ints) -> Floats:
        """Metres by which b lies within reach of a, an earlier fix; negative: beyond."""
        north, east = metres_per_degree((lat[a] + lat[b]) / 2)
        across = (lon[b] - lon[a] + 540) % 360 - 180
        return JUMP_M + reach_m[b] - reach_m[a] - np.hypot((lat[b] - lat[a]) * north, across * east)

    begins = np.flatnonzero(np.append(True, within(fixes[:-1], fixes[1:]) < 0)) if len(fixes) else fixes
    if len(begins) < 2:
        return rows, []
    counts = np.diff(begins, append=len(fixes))
    firsts, lasts = fixes[begins], fixes[begins + counts - 1]
    best, before = counts.copy(), np.full(len(begins), -1)
    for run in range(1, len(begins)):
        chained = np.where(within(lasts[:run], firsts[run : run + 1]) >= 0, best[:run], 0)
        if chained.max() > 0:
            before[run] = chained.argmax()
            best[run] += chained.max()
    kept = {run := int(best.argmax())}
    while before[run] >= 0:
        kept.add(run := int(before[run]))
    last_fix = np.searchsorted(moved, np.arange(len(at)), side="right") - 1
    runs = np.searchsorted(begins, last_fix, side="right") - 1
    lost = dict.fromkeys(("lat_deg", "lon_deg"))
    cleaned, named, last = [*rows], list[str](), int(lasts[min(kept)])
    for run, row in zip(runs.tolist(), at.tolist(), strict=True):
        if run in kept:
            last = row
            continue
        beyond_km = -float(within(*np.sort([[last], [row]], axis=0))[0]) / 1000
        named.append(f"{rows[row].line}: fix {beyond_km:.1f} km out of reach")
        cleaned[row] = replace(rows[row], values={**rows[row].values, **lost})
    return cleaned, named


def _reach_m(rows: Sequence[Row]) -> Floats:
    """How far the vehicle can have come by each row, m: by its speed and a margin, else at its fastest."""
    t_ms = np.array([row.t_ms for row in rows], np.float64)
    v = signal_of(rows, "speed_kmh") / 3.6
    steps_ms = np.diff(t_ms)
    can = np.minimum(FASTER * np.fmax(v[:-1], v[1:]), TOP_MPS)
    unknown = np.isnan(can) | (steps_ms > GAP * spacing_ms(t_ms.tolist()))
    return np.cumsum([0.0, *(np.where(unknown, TOP_MPS, can) * steps_ms / 1000)])
