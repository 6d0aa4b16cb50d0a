"""What the columns of a kind of CSV mean: a YAML file (README), checked whole before a drive is read."""

import difflib
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError, model_validator

from infra.contract.errors import ConfigError
from infra.contract.signals import BY_NAME
from infra.settings.files import KEY_ERRORS, read_yaml, wanted

_FAHRENHEIT = (5 / 9, -160 / 9)
_UNITS: dict[str, dict[str, float | tuple[float, float]]] = {
    "km/h": {"km/h": 1, "kmh": 1, "kph": 1, "mph": 1.609344, "m/s": 3.6, "knots": 1.852, "kn": 1.852,
             "kt": 1.852, "ft/s": 1.09728},
    "m": {"m": 1, "km": 1000, "miles": 1609.344, "mi": 1609.344, "ft": 0.3048, "feet": 0.3048},
    "degC": {"c": 1, "degc": 1, "celsius": 1, "k": (1, -273.15), "kelvin": (1, -273.15), "f": _FAHRENHEIT,
             "degf": _FAHRENHEIT, "fahrenheit": _FAHRENHEIT},
    "kPa": {"kpa": 1, "pa": 0.001, "hpa": 0.1, "mbar": 0.1, "bar": 100, "psi": 6.894757},
    "Pa": {"pa": 1, "hpa": 100, "mbar": 100, "kpa": 1000, "psi": 6894.757},
    "V": {"v": 1, "mv": 0.001},
    "A": {"a": 1, "ma": 0.001},
    "%": {"%": 1, "percent": 1, "ratio": 100},
    "deg": {"deg": 1, "rad": 57.29577951308232},
    "deg/s": {"deg/s": 1, "rad/s": 57.29577951308232},
    "m/s^2": {"m/s^2": 1, "m/s2": 1, "g": 9.80665},
    "l/h": {"l/h": 1, "gal/h": 3.785411784, "ml/s": 3.6},
    "g/s": {"g/s": 1, "kg/h": 1 / 3.6},
    "rpm": {"rpm": 1, "1/min": 1, "1/s": 60, "rad/s": 9.549296585513721},
}  # fmt: skip
"""For each of the contract's units what else may be written: its factor, or factor and offset."""

EPOCHS = {"epoch_s": 1000.0, "epoch_ms": 1.0}  # formats of a number since 1970, with their ms


class _Part(BaseModel, frozen=True, extra="forbid"):
    pass


Texts = Annotated[tuple[str, ...], BeforeValidator(lambda v: [v] if isinstance(v, str) else v)]


class _Stamp(_Part):
    column: str
    format: Texts = Field(min_length=1)


_BARE = {True: ("TRUE", "YES", "ON"), False: ("FALSE", "NO", "OFF")}
_named = BeforeValidator(lambda value: {"column": value} if isinstance(value, str) else value)


def _words(table: Any) -> Any:
    """The table in upper case. YAML reads a bare on, yes and true as one value: each of them is meant."""
    if not isinstance(table, dict):
        return table
    bare = {word: value for key, value in table.items() if isinstance(key, bool) for word in _BARE[key]}
    return {str(key).strip().upper(): value for key, value in table.items()} | bare


class Column(_Part):
    """Where a value comes from: number * factor + offset, in a unit by its name, or a table for words."""

    column: str
    unit: str | None = None
    factor: float = Field(1.0, allow_inf_nan=False)
    offset: float = Field(0.0, allow_inf_nan=False)
    values: Annotated[dict[str, float], BeforeValidator(_words)] = {}
    optional: bool = False

    def values_of(self, signal: str, where: str) -> Self:
        """With factor and offset for values of ``signal``; ConfigError names ``where`` in the mapping."""
        if self.unit is None:
            return self
        if self.model_fields_set & {"factor", "offset", "values"}:
            raise ConfigError(f"{where}: give unit, or factor and offset, or values: not two of them")
        known = _UNITS.get(BY_NAME[signal].unit, {})
        found = known.get(self.unit.strip().lower())
        if found is None:
            choices = ", ".join(known) if known else "none: the signal has no unit"
            raise ConfigError(f"{where}.unit: no such unit {self.unit!r} for {signal}; there are: {choices}")
        factor, offset = found if isinstance(found, tuple) else (found, 0.0)
        return self.model_copy(update={"factor": factor, "offset": offset})


class _Signal(Column):
    check: Annotated[Column | None, _named] = None


class _Vehicle(_Part):
    column: str


class Meaning(_Part):
    """What the columns of a kind of CSV mean. ``delimiter`` None: found from the header."""

    model: str
    powertrain: Literal["petrol", "diesel", "hybrid", "electric"]
    vehicle_class: Literal["car", "van", "heavy"]
    sources: dict[str, Annotated[_Signal, _named]] = Field(min_length=1, alias="signals")
    time_zone: str | None = None
    date: _Stamp | None = None
    time: _Stamp | None = None
    timestamp: _Stamp | None = None
    vehicle: Annotated[_Vehicle | None, _named] = None  # None: the file's name tells the vehicle
    delimiter: Literal[",", ";", "\t", "|"] | None = None
    decimal: Literal[".", ","] = "."
    encoding: str = "utf-8-sig"
    missing: Annotated[Texts, AfterValidator(lambda words: tuple(w.strip().upper() for w in words))] = ()

    @cached_property
    def signals(self) -> dict[str, Column]:
        return {name: s.values_of(name, f"signals.{name}") for name, s in self.sources.items()}

    @cached_property
    def speed_check(self) -> Column | None:
        check = self.sources["speed_kmh"].check if "speed_kmh" in self.sources else None
        return None if check is None else check.values_of("speed_kmh", "signals.speed_kmh.check")

    @cached_property
    def zone(self) -> ZoneInfo | None:
        try:
            return None if self.time_zone is None else ZoneInfo(self.time_zone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ConfigError(f"time_zone: there is no zone {self.time_zone!r}") from error

    @cached_property
    def stamp(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Columns that together tell the time (joined by a blank), and the formats it may have."""
        if self.timestamp is not None and self.date is None and self.time is None:
            return (self.timestamp.column,), self.timestamp.format
        if self.timestamp is None and self.date is not None and self.time is not None:
            formats = tuple(f"{d} {t}" for d in self.date.format for t in self.time.format)
            return (self.date.column, self.time.column), formats
        raise ConfigError("timestamp, or date and time, is wanted: one of the two ways")

    def columns(self) -> dict[str, bool]:
        """Names of all columns that mean something, and whether they may lack."""
        names = dict.fromkeys(self.stamp[0], False)
        if self.vehicle is not None:
            names[self.vehicle.column] = False
        for column in filter(None, (*self.signals.values(), self.speed_check)):
            names[column.column] = names.get(column.column, True) and column.optional
        return names

    @model_validator(mode="after")
    def _whole(self) -> Self:
        """What one key says must fit the others; raises ConfigError."""
        unknown = sorted(set(self.sources) - set(BY_NAME))
        if unknown:
            near = difflib.get_close_matches(unknown[0], BY_NAME, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ConfigError(f"signals: no such signal: {', '.join(unknown)}{hint}")
        for name, signal in self.sources.items():
            if BY_NAME[name].kind == "codes":
                raise ConfigError(f"signals.{name}: trouble codes cannot be taken from a column")
            if signal.check is not None and name != "speed_kmh":
                raise ConfigError(f"signals.{name}.check: only speed_kmh can have a second source")
        try:
            " ".encode(self.encoding)
        except (LookupError, ValueError) as error:
            raise ConfigError(f"encoding: there is no encoding of texts {self.encoding!r}") from error
        zone = self.zone
        for pattern in self.stamp[1]:
            local = pattern not in EPOCHS and pattern != "iso" and "%z" not in pattern
            if local and zone is None:
                raise ConfigError(f"time_zone: the key is missing; {pattern!r} tells local time")
            if local and "%" not in pattern:
                known = f"{', '.join(EPOCHS)}, iso or a pattern as %Y-%m-%d"
                raise ConfigError(f"timestamp.format: {pattern!r} is none of {known}")
        self.columns()
        return self


def load_mapping(path: Path) -> Meaning:
    """The mapping in a YAML file; raises ConfigError naming file and key."""
    raw = read_yaml(path, "mapping")
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: not a readable mapping (keys and values are wanted)")
    try:
        return Meaning.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        given = "" if first["type"] in KEY_ERRORS else f" (not {first['input']!r})"
        raise ConfigError(f"{path}: {'.'.join(map(str, first['loc']))}: {wanted(first)}{given}") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
