"""What the columns of a kind of CSV mean: a YAML file, checked whole before a drive is read.

Keys are explained in the package's README. Unknown keys, signals and units are refused by file and key.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from edge_simulator.recordings.drive_units import conversion
from infra.contract.errors import ConfigError
from infra.contract.signals import BY_NAME
from infra.settings.files import read_yaml

EPOCHS = {"epoch_s": 1000.0, "epoch_ms": 1.0}
"""Formats of a number since 1970, with their ms."""


@dataclass(frozen=True, slots=True)
class Column:
    """Where a value comes from: number * factor + offset, or a table for words."""

    name: str
    factor: float = 1.0
    offset: float = 0.0
    values: Mapping[str, float] = field(default_factory=dict)
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Stamp:
    """Columns that together tell the time (joined by a blank), and the formats it may have."""

    columns: tuple[str, ...]
    formats: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Meaning:
    """What the columns of a kind of CSV mean. ``delimiter`` None: found from the header."""

    model: str
    powertrain: str
    vehicle_class: str
    zone: ZoneInfo | None
    stamp: Stamp
    signals: Mapping[str, Column]
    speed_check: Column | None = None
    """A second source of the speed, to compare with."""
    vehicle: str | None = None
    """Column with the vehicle's id; None: the file's name tells the vehicle."""
    delimiter: str | None = None
    decimal: str = "."
    encoding: str = "utf-8-sig"
    missing: frozenset[str] = frozenset()
    """Words (upper case) that say "not available"."""

    def columns(self) -> dict[str, bool]:
        """Names of all columns that mean something, and whether they may lack."""
        names = dict.fromkeys(self.stamp.columns, False)
        if self.vehicle is not None:
            names[self.vehicle] = False
        sources = [*self.signals.values(), *([self.speed_check] if self.speed_check else [])]
        for column in sources:
            names[column.name] = names.get(column.name, True) and column.optional
        return names


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _named(value: Any) -> Any:
    return {"column": value} if isinstance(value, str) else value


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Stamp(_Part):
    column: str
    format: Annotated[tuple[str, ...], BeforeValidator(_listed), Field(min_length=1)]


class _Source(_Part):
    column: str
    unit: str | None = None
    factor: float | None = Field(None, allow_inf_nan=False)
    offset: float | None = Field(None, allow_inf_nan=False)
    optional: bool = False


class _Signal(_Source):
    values: dict[Any, float] = {}
    check: Annotated[_Source | None, BeforeValidator(_named)] = None


class _Vehicle(_Part):
    column: str


class _Mapping(_Part):
    model: str
    powertrain: Literal["petrol", "diesel", "hybrid", "electric"]
    vehicle_class: Literal["car", "van", "heavy"]
    signals: dict[str, Annotated[_Signal, BeforeValidator(_named)]] = Field(min_length=1)
    time_zone: str | None = None
    date: _Stamp | None = None
    time: _Stamp | None = None
    timestamp: _Stamp | None = None
    vehicle: Annotated[_Vehicle | None, BeforeValidator(_named)] = None
    delimiter: Literal[",", ";", "\t", "|"] | None = None
    decimal: Literal[".", ","] = "."
    encoding: str = "utf-8-sig"
    missing: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()


def load_mapping(path: Path) -> Meaning:
    """The mapping in a YAML file; raises ConfigError naming file and key."""
    raw = read_yaml(path, "mapping")
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: not a readable mapping (keys and values are wanted)")
    try:
        return _meaning(_Mapping.model_validate(raw))
    except ValidationError as error:
        raise ConfigError(f"{path}: {_first(error.errors()[0])}") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _first(error: ErrorDetails) -> str:
    where = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"{where}: there is no such key"
    if error["type"] == "missing":
        return f"{where}: the key is missing"
    return f"{where}: {error['msg']} (not {error['input']!r})"


def _meaning(raw: _Mapping) -> Meaning:
    unknown = sorted(set(raw.signals) - set(BY_NAME))
    if unknown:
        near = difflib.get_close_matches(unknown[0], BY_NAME, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConfigError(f"signals: no such signal: {', '.join(unknown)}{hint}")
    for name, signal in raw.signals.items():
        if BY_NAME[name].kind == "codes":
            raise ConfigError(f"signals.{name}: trouble codes cannot be taken from a column")
        if signal.check is not None and name != "speed_kmh":
            raise ConfigError(f"signals.{name}.check: only speed_kmh can have a second source")
    speed = raw.signals.get("speed_kmh")
    check = speed.check if speed is not None else None
    return Meaning(
        model=raw.model,
        powertrain=raw.powertrain,
        vehicle_class=raw.vehicle_class,
        zone=_zone(raw),
        stamp=_stamp(raw),
        signals={name: _column(name, source, f"signals.{name}") for name, source in raw.signals.items()},
        speed_check=None if check is None else _column("speed_kmh", check, "signals.speed_kmh.check"),
        vehicle=None if raw.vehicle is None else raw.vehicle.column,
        delimiter=raw.delimiter,
        decimal=raw.decimal,
        encoding=_encoding(raw.encoding),
        missing=frozenset(word.strip().upper() for word in raw.missing),
    )


def _zone(raw: _Mapping) -> ZoneInfo | None:
    if raw.time_zone is None:
        return None
    try:
        return ZoneInfo(raw.time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConfigError(f"time_zone: there is no zone {raw.time_zone!r}") from error


def _encoding(name: str) -> str:
    try:
        b"    ".decode(name)
    except UnicodeDecodeError:
        return name  # another question: whether it is that of a file
    except (LookupError, ValueError) as error:
        raise ConfigError(f"encoding: there is no encoding of texts {name!r}") from error
    return name


def _stamp(raw: _Mapping) -> Stamp:
    """One column, or date and time; local times need a zone."""
    if raw.timestamp is not None and raw.date is None and raw.time is None:
        stamp = Stamp((raw.timestamp.column,), raw.timestamp.format)
    elif raw.timestamp is None and raw.date is not None and raw.time is not None:
        formats = [f"{d} {t}" for d in raw.date.format for t in raw.time.format]
        stamp = Stamp((raw.date.column, raw.time.column), tuple(formats))
    else:
        raise ConfigError("timestamp, or date and time, is wanted: one of the two ways")
    for pattern in stamp.formats:
        local = pattern not in EPOCHS and pattern != "iso" and "%z" not in pattern
        if local and raw.time_zone is None:
            raise ConfigError(f"time_zone: the key is missing; {pattern!r} tells local time")
        if local and "%" not in pattern:
            raise ConfigError(
                f"timestamp.format: {pattern!r} is none of {', '.join(EPOCHS)}, iso or a pattern as %Y-%m-%d"
            )
    return stamp


def _column(signal: str, source: _Source, where: str) -> Column:
    given = source.factor is not None or source.offset is not None
    words = _words(source.values) if isinstance(source, _Signal) else {}
    if source.unit is not None and (given or words):
        raise ConfigError(f"{where}: give unit, or factor and offset, or values: not two of them")
    try:
        factor, offset = conversion(signal, source.unit) if source.unit is not None else (1.0, 0.0)
    except ConfigError as error:
        raise ConfigError(f"{where}.unit: {error}") from error
    if given:
        factor = 1.0 if source.factor is None else source.factor
        offset = source.offset or 0.0
    return Column(source.column, factor, offset, words, source.optional)


def _words(values: Mapping[Any, float]) -> dict[str, float]:
    """The table in upper case. YAML reads a bare on, yes and true as one value: each of them is meant."""
    found: dict[str, float] = {}
    for key, value in values.items():
        if isinstance(key, bool):
            found |= dict.fromkeys(("TRUE", "YES", "ON") if key else ("FALSE", "NO", "OFF"), value)
        else:
            found[str(key).strip().upper()] = value
    return found
