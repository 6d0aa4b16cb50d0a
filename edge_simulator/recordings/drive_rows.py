"""The cells of a recorded line as signals in the contract's units."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from edge_simulator.recordings.drive_mapping import Column, Meaning
from infra.contract.signals import BY_NAME


@dataclass(frozen=True, slots=True)
class Row:
    """One good row: UTC time and the signals that were readable (None: not available)."""

    t_ms: int
    values: Mapping[str, float | None]
    check_kmh: float | None = None
    """The speed by its second source."""
    line: int = 0


def row_of(
    line: int, t_ms: int, cells: Sequence[str], place: Mapping[str, int], meaning: Meaning
) -> tuple[Row, list[str]]:
    """A line's row, and what in it was no number or out of range. ``place`` has the columns' indices."""
    values: dict[str, float | None] = {}
    wrong = []
    for name, value, text in _readings(cells, place, meaning):
        signal = BY_NAME[name]
        inside = value is not None and signal.minimum <= value <= signal.maximum
        values[name] = value if inside else None
        if text and not inside and text.upper() not in meaning.missing:
            wrong.append(f"{name} {text!r}")
    if values.get("lat_deg") is None or values.get("lon_deg") is None:
        values |= {name: None for name in ("lat_deg", "lon_deg") if name in values}  # half a position is none
    check = meaning.speed_check
    check_kmh = None
    if check is not None and check.name in place:
        check_kmh = _number(cells[place[check.name]].strip(), check, meaning.decimal)
    return Row(t_ms, values, check_kmh, line), wrong


def _readings(
    cells: Sequence[str], place: Mapping[str, int], meaning: Meaning
) -> Iterator[tuple[str, float | None, str]]:
    for name, column in meaning.signals.items():
        if column.name in place:
            text = cells[place[column.name]].strip()
            yield name, _number(text, column, meaning.decimal), text


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
