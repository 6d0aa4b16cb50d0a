"""The time of a recorded row, by the formats its mapping names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from edge_simulator.recordings.drive_mapping import EPOCHS, Stamp

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
LATEST_MS = 253_402_214_400_000
"""The last day of the year 9999: later moments have no date."""


def utc_ms(cells: Sequence[str], stamp: Stamp, zone: ZoneInfo | None) -> tuple[int, str]:
    """UTC time in ms of the stamp's cells, and why there is none (empty when there is).

    The first format that fits counts. A time without a zone is local time of ``zone``.
    """
    text = " ".join(cell.strip() for cell in cells)
    for pattern in stamp.formats:
        found = _number(text, EPOCHS[pattern]) if pattern in EPOCHS else _moment(text, pattern, zone)
        if found is not None:
            inside = 0 <= found <= LATEST_MS
            return (found, "") if inside else (0, f"time {text!r} is before 1970 or beyond reason")
    names = [f"{p} with a zone" if p == "iso" and zone is None else p for p in stamp.formats]
    wanted = names[0] if len(names) == 1 else f"one of {', '.join(names)}"
    return 0, f"time {text!r} is not {wanted}"


def _number(text: str, unit_ms: float) -> int | None:
    try:
        value = float(text) * unit_ms
    except ValueError:
        return None
    return round(value) if math.isfinite(value) and "_" not in text else None


def _moment(text: str, pattern: str, zone: ZoneInfo | None) -> int | None:
    try:
        moment = datetime.fromisoformat(text) if pattern == "iso" else datetime.strptime(text, pattern)
        if moment.tzinfo is None:
            if zone is None:
                return None
            moment = moment.replace(tzinfo=zone)
        return round((moment - _EPOCH) / _MS)
    except (ValueError, OverflowError):
        return None
