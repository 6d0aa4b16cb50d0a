"""Road cells from the definitions."""

from __future__ import annotations

import zlib

import h3

from load_tests.oracle.samples import Limits, Row, Sample


def cell_of(sample: Sample) -> tuple[str, int] | None:
    """Road cell and direction of a sample; None where it does not count."""
    v = sample.values
    lat, lon, heading = v["lat_deg"], v["lon_deg"], v["heading_deg"]
    if not v["ignition_on"] or lat is None or lon is None or v["speed_kmh"] is None:
        return None
    sector = -1 if heading is None else (heading + 450) // 900 % 4
    return h3.latlng_to_cell(lat / 1e6, lon / 1e6, 9), sector


def road_row(members: list[tuple[str, Sample]], limits: Limits) -> Row:
    """The row of a cell and direction, or of an edge, and a window out of its samples and their vehicles."""
    steps_ms = sum((s.values["speed_kmh"] or 0) * s.dt_ms for _, s in members)
    time_ms = sum(s.dt_ms for _, s in members)
    return {
        "window_s": limits.road_window_ms // 1000,
        "vehicles": len({vehicle for vehicle, _ in members}),
        "vehicle_bits": sum({1 << zlib.crc32(vehicle.encode()) % 63 for vehicle, _ in members}),
        "samples": len(members),
        "distance_m": steps_ms / 360_000,
        "time_s": time_ms / 1000,
        "speed_kmh": steps_ms / (time_ms * 100),
    }
