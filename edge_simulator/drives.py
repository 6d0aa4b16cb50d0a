"""Recorded drives from CSV files, made into frames like any vehicle's. Pure: bytes in, frames out.

A mapping (YAML) says which column is which signal, its factor to the contract's unit, the time zone and the
date format. Dirt is counted and named, never dropped in silence: a row without a readable time is a bad row;
a value that is no number or out of its signal's range is "not available", and the row stays.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import yaml

from infra.contract.errors import ConfigError
from infra.contract.signals import BY_NAME

DEFAULT_MAPPING = Path(__file__).with_name("rsk_twizy.yaml")
MAPPING_NAME = "mapping.yaml"


@dataclass(frozen=True, slots=True)
class Column:
    """Where a signal comes from: value * factor + offset, or a table for names."""

    name: str
    factor: float = 1.0
    offset: float = 0.0
    values: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Meaning:
    """What the columns of a kind of CSV mean."""

    model: str
    powertrain: str
    vehicle_class: str
    zone: ZoneInfo
    date: Column
    time: Column
    time_format: str
    signals: Mapping[str, Column]


@dataclass(frozen=True, slots=True)
class Row:
    """One good row: UTC time and the signals that were readable (None: not available)."""

    t_ms: int
    values: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Drive:
    """A recorded drive. ``bad_rows`` and ``bad_values`` name line and reason."""

    name: str
    rows: Sequence[Row]
    bad_rows: Sequence[str]
    bad_values: Sequence[str]


def load_mapping(path: Path) -> Meaning:
    """The mapping in a YAML file; raises ConfigError naming what is wrong."""
    try:
        raw = yaml.safe_load(path.read_text())
        signals = {name: Column(column["column"], **_rest(column)) for name, column in raw["signals"].items()}
        unknown = sorted(set(signals) - set(BY_NAME))
        if unknown:
            raise ConfigError(f"{path}: no such signal: {', '.join(unknown)}")
        return Meaning(
            model=raw["model"],
            powertrain=raw["powertrain"],
            vehicle_class=raw["vehicle_class"],
            zone=ZoneInfo(raw["time_zone"]),
            date=Column(raw["date"]["column"]),
            time=Column(raw["time"]["column"]),
            time_format=f"{raw['date']['format']} {raw['time']['format']}",
            signals=signals,
        )
    except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError, ZoneInfoNotFoundError) as error:
        raise ConfigError(f"{path}: not a readable mapping ({type(error).__name__}: {error})") from error


def _rest(column: Mapping[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in column.items() if key != "column"}
    if "values" in rest:
        rest["values"] = {str(k).upper(): float(v) for k, v in rest["values"].items()}
    return rest


def read_folder(folder: Path, mapping: Path | None = None) -> tuple[Meaning, list[Drive]]:
    """All drives of a folder by name, and their mapping: given, ``mapping.yaml`` beside them, or the Twizy's.

    Raises ConfigError where there is no folder, no CSV, or a file that cannot be used.
    """
    if not folder.is_dir():
        raise ConfigError(f"--drives {folder}: there is no such folder")
    beside = folder / MAPPING_NAME
    meaning = load_mapping(mapping or (beside if beside.is_file() else DEFAULT_MAPPING))
    files = sorted(p for p in folder.iterdir() if p.suffix.lower() == ".csv")
    if not files:
        raise ConfigError(f"--drives {folder}: there is no .csv file in it")
    return meaning, [read(file, meaning) for file in files]


def read(path: Path, mapping: Meaning) -> Drive:
    """The drive in a CSV file; raises ConfigError naming file and row where nothing can be made of it."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        row = error.object[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path}, row {row}: not UTF-8 text") from error
    lines = csv.reader(io.StringIO(text, newline=""))
    header = [name.strip().lower() for name in next(lines, [])]
    if not header:
        raise ConfigError(f"{path}, row 1: the file is empty, a header is wanted")
    place = _places(path, header, mapping)
    rows, bad_rows, bad_values = _rows(lines, place, len(header), mapping)
    if not rows:
        why = f"; row {bad_rows[0]}" if bad_rows else ""
        raise ConfigError(f"{path}, row 2: no usable row{why}")
    return Drive(path.stem, rows, bad_rows, bad_values)


def _places(path: Path, header: list[str], mapping: Meaning) -> dict[str, int]:
    """Index of each column by signal (and of date and time)."""
    wanted = {"date": mapping.date, "time": mapping.time, **mapping.signals}
    missing = sorted({c.name for c in wanted.values() if c.name.lower() not in header})
    if missing:
        raise ConfigError(f"{path}, row 1: no column {', '.join(missing)}")
    return {name: header.index(column.name.lower()) for name, column in wanted.items()}


def _rows(
    lines: Any, place: Mapping[str, int], width: int, mapping: Meaning
) -> tuple[list[Row], list[str], list[str]]:
    rows: list[Row] = []
    bad_rows: list[str] = []
    bad_values: list[str] = []
    for cells in lines:
        if not cells:
            continue
        line = lines.line_num
        t_ms, reason = _time(cells, place, width, mapping)
        if not reason and rows and t_ms <= rows[-1].t_ms:
            reason = "time does not advance"
        if reason:
            bad_rows.append(f"{line}: {reason}")
            continue
        values, wrong = _values(cells, place, mapping)
        bad_values += [f"{line}: {what}" for what in wrong]
        rows.append(Row(t_ms, values))
    return rows, bad_rows, bad_values


def _time(cells: list[str], place: Mapping[str, int], width: int, mapping: Meaning) -> tuple[int, str]:
    """UTC time in ms, and why there is none (empty when there is)."""
    if len(cells) != width:
        return 0, f"{len(cells)} cells, the header has {width}"
    stamp = f"{cells[place['date']].strip()} {cells[place['time']].strip()}"
    try:
        local = datetime.strptime(stamp, mapping.time_format).replace(tzinfo=mapping.zone)
    except ValueError:
        return 0, f"time {stamp!r} is not {mapping.time_format}"
    return round(local.astimezone(UTC).timestamp() * 1000), ""


def _values(
    cells: list[str], place: Mapping[str, int], mapping: Meaning
) -> tuple[dict[str, float | None], list[str]]:
    values: dict[str, float | None] = {}
    wrong = []
    for name, column in mapping.signals.items():
        text = cells[place[name]].strip()
        value = _number(text, column)
        signal = BY_NAME[name]
        if value is None or not signal.minimum <= value <= signal.maximum:
            if text:
                wrong.append(f"{name} {text!r}")
            value = None
        values[name] = value
    if values.get("lat_deg") is None or values.get("lon_deg") is None:
        values["lat_deg"] = values["lon_deg"] = None  # half a position is none
    return values, wrong


def _number(text: str, column: Column) -> float | None:
    if column.values:
        return column.values.get(text.upper())
    try:
        return float(text) * column.factor + column.offset
    except ValueError:
        return None
