"""Recorded drives from CSV files: bytes in, rows out. Dirt is counted and named, never dropped."""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np

from edge_simulator.geo import Floats
from edge_simulator.recordings.mapping import EPOCHS, Column, Meaning, load_mapping
from edge_simulator.vehicle import vehicles
from infra.contract.errors import ConfigError
from infra.contract.signals import BY_NAME
from infra.contract.topics import VEHICLE_ID

DEFAULT_MAPPING = Path(__file__).with_name("rsk_twizy.yaml")
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
    file: str
    rows: list[Row] = field(default_factory=list)
    bad_rows: list[str] = field(default_factory=list)
    bad_values: list[str] = field(default_factory=list)


def iso(t_ms: int, timespec: str = "milliseconds") -> str:
    """A time as people read it, UTC."""
    return datetime.fromtimestamp(t_ms / 1000, UTC).isoformat(timespec=timespec)


def spacing_ms(t_ms: Sequence[int]) -> int:
    """The usual time between two rows: the median; 1 s for a single row."""
    return int(np.median(np.diff(t_ms))) if len(t_ms) > 1 else 1000


def signal_of(rows: Sequence[Row], name: str) -> Floats:
    """A signal of all rows, NaN where it is not available."""
    return np.array([row.values.get(name) for row in rows], dtype=np.float64)


def look_into(folder: Path, mapping: Path | None = None) -> tuple[Meaning, list[Path]]:
    """The mapping of a folder (given, ``mapping.yaml``, else Twizy) and its CSV files. Raises ConfigError."""
    if not folder.is_dir():
        raise ConfigError(f"--drives {folder}: there is no such folder")
    beside = folder / "mapping.yaml"
    meaning = load_mapping(mapping or (beside if beside.is_file() else DEFAULT_MAPPING))
    files = sorted(p for p in folder.iterdir() if p.suffix.lower() == ".csv")
    if not files:
        raise ConfigError(f"--drives {folder}: there is no .csv file in it")
    return meaning, files


def read(path: Path, meaning: Meaning) -> "Recording":
    """The drives in a CSV file; raises ConfigError naming file and row where nothing can be made of it."""
    try:
        text = path.read_bytes().decode(meaning.encoding)
    except UnicodeError as error:
        before = error.object[: error.start] if isinstance(error, UnicodeDecodeError) else b""
        row = 1 + before.count(b"\n")
        kind = "UTF-8" if meaning.encoding == "utf-8-sig" else meaning.encoding
        hint = "; the mapping's key encoding can name another one, as cp1252"
        raise ConfigError(f"{path}, row {row}: not {kind} text{hint}") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
    header, *lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    found = Recording(path, header, meaning)
    for number, line in enumerate(lines, start=2):
        if line.strip():
            found.take(number, line)
    bad = found.unassigned
    if not found.drives:
        raise ConfigError("; row ".join((f"{path}, row 2: no usable row", *bad[:1])))
    first = found.drives[0].bad_rows
    first[:] = sorted(bad + first, key=lambda named: int(named.partition(":")[0]))
    return found


def _cells(line: str, delimiter: str) -> list[str] | None:
    """A line's cells, None where its quotes do not close. A row is a line: no cell goes over its end."""
    if '"' not in line:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error:
        return None


class Recording:
    """What a file holds, from its lines below the header; raises ConfigError for one that lacks columns.

    ``lines`` is good and bad rows of all drives together; ``ignored`` are columns that mean nothing to the
    mapping, ``lacking`` optional ones that are not there.
    """

    def __init__(self, path: Path, header: str, meaning: Meaning) -> None:
        self.path, self.name, self._meaning, wanted = path, path.stem, meaning, meaning.columns()
        known = {name.lower() for name in wanted}
        found = []
        for delimiter in (meaning.delimiter,) if meaning.delimiter else DELIMITERS:
            names = [name.strip().lower() for name in _cells(header, delimiter) or [""]]
            found.append((len(known & set(names)), delimiter, names))
        _, self._delimiter, names = max(found, key=itemgetter(0))  # what finds most of what is wanted
        if not any(names):
            raise ConfigError(f"{path}, row 1: the file is empty, a header is wanted")
        missing = sorted(name for name, may in wanted.items() if name.lower() not in names and not may)
        if missing:
            raise ConfigError(f"{path}, row 1: no column {', '.join(missing)}")
        twice = sorted(name for name in wanted if names.count(name.lower()) > 1)
        if twice:
            raise ConfigError(f"{path}, row 1: two columns {', '.join(twice)}: which one counts?")
        self._width = len(names)
        self._place = {name: names.index(name.lower()) for name in wanted if name.lower() in names}
        self.ignored = [name for name in names if name and name not in known]
        self.lacking = sorted(wanted.keys() - self._place.keys())
        self.lines = 0
        self.drives: list[Drive] = []  # each has a good row
        self._by_vehicle: dict[str, Drive] = {}
        self.unassigned: list[str] = []
        """Bad rows before there was a drive to count them with, and those whose vehicle is not known."""

    def take(self, number: int, line: str) -> None:
        """Make a line a good row or a bad one."""
        self.lines += 1
        cells, column = _cells(line, self._delimiter), self._meaning.vehicle
        if cells is None or len(cells) != self._width:
            why = f"{len(cells)} cells, the header has {self._width}" if cells else "a quote is not closed"
            self.unassigned.append(f"{number}: {why}")
            return
        several = column is not None
        vehicle = cells[self._place[column.column]].strip() if column is not None else self.name
        drive = self._by_vehicle.get(vehicle)
        t_ms, reason = self._utc_ms(cells)
        if not vehicle:
            reason = "no vehicle"
        elif not reason and drive is not None and t_ms <= drive.rows[-1].t_ms:
            reason = "time does not advance"
        if reason:
            (drive.bad_rows if drive is not None else self.unassigned).append(f"{number}: {reason}")
            return
        if drive is None:
            whose = vehicle if several and VEHICLE_ID.fullmatch(vehicle) else vehicles.make(vehicle)
            name = f"{self.name}/{vehicle}" if several else self.name
            drive = self._by_vehicle[vehicle] = Drive(name, whose, self.name)
            self.drives.append(drive)
        self._add_row(drive, number, t_ms, cells)

    def _add_row(self, drive: Drive, line: int, t_ms: int, cells: Sequence[str]) -> None:
        """Add a line's row to its drive; what in it was no number or out of range is a bad value."""
        place, meaning = self._place, self._meaning
        values: dict[str, float | None] = {}
        for name, column in meaning.signals.items():
            if column.column not in place:
                continue
            text = cells[place[column.column]].strip()
            value, signal = _number(text, column, meaning.decimal), BY_NAME[name]
            inside = value is not None and signal.minimum <= value <= signal.maximum
            values[name] = value if inside else None
            if text and not inside and text.upper() not in meaning.missing:
                drive.bad_values.append(f"{line}: {name} {text!r}")
        if values.get("lat_deg") is None or values.get("lon_deg") is None:  # half a position is none
            values |= {name: None for name in ("lat_deg", "lon_deg") if name in values}
        check, check_kmh = meaning.speed_check, None
        if check is not None and check.column in place:
            check_kmh = _number(cells[place[check.column]].strip(), check, meaning.decimal)
        drive.rows.append(Row(t_ms, values, check_kmh, line))

    def _utc_ms(self, cells: Sequence[str]) -> tuple[int, str]:
        """UTC time in ms and, where there is none, why. The first format that fits counts."""
        (columns, formats), zone = self._meaning.stamp, self._meaning.zone
        text = " ".join(cells[self._place[column]].strip() for column in columns)
        for pattern in formats:
            found = _moment_ms(text, pattern, zone)
            if found is not None:
                inside = 0 <= found <= LATEST_MS
                return (found, "") if inside else (0, f"time {text!r} is before 1970 or beyond reason")
        names = [f"{p} with a zone" if p == "iso" and zone is None else p for p in formats]
        return 0, f"time {text!r} is not {'one of ' if len(names) > 1 else ''}{', '.join(names)}"


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


def _moment_ms(text: str, pattern: str, zone: ZoneInfo | None) -> int | None:
    """A time without a zone is local time of ``zone``."""
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
