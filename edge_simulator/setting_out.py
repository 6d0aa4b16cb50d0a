"""From a scenario file to a run: what it says, what the settings say, and what time it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from edge_simulator import faults, scenario_file
from edge_simulator.edr.recorder import PROFILES, Setup
from edge_simulator.scenario import SAMPLES, Cadence, Scenario, cadence
from edge_simulator.scenario_file import WEEKDAYS, ScenarioFile
from edge_simulator.telemetry.gnss import GnssSettings
from edge_simulator.wireless.settings import from_mapping
from infra.contract.errors import ConfigError
from infra.settings.settings import Settings

DAY_DEFAULTS = {"profile": "day", "interval": "10s", "step": "500ms", "parked_every": "10m"}
"""What a whole day is made with unless its scenario or the options say otherwise."""


def read(
    name_or_path: str | None,
    settings: Settings,
    options: Mapping[str, Any],
    start_ms: int | None = None,
    day: str | None = None,
) -> Scenario:
    """The run that a scenario by name or file describes, with options set over it; see ``scenario``.

    Raises ConfigError naming file, key and what would be right.
    """
    file = scenario_file.load(name_or_path, options, DAY_DEFAULTS if day else None)
    try:
        return scenario(file, settings, start_ms, day)
    except ConfigError as error:
        if name_or_path is None:
            raise
        raise ConfigError(f"--scenario {name_or_path}: {error}") from error


def scenario(file: ScenarioFile, settings: Settings, start_ms: int | None, day: str | None) -> Scenario:
    """The run that a scenario file describes. Raises ConfigError.

    ``start_ms`` None begins one frame before now; ``day`` (2026-11-20) is a whole day in the settings' zone.
    """
    schedule = file.schedule()
    beat = cadence(file.vehicles, file.rate, file.interval)
    schedule.check(1000 * file.vehicles / beat.interval_ms)
    length_ms = file.duration or schedule.span_ms or None
    zone = _zone(settings.tz)
    if day is not None:
        start_ms, whole_ms = _midnights(day, zone)
        length_ms = min(whole_ms, length_ms or whole_ms)
    begin_ms = start_ms if start_ms is not None else _now_ms() - SAMPLES * beat.dt_ms
    here = datetime.fromtimestamp(begin_ms / 1000, zone)
    clock_s = file.clock.begins if file.clock.begins is not None else _since_midnight_s(here)
    return Scenario(
        seed=file.seed, vehicles=file.vehicles, cadence=beat, start_ms=begin_ms, limit=file.limit,
        frames_per_vehicle=None if length_ms is None else max(1, length_ms // beat.interval_ms),
        lat_deg=file.place.lat, lon_deg=file.place.lon, ambient_c=file.ambient_c,
        lateness_ms=1000 * settings.jobs.lateness_s, faults=faults.read_all(file.faults),
        link=from_mapping(file.link, "link"), gnss=_receivers(file),
        profile=file.profile, begins_at_s=0.0 if day is not None else clock_s,
        weekday=WEEKDAYS.index(file.clock.weekday) if file.clock.weekday else here.weekday(),
        parked_every_ms=file.parked_every, schedule=schedule, longest_step_ms=_step_ms(file, beat),
        truth_edges=file.truth_edges, recorders=_recorders(file, settings),
    )  # fmt: skip


def _receivers(file: ScenarioFile) -> GnssSettings:
    known = {f.name: f.default for f in fields(GnssSettings)}
    for key, value in file.gnss.items():
        if key not in known:
            raise ConfigError(f"gnss.{key}: unknown key; there are {', '.join(known)}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"gnss.{key} {value!r}: a number is wanted")
    return GnssSettings(**file.gnss)


def _recorders(file: ScenarioFile, settings: Settings) -> Setup:
    wanted = file.recorders
    chunk_bytes = wanted.chunk_bytes or settings.mqtt.crash_chunk_bytes
    return Setup(PROFILES[wanted.profile], wanted.keep_pulse, chunk_bytes)


def _step_ms(file: ScenarioFile, beat: Cadence) -> int:
    if not 1 <= file.step <= 500:
        raise ConfigError(f"step {file.step} ms: 1ms to 500ms is wanted; beyond it drivers react too late")
    return min(file.step, beat.dt_ms)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ConfigError(
            f"tz {name!r}: no such time zone; a name such as Europe/Berlin is wanted"
        ) from error


def _midnights(day: str, zone: ZoneInfo) -> tuple[int, int]:
    """Begin of a local day, and its length, ms: 23 or 25 hours when clocks change."""
    try:
        first = date.fromisoformat(day)
    except ValueError as error:
        raise ConfigError(f"--day {day}: a date such as 2026-11-20 is wanted") from error
    begin, end = (
        round(datetime.combine(d, time(), zone).astimezone(UTC).timestamp() * 1000)
        for d in (first, first + timedelta(days=1))
    )
    return begin, end - begin


def _since_midnight_s(here: datetime) -> float:
    return here.hour * 3600.0 + here.minute * 60.0 + here.second


def _now_ms() -> int:
    return round(datetime.now(UTC).timestamp() * 1000)
