"""Recorded drives from CSV files. Pure: bytes in, rows out; frames are made in frames.py.

Dirt is counted and named, never dropped in silence: every line below the header is a good row or a bad one.
A row without a readable time or vehicle is bad; a value that is no number or out of its signal's range is
"not available", and the row stays.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np

from edge_simulator import vin
from edge_simulator.recordings.mapping import EPOCHS, Column, Meaning, Stamp, load_mapping
from infra.contract.errors import ConfigError
from infra.contract.signals import BY_NAME
from infra.contract.topics import VEHICLE_ID

DEFAULT_MAPPING = Path(__file__).with_name("rsk_twizy.yaml")
MAPPING_NAME = "mapping.yaml"
DELIMITERS = (",", ";", "\t", "|")
GAP = 1.5  # a pause longer than this many usual spacings is a gap
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LATEST_MS = 253_402_214_400_000  # the last day of the year 9999: later moments have no date


@dataclass(frozen=True, slots=True)
class Row:
    """One good row: UTC time and the signals that were readable (None: not available)."""

    t_ms: int
    values: Mapping[str, float | None]
    check_kmh: float | None = None  # the speed by its second source
    line: int = 0


@dataclass(frozen=True, slots=True)
class Drive:
    """A vehicle's recorded drive. ``bad_rows`` and ``bad_values`` name line and reason."""

    name: str
    vehicle_id: str
    rows: Sequence[Row]
    bad_rows: Sequence[str]
    bad_values: Sequence[str]
    file: str


@dataclass(frozen=True, slots=True)
class Recording:
    """What a file held: ``lines`` is good and bad rows of all drives together."""

    name: str
    lines: int
    drives: Sequence[Drive]
    ignored: Sequence[str]  # columns that mean nothing to the mapping
    lacking: Sequence[str]  # optional columns that are not there


def spacing_ms(t_ms: Sequence[int]) -> int:
    """The usual time between two rows: the median; 1 s for a single row."""
    return int(np.median(np.diff(t_ms))) if len(t_ms) > 1 else 1000


def look_into(folder: Path, mapping: Path | None = None) -> tuple[Meaning, list[Path]]:
    """The mapping in force for a folder (given, ``mapping.yaml`` in it, or the Twizy's) and its CSV files.

    Raises ConfigError where there is no folder or no CSV file.
    """
    if not folder.is_dir():
        raise ConfigError(f"--drives {folder}: there is no such folder")
    beside = folder / MAPPING_NAME
    meaning = load_mapping(mapping or (beside if beside.is_file() else DEFAULT_MAPPING))
    files = sorted(p for p in folder.iterdir() if p.suffix.lower() == ".csv")
    if not files:
        raise ConfigError(f"--drives {folder}: there is no .csv file in it")
    return meaning, files


def read_folder(folder: Path, mapping: Path | None = None) -> tuple[Meaning, list[Drive]]:
    """All drives of a folder by name, and their mapping. Raises ConfigError for what cannot be used."""
    meaning, files = look_into(folder, mapping)
    return meaning, [drive for file in files for drive in read(file, meaning).drives]


def read(path: Path, meaning: Meaning) -> Recording:
    """The drives in a CSV file; raises ConfigError naming file and row where nothing can be made of it."""
    lines = _text(path, meaning).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    delimiter, header = _header(lines[0], meaning)
    if not any(header):
        raise ConfigError(f"{path}, row 1: the file is empty, a header is wanted")
    reader = _Reader(path.stem, meaning, delimiter, len(header), _places(path, header, meaning))
    for number, line in enumerate(lines[1:], start=2):
        if line.strip():
            reader.take(number, line)
    if not reader.drafts:
        why = f"; row {reader.unassigned[0]}" if reader.unassigned else ""
        raise ConfigError(f"{path}, row 2: no usable row{why}")
    known = {name.lower() for name in meaning.columns()}
    ignored = [name for name in header if name and name not in known]
    lacking = sorted(name for name in meaning.columns() if name.lower() not in header)
    return Recording(path.stem, reader.lines, reader.drives(), ignored, lacking)


def _text(path: Path, meaning: Meaning) -> str:
    try:
        return path.read_bytes().decode(meaning.encoding)
    except UnicodeError as error:
        row = 1
        if isinstance(error, UnicodeDecodeError):
            row += error.object[: error.start].count(b"\n")
        kind = "UTF-8" if meaning.encoding == "utf-8-sig" else meaning.encoding
        hint = "; the mapping's key encoding can name another one, as cp1252"
        raise ConfigError(f"{path}, row {row}: not {kind} text{hint}") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error


def _header(line: str, meaning: Meaning) -> tuple[str, list[str]]:
    """The delimiter that finds most of what is wanted, and the column names in lower case."""
    wanted = {name.lower() for name in meaning.columns()}
    found = []
    for delimiter in (meaning.delimiter,) if meaning.delimiter else DELIMITERS:
        names = [name.strip().lower() for name in _cells(line, delimiter) or [""]]
        found.append((len(wanted & set(names)), delimiter, names))
    _, delimiter, names = max(found, key=lambda one: one[0])
    return delimiter, names


def _places(path: Path, header: list[str], meaning: Meaning) -> dict[str, int]:
    """Index of each column that is there, by its name as the mapping writes it."""
    wanted = meaning.columns()
    missing = sorted(name for name, may in wanted.items() if name.lower() not in header and not may)
    if missing:
        raise ConfigError(f"{path}, row 1: no column {', '.join(missing)}")
    twice = sorted(name for name in wanted if header.count(name.lower()) > 1)
    if twice:
        raise ConfigError(f"{path}, row 1: two columns {', '.join(twice)}: which one counts?")
    return {name: header.index(name.lower()) for name in wanted if name.lower() in header}


def _cells(line: str, delimiter: str) -> list[str] | None:
    """A line's cells, None where its quotes do not close. A row is a line: no cell goes over its end."""
    if '"' not in line:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error:
        return None


@dataclass(slots=True)
class _Draft:
    rows: list[Row] = field(default_factory=list)
    bad_rows: list[str] = field(default_factory=list)
    bad_values: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Reader:
    """Takes the lines of one file, each of ``width`` cells; ``place`` has the indices of the columns."""

    name: str
    meaning: Meaning
    delimiter: str
    width: int
    place: Mapping[str, int]
    lines: int = 0
    drafts: dict[str, _Draft] = field(default_factory=dict)  # by vehicle, in order; each has a good row
    unassigned: list[str] = field(default_factory=list)
    """Bad rows before there was a drive to count them with, and those whose vehicle is not known."""

    def take(self, number: int, line: str) -> None:
        """Make a line a good row or a bad one."""
        self.lines += 1
        cells = _cells(line, self.delimiter)
        if cells is None or len(cells) != self.width:
            why = (
                "a quote is not closed"
                if cells is None
                else f"{len(cells)} cells, the header has {self.width}"
            )
            self.unassigned.append(f"{number}: {why}")
            return
        column, stamp = self.meaning.vehicle, self.meaning.stamp
        vehicle = self.name if column is None else cells[self.place[column.column]].strip()
        draft = self.drafts.get(vehicle)
        t_ms, reason = utc_ms([cells[self.place[c]] for c in stamp.columns], stamp, self.meaning.zone)
        if not vehicle:
            reason = "no vehicle"
        elif not reason and draft is not None and t_ms <= draft.rows[-1].t_ms:
            reason = "time does not advance"
        if reason:
            (draft.bad_rows if draft is not None else self.unassigned).append(f"{number}: {reason}")
            return
        row, bad_values = row_of(number, t_ms, cells, self.place, self.meaning)
        draft = self.drafts.setdefault(vehicle, _Draft())
        draft.rows.append(row)
        draft.bad_values += [f"{number}: {what}" for what in bad_values]

    def drives(self) -> list[Drive]:
        """The file's drives; bad rows of no known vehicle are counted with the first one."""
        several = self.meaning.vehicle is not None
        found: list[Drive] = []
        for vehicle, draft in self.drafts.items():
            bad = draft.bad_rows if found else [*self.unassigned, *draft.bad_rows]
            bad.sort(key=lambda named: int(named.partition(":")[0]))
            whose = vehicle if VEHICLE_ID.fullmatch(vehicle) and several else vin.make(vehicle)
            name = f"{self.name}/{vehicle}" if several else self.name
            found.append(Drive(name, whose, draft.rows, bad, draft.bad_values, self.name))
        return found


def row_of(
    line: int, t_ms: int, cells: Sequence[str], place: Mapping[str, int], meaning: Meaning
) -> tuple[Row, list[str]]:
    """A line's row, and what in it was no number or out of range. ``place`` has the columns' indices."""
    values: dict[str, float | None] = {}
    wrong = []
    for name, column in meaning.signals.items():
        if column.name not in place:
            continue
        text = cells[place[column.name]].strip()
        value, signal = _number(text, column, meaning.decimal), BY_NAME[name]
        inside = value is not None and signal.minimum <= value <= signal.maximum
        values[name] = value if inside else None
        if text and not inside and text.upper() not in meaning.missing_words:
            wrong.append(f"{name} {text!r}")
    if values.get("lat_deg") is None or values.get("lon_deg") is None:
        values |= {name: None for name in ("lat_deg", "lon_deg") if name in values}  # half a position is none
    check, check_kmh = meaning.speed_check, None
    if check is not None and check.name in place:
        check_kmh = _number(cells[place[check.name]].strip(), check, meaning.decimal)
    return Row(t_ms, values, check_kmh, line), wrong


def _number(text: str, column: Column, decimal: str) -> float | None:
    """The value of a cell, None where it is none. Digit groups are not guessed at."""
    if column.values:
        return column.values.get(text.upper())
    if decimal == ",":
        text = text.replace(".", "_").replace(",", ".")
    try:
        value = float(text) * column.factor + column.offset
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in text else None


def utc_ms(cells: Sequence[str], stamp: Stamp, zone: ZoneInfo | None) -> tuple[int, str]:
    """UTC time in ms of the stamp's cells, and why there is none (empty when there is).

    The first format that fits counts. A time without a zone is local time of ``zone``.
    """
    text = " ".join(cell.strip() for cell in cells)
    for pattern in stamp.formats:
        found = _moment_ms(text, pattern, zone)
        if found is not None:
            inside = 0 <= found <= LATEST_MS
            return (found, "") if inside else (0, f"time {text!r} is before 1970 or beyond reason")
    names = [f"{p} with a zone" if p == "iso" and zone is None else p for p in stamp.formats]
    wanted = names[0] if len(names) == 1 else f"one of {', '.join(names)}"
    return 0, f"time {text!r} is not {wanted}"


def _moment_ms(text: str, pattern: str, zone: ZoneInfo | None) -> int | None:
    try:
        if pattern in EPOCHS:
            value = float(text) * EPOCHS[pattern]
            return round(value) if math.isfinite(value) and "_" not in text else None
        moment = datetime.fromisoformat(text) if pattern == "iso" else datetime.strptime(text, pattern)
        if moment.tzinfo is None:
            if zone is None:
                return None
            moment = moment.replace(tzinfo=zone)
        return round((moment - _EPOCH) / timedelta(milliseconds=1))
    except (ValueError, OverflowError):
        return None
