"""What a run is: a scenario file (YAML) with options set over it, checked whole before anything starts."""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args
from zoneinfo import ZoneInfo

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError, model_validator

from edge_simulator.console import now_ms
from edge_simulator.edr.recorder import Setup
from edge_simulator.faults import Wanted
from edge_simulator.telemetry.gnss import GnssSettings
from edge_simulator.telemetry.instruments import Sensors
from edge_simulator.wireless.settings import LinkShares
from infra.contract.errors import ConfigError
from infra.contract.frame import Frame
from infra.settings.files import parse_yaml, read_yaml, wanted
from infra.settings.settings import Settings
from infra.settings.values import LONGEST_MS, day_ms, duration_ms
from infra.stack.access.identity import record_signer

Profile = Literal["steady", "day"]
STEP_MS = 1000  # the number on line changes at most so often


def _length_ms(value: object) -> int:
    try:
        return duration_ms(str(value), "")
    except ConfigError as error:
        raise ValueError(str(error).partition(": ")[2]) from error


Length = Annotated[int, BeforeValidator(_length_ms)]


class _Part(BaseModel, extra="forbid", frozen=True, populate_by_name=True, allow_inf_nan=False):
    pass


class Stage(_Part):
    """So long at a ``rate``, frames/s, or ``ramp_to`` one from the last stage's end, at first from 0."""

    for_ms: Length = Field(alias="for")
    rate: float | None = Field(None, ge=0)
    ramp_to: float | None = Field(None, ge=0)

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.rate is None) == (self.ramp_to is None):
            raise ValueError("either rate or ramp_to is wanted")
        return self

    @property
    def ends_at(self) -> float:
        """The rate at its end."""
        return self.rate or self.ramp_to or 0.0


def rate_at(stages: Sequence[Stage], since_ms: int) -> float:
    """Frames/s wanted ``since_ms`` after the start; the last rate holds after the end of the stages."""
    since_ms -= since_ms % STEP_MS
    begins_at = 0.0
    for stage in stages:
        begins_at = begins_at if stage.rate is None else stage.rate
        if since_ms < stage.for_ms:
            return begins_at + (stage.ends_at - begins_at) * since_ms / stage.for_ms
        since_ms -= stage.for_ms
        begins_at = stage.ends_at
    return begins_at


SAMPLES = 10
LONGEST_COVERED_MS = 10_000  # by a frame: its first sample must not be late when the last one is taken


@dataclass(frozen=True, slots=True)
class Cadence:
    """How often a vehicle reports: a frame of ``SAMPLES``, ``dt_ms`` apart, once in ``period`` of these.

    The period is SAMPLES when frames join, more when a frame covers only the last 10 s before it.
    """

    dt_ms: int
    period: int

    @property
    def interval_ms(self) -> int:
        return self.dt_ms * self.period


class _Simulated(_Part):
    """What a run takes from its scenario file as it stands there. ``limit`` None: no limit."""

    seed: int = Field(1, ge=0)
    vehicles: int = Field(100, ge=1, le=10_000_000)
    limit: int | None = Field(None, ge=1)
    profile: Profile = "steady"
    recorders: Setup = Setup()
    truth_edges: bool = False  # road edges passed are ground truth too; they are many
    ambient_c: float = Field(16.0, ge=-40, le=55)
    faults: tuple[Wanted, ...] = ()
    link: LinkShares = LinkShares()
    gnss: GnssSettings = GnssSettings()
    sensors: Sensors = "fine"
    stages: tuple[Stage, ...] = ()


class Scenario(_Simulated):
    """A run. ``frames_per_vehicle`` None goes on until it is stopped."""

    cadence: Cadence
    start_ms: int
    frames_per_vehicle: int | None
    lat_deg: float = 48.137
    lon_deg: float = 11.575
    lateness_ms: int = 30_000
    begins_at_s: float = 8 * 3600.0  # local time of the simulated day; stamps are not touched by it
    weekday: int = 0  # 0 is Monday
    parked_every_ms: int | None = None  # how often a parked vehicle reports; None: like one that drives
    longest_step_ms: int = 100  # physics goes in steps of at most this
    sign: Callable[[Frame], bytes] | None = None  # crash records, as the vehicle does; None: unsigned
    first: int = 0  # number of the first vehicle, for identities and chance of a part of a larger fleet

    @property
    def full_rate(self) -> float:
        """Frames/s when every vehicle reports."""
        return 1000 * self.vehicles / self.cadence.interval_ms

    @property
    def span_ms(self) -> int:
        """Simulated time of the run; 10 minutes stand for an endless one where a plan needs a number."""
        every_ms = self.cadence.interval_ms
        return (self.frames_per_vehicle or max(1, 600_000 // every_ms)) * every_ms


def cadence(vehicles: int, rate: float | None, interval_ms: int | None) -> Cadence:
    """For a ``rate`` in frames/s or a vehicle's interval, else 1 s. Raises ConfigError beyond 2 %."""
    if rate is not None and interval_ms is not None:
        raise ConfigError("--rate and --interval exclude each other: give one of them")
    wanted_ms = 1000.0 * vehicles / rate if rate is not None else float(interval_ms or 1000)
    if wanted_ms > LONGEST_MS:
        raise ConfigError(f"rate {rate:g}: a vehicle would report less than once in 36525d")
    if wanted_ms <= LONGEST_COVERED_MS:
        found = Cadence(max(1, round(wanted_ms / SAMPLES)), SAMPLES)
    else:
        found = Cadence(LONGEST_COVERED_MS // SAMPLES, round(wanted_ms * SAMPLES / LONGEST_COVERED_MS))
    if abs(found.interval_ms / wanted_ms - 1) > 0.02:
        raise ConfigError(
            f"{vehicles} vehicles cannot report every {wanted_ms:g} ms: the sample spacing is whole ms; "
            f"next: every {found.interval_ms} ms ({1000 * vehicles / found.interval_ms:g} frames/s)"
        )
    return found


DAY_DEFAULTS = {"profile": "day", "interval": "10s", "step": "500ms", "parked_every": "10m"}  # of a --day
Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


def _time_of_day_s(value: object) -> float:
    """``07:30`` in seconds after midnight. YAML reads an unquoted 7:30 as 450: a number is minutes."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 24 * 60:
        value = f"{int(value) // 60:02d}:{int(value) % 60:02d}"
    hours, _, minutes = str(value).partition(":")
    if not (hours.isdecimal() and minutes.isdecimal() and int(hours) < 24 and int(minutes) < 60):
        raise ValueError(f"{value!r} is no time of day such as 07:30")
    return int(hours) * 3600.0 + int(minutes) * 60.0


def _short_step(step_ms: int) -> int:
    if step_ms > 500:
        raise ValueError("1ms to 500ms is wanted; beyond it drivers react too late")
    return step_ms


class Place(_Part):
    """Centre of the city, degrees."""

    lat: float = Field(48.137, ge=-80, le=80)
    lon: float = Field(11.575, ge=-179, le=179)


class Clock(_Part):
    """Local time of the simulated day at the start of the run; what is stamped stays true time."""

    begins: Annotated[float, BeforeValidator(_time_of_day_s)] | None = None
    weekday: Weekday | None = None


class ScenarioFile(_Simulated):
    """All that a scenario file may say; every key has a default."""

    title: str = ""
    rate: float | None = Field(None, gt=0)
    interval: Length | None = None
    duration: Length | None = None
    step: Annotated[Length, AfterValidator(_short_step)] = 100
    parked_every: Length | None = None
    place: Place = Place()
    clock: Clock = Clock()

    @cached_property
    def cadence(self) -> Cadence:
        return cadence(self.vehicles, self.rate, self.interval)

    @model_validator(mode="after")
    def _stages_are_met(self) -> Self:
        """Raises ConfigError."""
        full = 1000 * self.vehicles / self.cadence.interval_ms
        most = max((stage.ends_at for stage in self.stages), default=0.0)
        if most > full * 1.0001:
            less = f"all vehicles together report {full:g}/s; more vehicles or a shorter interval is needed"
            raise ConfigError(f"stages: {most:g} frames/s are wanted, but {less}")
        return self


PARTS = ("link", "gnss", "place", "clock", "recorders")  # hold keys: options are set over them one by one
_MODELS: dict[str, Any] = {
    "place": Place, "clock": Clock, "recorders": Setup, "stages": Stage, "link": LinkShares,
    "gnss": GnssSettings, "faults": Wanted,
}  # fmt: skip


def ready() -> dict[str, Path]:
    """The scenarios that come with the simulator, by name."""
    return {path.stem: path for path in sorted(Path(__file__).with_name("scenarios").glob("*.yaml"))}


def load(
    name_or_path: str | None, options: Mapping[str, Any], defaults: Mapping[str, Any] | None = None
) -> ScenarioFile:
    """A scenario by name or file, over ``defaults``, under the ``options`` given. Raises ConfigError."""
    raw: Any = {}
    where = f"--scenario {name_or_path}: " if name_or_path is not None else ""
    if name_or_path is not None:
        path = ready().get(name_or_path, Path(name_or_path))
        if not path.exists():
            raise ConfigError(f"{where}no such scenario or file; ready ones: {', '.join(ready())}")
        raw = read_yaml(path, "--scenario")
        if not isinstance(raw, dict):
            raise ConfigError(f"{where}a mapping of keys is wanted, as: odograph scenarios show city-day")
    for part in PARTS:
        if not isinstance(raw.get(part) or {}, Mapping):
            raise ConfigError(f"{where}{part} {raw[part]!r}: keys with values are wanted")
    given = _without_none(options)
    if given.keys() & {"rate", "interval"}:
        raw = {key: value for key, value in raw.items() if key not in {"rate", "interval"}}
    merged = _merged({**(defaults or {}), **raw}, given)
    if merged.get("rate") is not None and "interval" not in {**raw, **given}:
        merged.pop("interval", None)
    try:
        return ScenarioFile.model_validate(merged)
    except ValidationError as error:
        raise ConfigError(f"{where or '--'}{_first_error(error)}") from error
    except ConfigError as error:
        raise ConfigError(f"{where}{error}") from error


def settings_of(texts: Iterable[str]) -> dict[str, Any]:
    """Options such as ``link.outage_share=0.3`` as a scenario file would have them; raises ConfigError."""
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        part, dot, name = key.strip().partition(".")
        if not (equals and part) or (dot and part not in PARTS):
            wanted = "KEY=VALUE is wanted, as ambient_c=-8, or PART.KEY=VALUE with one of"
            raise ConfigError(f"--set {text}: {wanted} {', '.join(PARTS)}")
        try:
            read = parse_yaml(value)
        except yaml.YAMLError as error:
            reason = " ".join(str(error).split())
            raise ConfigError(f"--set {text}: not readable as YAML ({reason})") from error
        if part in PARTS and not (dot or isinstance(read, Mapping)):
            raise ConfigError(f"--set {text}: keys with values are wanted, as {part}={{KEY: VALUE}}")
        (found.setdefault(part, {}) if dot else found)[name if dot else part] = read
    return found


def over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Options ``above`` set over those ``below``; what is None is not given."""
    return _merged(_without_none(below), _without_none(above))


def _merged(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    return {**low, **high, **{part: {**(low.get(part) or {}), **high.get(part, {})} for part in PARTS}}


def _without_none(options: Mapping[str, Any]) -> dict[str, Any]:
    """What was given; empty parts are left out."""
    kept = {k: _without_none(v) if isinstance(v, Mapping) else v for k, v in options.items()}
    return {k: v for k, v in kept.items() if v is not None and v not in ((), {})}


def _first_error(error: ValidationError) -> str:
    """The first thing wrong, as key: reason."""
    first = error.errors()[0]
    key, value = ".".join(str(part) for part in first["loc"]), first["input"]
    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        part = str(first["loc"][0]) if len(first["loc"]) > 1 else ""
        known = [f.alias or k for k, f in _MODELS.get(part, ScenarioFile).__pydantic_fields__.items()]
        near = difflib.get_close_matches(str(first["loc"][-1]), known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        return f"{key}: unknown key; {hint}"
    shown = f"{value:g}" if isinstance(value, float) else repr(value)
    return f"{key}: {wanted(first)}" if isinstance(value, Mapping) else f"{key} {shown}: {wanted(first)}"


def read(
    name_or_path: str | None, settings: Settings, options: Mapping[str, Any], start_ms: int | None = None,
    day: str | None = None,
) -> Scenario:  # fmt: skip
    """The run that a scenario by name or file describes, with options set over it. Raises ConfigError.

    ``start_ms`` None begins one frame before now; ``day`` (2026-11-20) is a whole day in the settings' zone,
    of 23 or 25 hours when clocks change.
    """
    file = load(name_or_path, options, DAY_DEFAULTS if day else None)
    every = file.cadence
    length_ms = file.duration or sum(stage.for_ms for stage in file.stages) or None
    if day is not None:
        start_ms, end_ms = day_ms(day, "--day", settings.tz)
        length_ms = min(filter(None, (end_ms - start_ms, length_ms)))
    begin_ms = start_ms if start_ms is not None else now_ms() - SAMPLES * every.dt_ms
    here = datetime.fromtimestamp(begin_ms / 1000, ZoneInfo(settings.tz))
    clock_s = here.hour * 3600.0 + here.minute * 60.0 + here.second
    clock_s = file.clock.begins if file.clock.begins is not None else clock_s
    chunk_bytes = file.recorders.chunk_bytes or settings.mqtt.crash_chunk_bytes
    simulated = {name: getattr(file, name) for name in _Simulated.model_fields}
    simulated["recorders"] = file.recorders.model_copy(update={"chunk_bytes": chunk_bytes})
    return Scenario(
        **simulated, cadence=every, start_ms=begin_ms, sign=record_signer(settings),
        frames_per_vehicle=None if length_ms is None else max(1, length_ms // every.interval_ms),
        lat_deg=file.place.lat, lon_deg=file.place.lon, lateness_ms=1000 * settings.jobs.lateness_s,
        begins_at_s=0.0 if day is not None else clock_s,
        weekday=get_args(Weekday).index(file.clock.weekday) if file.clock.weekday else here.weekday(),
        parked_every_ms=file.parked_every, longest_step_ms=min(file.step, every.dt_ms),
    )  # fmt: skip
