"""Scenario files: a run in YAML, checked whole before anything starts; options are set over it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from edge_simulator.stages import Schedule, from_list
from infra.contract.errors import ConfigError
from infra.contract.messages import MIN_CHUNK_BYTES
from infra.settings.files import parse_yaml, read_yaml
from infra.settings.values import duration_ms

READY = Path(__file__).with_name("scenarios")
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def _time_of_day_s(value: object) -> float:
    """``07:30`` in seconds after midnight. YAML reads an unquoted 7:30 as 450: a number is minutes."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 24 * 60:
        value = f"{int(value) // 60:02d}:{int(value) % 60:02d}"
    hours, _, minutes = str(value).partition(":")
    if not (hours.isdecimal() and minutes.isdecimal() and int(hours) < 24 and int(minutes) < 60):
        raise ValueError(f"{value!r} is no time of day such as 07:30")
    return int(hours) * 3600.0 + int(minutes) * 60.0


def _length_ms(value: object) -> int:
    try:
        return duration_ms(str(value), "")
    except ConfigError as error:
        raise ValueError(str(error).partition(": ")[2]) from error


TimeOfDay = Annotated[float, BeforeValidator(_time_of_day_s)]
Length = Annotated[int, BeforeValidator(_length_ms)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Place(_Part):
    """Centre of the city, degrees."""

    lat: float = Field(48.137, ge=-80, le=80)
    lon: float = Field(11.575, ge=-179, le=179)


class Clock(_Part):
    """Local time of the simulated day at the run's begin; what is stamped stays true time."""

    begins: TimeOfDay | None = None
    weekday: Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"] | None = None


class StageEntry(_Part):
    """A stage as written: ``{for: 60s, rate: 100}`` or ``{for: 60s, ramp_to: 1000}``."""

    lasts: Length = Field(alias="for")
    rate: float | None = None
    ramp_to: float | None = None


class Recorders(_Part):
    """How event data recorders are set up; see recorder.Setup."""

    profile: Literal["us563_2006", "us563_2024"] = "us563_2024"
    keep_pulse: bool = False
    chunk_bytes: int | None = Field(None, ge=MIN_CHUNK_BYTES)


class ScenarioFile(_Part):
    """All that a scenario file may say; every key has a default."""

    title: str = ""
    seed: int = Field(1, ge=0)
    vehicles: int = Field(100, ge=1)
    rate: float | None = Field(None, gt=0)
    interval: Length | None = None
    duration: Length | None = None
    limit: int | None = Field(None, ge=1)
    step: Length = 100
    profile: Literal["steady", "day"] = "steady"
    parked_every: Length | None = None
    place: Place = Place()
    clock: Clock = Clock()
    recorders: Recorders = Recorders()
    truth_edges: bool = False
    ambient_c: float = Field(16.0, ge=-40, le=55)
    faults: tuple[str | dict[str, Any], ...] = ()
    link: dict[str, Any] = Field(default_factory=dict)
    gnss: dict[str, Any] = Field(default_factory=dict)
    stages: tuple[StageEntry, ...] = ()

    def schedule(self) -> Schedule:
        """The stages in order; raises ConfigError."""
        return from_list([(s.lasts, s.rate, s.ramp_to) for s in self.stages])


PARTS = ("link", "gnss", "place", "clock", "recorders")
"""Keys that hold keys: options are set over them one by one."""

_FIELDS = {
    "place": Place.model_fields,
    "clock": Clock.model_fields,
    "recorders": Recorders.model_fields,
    "stages": StageEntry.model_fields,
}


def ready() -> dict[str, Path]:
    """The scenarios that come with the simulator, by name."""
    return {path.stem: path for path in sorted(READY.glob("*.yaml"))}


def load(
    name_or_path: str | None, options: Mapping[str, Any], defaults: Mapping[str, Any] | None = None
) -> ScenarioFile:
    """A scenario by name or file over ``defaults``, with the ``options`` that are not None set over it.

    Raises ConfigError naming file, key and what would be right.
    """
    raw, where = ({}, "the options") if name_or_path is None else _read(name_or_path)
    given = _without_none(options)
    if "rate" in given or "interval" in given:
        raw = {key: value for key, value in raw.items() if key not in ("rate", "interval")}
    merged = {**(defaults or {}), **raw, **given}
    if merged.get("rate") is not None:
        merged.pop("interval", None) if "interval" not in given else None
    for part in PARTS:
        merged[part] = {**_mapping(where, part, raw.get(part)), **given.get(part, {})}
    try:
        found = ScenarioFile.model_validate(merged)
    except ValidationError as error:
        told = _told(error)
        raise ConfigError(f"{where}: {told}" if name_or_path else f"--{told}") from error
    return found


def settings_of(texts: Iterable[str]) -> dict[str, Any]:
    """Options such as ``link.outage_share=0.3`` as a scenario file would have them; raises ConfigError."""
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        part, dot, name = key.strip().partition(".")
        if not (equals and part) or (dot and part not in PARTS):
            raise ConfigError(
                f"--set {text}: KEY=VALUE is wanted, as ambient_c=-8, or PART.KEY=VALUE with one of "
                f"{', '.join(PARTS)}"
            )
        try:
            read = parse_yaml(value)
        except yaml.YAMLError as error:
            raise ConfigError(
                f"--set {text}: not readable as YAML ({' '.join(str(error).split())})"
            ) from error
        if dot:
            found.setdefault(part, {})[name] = read
        else:
            found[part] = read
    return found


def over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Options ``above`` set over those ``below``; what is None is not given."""
    low, high = _without_none(below), _without_none(above)
    parts = {part: {**low.get(part, {}), **high.get(part, {})} for part in PARTS}
    return {**low, **high, **parts}


def _without_none(options: Mapping[str, Any]) -> dict[str, Any]:
    """What was given; empty parts are left out."""
    found = {}
    for key, value in options.items():
        kept = _without_none(value) if isinstance(value, Mapping) else value
        if kept is not None and kept not in ((), {}):
            found[key] = kept
    return found


def _mapping(where: str, part: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where}: {part} {value!r}: keys with values are wanted")
    return value


def _read(name_or_path: str) -> tuple[dict[str, Any], str]:
    found = ready().get(name_or_path, Path(name_or_path))
    where = f"--scenario {name_or_path}"
    if not found.exists():
        raise ConfigError(f"{where}: no such scenario or file; ready ones: {', '.join(ready())}")
    raw = read_yaml(found, "--scenario")
    if not isinstance(raw, dict):
        raise ConfigError(f"{where}: a mapping of keys is wanted, as in: odograph scenarios show city-day")
    return raw, where


_LIMITS = {
    "greater_than": "more than {:g} is wanted",
    "greater_than_equal": "at least {:g} is wanted",
    "less_than_equal": "at most {:g} is wanted",
}


def _told(error: ValidationError) -> str:
    """The first thing wrong, as key: reason."""
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        part = str(first["loc"][0]) if len(first["loc"]) > 1 else ""
        fields = _FIELDS.get(part, ScenarioFile.model_fields)
        return f"{key}: {_unknown(str(first['loc'][-1]), [f.alias or k for k, f in fields.items()])}"
    value = first["input"]
    shown = (
        f"{value:g}" if isinstance(value, float) else str(value) if isinstance(value, int) else repr(value)
    )
    if first["type"] in _LIMITS:
        return f"{key} {shown}: {_LIMITS[first['type']].format(*first['ctx'].values())}"
    return f"{key} {shown}: {first['msg'].removeprefix('Value error, ')}"


def _unknown(key: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    return "unknown key; " + (f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}")
