"""Literal traces past one rule: beats a second apart unless said, and what was found, in seconds."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from infra.contract.settings import Settings
from stream_jobs.rules import Rule, load_rules
from stream_jobs.vehicles.beat import Beat, Reading
from stream_jobs.vehicles.core import Core
from stream_jobs.vehicles.limits import core_limits
from stream_jobs.vehicles.plugged import of_rules
from stream_jobs.vehicles.replay import replay
from stream_jobs.vehicles.rows import AlertRow
from stream_jobs.vehicles.said import as_said
from stream_jobs.vehicles.sequencer import Arrival

T0 = 1_790_000_000_000
NO = Reading(False, True, None, None)


def rule(folder: Path, **keys: Any) -> Rule:
    """A rule of a file, over `x` with the limit 100 unless said."""
    entry = {"id": "mine", "version": 1, "severity": "WARNING", "query": "vehicles", "message": "Mine"} | keys
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump({"rules": [{k: v for k, v in entry.items() if v is not None}]}))
    return load_rules(path)[0]


def beat(at_s: float, reading: Reading = NO, **changes: Any) -> Beat:
    """A frame that ends ``at_s`` seconds after T0 and is received then."""
    end_ms = T0 + round(1000 * at_s)
    head: dict[str, Any] = {
        "vehicle_id": "V", "boot_id": 1, "seq": round(at_s), "t0_ms": end_ms - 1000, "end_ms": end_ms,
        "received_ms": end_ms, "ignition_on": True, "lat_deg": None, "lon_deg": None, "heading_deg": None,
        "speed_kmh": None, "speed_max_kmh": None, "distance_m": None, "fuel_l": None, "energy_kwh": None,
        "said": as_said([reading]),
    }  # fmt: skip
    return Beat(**head | changes)


def level(value: float | None, limit: float = 100.0, clear: float = 100.0, **more: Any) -> Reading:
    """What Spark says of a value that is to stay below its limit."""
    if value is None:
        return Reading(None, None, None, limit, **more)
    return Reading(value > limit, value <= clear, value, limit, **more)


def found(of: Rule, beats: Iterable[Beat], until_s: float | None = None) -> list[AlertRow]:
    """What the rule's detector finds."""
    came = [Arrival(each.boot_id, each.seq, each.t0_ms, each.received_ms, each) for each in beats]
    until_ms = came[-1].received_ms if until_s is None else T0 + round(1000 * until_s)
    core = Core(core_limits(Settings()), of_rules([of]))
    return [row for row in replay(core, came, until_ms) if isinstance(row, AlertRow)]


def seconds(rows: Iterable[AlertRow]) -> list[float]:
    """Event times, s after T0; an end is negative."""
    return [(row.event_ms - T0) / 1000 * (-1 if row.ended else 1) for row in rows]
