"""Recorded drives from CSV files. Pure: bytes in, rows out; frames are made in drive_frames.

Dirt is counted and named, never dropped in silence: every line below the header is a good row or a bad one.
A row without a readable time or vehicle is bad; a value that is no number or out of its signal's range is
"not available", and the row stays.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from edge_simulator import vin
from edge_simulator.recordings.drive_mapping import Meaning
from edge_simulator.recordings.drive_mapping import load_mapping as load_mapping  # noqa: PLC0414  others take it from here
from edge_simulator.recordings.drive_rows import Row, row_of
from edge_simulator.recordings.drive_times import utc_ms
from infra.contract.errors import ConfigError
from infra.contract.topics import VEHICLE_ID

DEFAULT_MAPPING = Path(__file__).with_name("rsk_twizy.yaml")
MAPPING_NAME = "mapping.yaml"
DELIMITERS = (",", ";", "\t", "|")


@dataclass(frozen=True, slots=True)
class Drive:
    """A vehicle's recorded drive. ``bad_rows`` and ``bad_values`` name line and reason."""

    name: str
    vehicle_id: str
    rows: Sequence[Row]
    bad_rows: Sequence[str]
    bad_values: Sequence[str]
    file: str = ""


@dataclass(frozen=True, slots=True)
class Recording:
    """What a file held: ``lines`` is good and bad rows of all drives together."""

    name: str
    lines: int
    drives: Sequence[Drive]
    ignored: Sequence[str]
    """Columns that mean nothing to the mapping."""
    lacking: Sequence[str]
    """Optional columns that are not there."""


def read_folder(folder: Path, mapping: Path | None = None) -> tuple[Meaning, list[Drive]]:
    """All drives of a folder by name, and their mapping: given, ``mapping.yaml`` beside them, or the Twizy's.

    Raises ConfigError where there is no folder, no CSV, or a file that cannot be used.
    """
    meaning, files = look_into(folder, mapping)
    return meaning, [drive for file in files for drive in read(file, meaning).drives]


def look_into(folder: Path, mapping: Path | None = None) -> tuple[Meaning, list[Path]]:
    """The mapping in force for a folder and its CSV files; raises ConfigError where there are none."""
    if not folder.is_dir():
        raise ConfigError(f"--drives {folder}: there is no such folder")
    beside = folder / MAPPING_NAME
    meaning = load_mapping(mapping or (beside if beside.is_file() else DEFAULT_MAPPING))
    files = sorted(p for p in folder.iterdir() if p.suffix.lower() == ".csv")
    if not files:
        raise ConfigError(f"--drives {folder}: there is no .csv file in it")
    return meaning, files


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
        why = f"; row {reader.homeless[0]}" if reader.homeless else ""
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
    """The delimiter, and the column names in lower case: the delimiter that finds most of what is wanted."""
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
    """A drive in the making."""

    rows: list[Row] = field(default_factory=list)
    bad_rows: list[str] = field(default_factory=list)
    bad_values: list[str] = field(default_factory=list)


class _Reader:
    """Takes the lines of one file."""

    def __init__(
        self, name: str, meaning: Meaning, delimiter: str, width: int, place: Mapping[str, int]
    ) -> None:
        self._name = name
        self._meaning = meaning
        self._delimiter = delimiter
        self._width = width
        self._place = place
        self.lines = 0
        self.drafts: dict[str, _Draft] = {}
        """By vehicle, in order of appearance; each has a good row."""
        self.homeless: list[str] = []
        """Bad rows before there was a drive to count them with, and those whose vehicle is not known."""

    def take(self, number: int, line: str) -> None:
        """Make a line a good row or a bad one."""
        self.lines += 1
        cells = _cells(line, self._delimiter)
        if cells is None or len(cells) != self._width:
            why = (
                "a quote is not closed"
                if cells is None
                else f"{len(cells)} cells, the header has {self._width}"
            )
            self.homeless.append(f"{number}: {why}")
            return
        vehicle = self._vehicle(cells)
        draft = self.drafts.get(vehicle)
        t_ms, reason = utc_ms(
            [cells[self._place[c]] for c in self._meaning.stamp.columns],
            self._meaning.stamp,
            self._meaning.zone,
        )
        if not vehicle:
            reason = "no vehicle"
        elif not reason and draft is not None and t_ms <= draft.rows[-1].t_ms:
            reason = "time does not advance"
        if reason:
            (draft.bad_rows if draft is not None else self.homeless).append(f"{number}: {reason}")
            return
        row, wrong = row_of(number, t_ms, cells, self._place, self._meaning)
        draft = self.drafts.setdefault(vehicle, _Draft())
        draft.rows.append(row)
        draft.bad_values += [f"{number}: {what}" for what in wrong]

    def _vehicle(self, cells: Sequence[str]) -> str:
        column = self._meaning.vehicle
        return self._name if column is None else cells[self._place[column]].strip()

    def drives(self) -> list[Drive]:
        """The file's drives; bad rows of no known vehicle are counted with the first one."""
        several = self._meaning.vehicle is not None
        found = []
        for number, (vehicle, draft) in enumerate(self.drafts.items()):
            bad = draft.bad_rows if number else sorted([*self.homeless, *draft.bad_rows], key=_line_of)
            whose = vehicle if VEHICLE_ID.fullmatch(vehicle) and several else vin.make(vehicle)
            name = f"{self._name}/{vehicle}" if several else self._name
            found.append(Drive(name, whose, draft.rows, bad, draft.bad_values, self._name))
        return found


def _line_of(named: str) -> int:
    return int(named.partition(":")[0])
