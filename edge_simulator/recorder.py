"""The event data recorder: 20 s of pre-crash samples in a ring, and the record that a crash makes of them.

Profile ``us563_2024``: 200 samples at 10 Hz up to time zero, 26 delta-V points every 10 ms after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import orjson

from edge_simulator.geo import Floats
from edge_simulator.pulse import POINT_MS, Finding
from infra.contract.frame import SCHEMA
from infra.contract.messages import PRE_CRASH, crash_digest

PROFILE = "us563_2024"
SAMPLES = 200
SAMPLE_MS = 100
AIRBAG_KMH = 20.0
_STEPS = {"speed_kmh": 1, "accelerator_pct": 1, "engine_rpm": 100, "steering_deg": 5}
"""Resolution of the recorded elements, table III of 49 CFR 563.8."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What the recorder knows of a crash besides its ring."""

    vehicle_id: str
    boot_id: int
    seq: int
    event_ms: int
    lat_deg: float
    lon_deg: float
    belt_on: bool
    has_engine: bool
    ignition_cycle: int


class Ring:
    """The last 20 s of the pre-crash elements of all vehicles; one column each, oldest overwritten."""

    def __init__(self, n_vehicles: int, spacing_ms: float) -> None:
        self._slots = int(np.ceil(SAMPLES * SAMPLE_MS / spacing_ms)) + 2
        self._values = np.zeros((self._slots, len(PRE_CRASH), n_vehicles), dtype=np.float32)
        self._time_ms = np.full(self._slots, -np.inf)
        self._next = 0

    def record(self, t_ms: float, columns: Mapping[str, Floats]) -> None:
        """Add one sample of every vehicle; ``columns`` holds the PRE_CRASH elements, [n_vehicles] each."""
        for k, name in enumerate(PRE_CRASH):
            self._values[self._next, k] = columns[name]
        self._time_ms[self._next] = t_ms
        self._next = (self._next + 1) % self._slots

    def harvest(self, vehicle: int, zero_ms: float) -> dict[str, Floats]:
        """The elements at 10 Hz up to time zero, oldest first; the last one held up to time zero."""
        order = np.argsort(self._time_ms, kind="stable")
        order = order[np.isfinite(self._time_ms[order])]
        wanted = zero_ms - SAMPLE_MS * np.arange(SAMPLES - 1, -1, -1)
        place = np.searchsorted(self._time_ms[order], wanted + 1e-6, side="right") - 1
        rows = order[np.maximum(place, 0)]
        table = self._values[rows, :, vehicle].astype(np.float64)
        table[place < 0] = np.nan
        return {name: table[:, k] for k, name in enumerate(PRE_CRASH)}


def record(scene: Scene, table: Mapping[str, Floats], finding: Finding) -> bytes:
    """The crash message: a sealed record as JSON."""
    deployed = abs(finding.max_kmh) >= AIRBAG_KMH
    body = {
        "schema": SCHEMA,
        "vehicle_id": scene.vehicle_id,
        "boot_id": scene.boot_id,
        "seq": scene.seq,
        "crash_id": f"{scene.boot_id}-{scene.seq}",
        "event_ms": scene.event_ms,
        "sent_ms": scene.event_ms + 250,
        "profile": PROFILE,
        "pre_crash_dt_ms": SAMPLE_MS,
        "pre_crash": {name: _element(name, table[name], scene.has_engine) for name in PRE_CRASH},
        "delta_v_dt_ms": POINT_MS,
        "delta_v_kmh": list(finding.delta_v_kmh),
        "delta_v_lat_kmh": None,
        "delta_v_max_kmh": finding.max_kmh,
        "delta_v_max_ms": finding.max_ms,
        "airbag_deployed": deployed,
        "airbag_ms": 22 if deployed else None,
        "belt_on": scene.belt_on,
        "warning_lamp_on": False,
        "ignition_cycle": scene.ignition_cycle,
        "multi_event": 1,
        "complete": not bool(np.isnan(table["speed_kmh"]).any()),
        "lat_deg": round(scene.lat_deg, 6),
        "lon_deg": round(scene.lon_deg, 6),
    }
    return orjson.dumps(body | {"sha256": crash_digest(body)})


def _element(name: str, values: Floats, has_engine: bool) -> list[float | bool | None]:
    if name == "engine_rpm" and not has_engine:
        return [None] * len(values)
    step = _STEPS.get(name)
    if step is None:
        return [None if np.isnan(v) else bool(v) for v in values]
    return [None if np.isnan(v) else int(np.rint(v / step)) * step for v in values]
