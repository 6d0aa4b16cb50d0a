"""Crash records as ``odograph crash`` prints them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from infra.contract.errors import ConfigError
from stream_jobs.crashes.bundle import Evidence, locked
from stream_jobs.crashes.custody import plain

Row = Mapping[str, Any]


def rows_text(rows: Iterable[Row]) -> str:
    """A line a record."""
    return "\n".join(_line(row) for row in rows) or "no crash records"


def _line(row: Row) -> str:
    delta = "    -" if row["delta_v_max_kmh"] is None else f"{row['delta_v_max_kmh']:5.0f}"
    bag = {True: "air bag", False: "-", None: "?"}[row["airbag_deployed"]]
    defects = row["defects"]
    state = "not checked" if defects is None else f"{len(defects)} defects" if defects else "whole"
    state = state if row["hash_ok"] else "SEAL BROKEN"
    return (
        f"{_at(row['event_time'])} {row['vehicle_id']:17} {plain(row['crash_id']):20} {delta} km/h "
        f"{bag:8} {row['verdict']:11} {state:12} {'locked' if row['locked_at'] else 'open'}"
    )


def _at(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def rows_json(rows: Iterable[Row]) -> str:
    """Records as JSON."""
    return orjson.dumps(list(rows), option=orjson.OPT_INDENT_2).decode()


def evidence_text(found: Evidence) -> str:
    """One record, everything but its tables' rows."""
    record = found.record
    lines = [_line(record)]
    lines += [f"  {reason}" for reason in record["reasons"]]
    lines += [f"  defect: {d['element']}: {d['fault']}: {d['detail']}" for d in record["defects"] or []]
    if record["locked_at"]:
        lines.append(f"  locked {locked(record)}")
    lines.append(f"  {len(found.delta_v)} delta-V points, {len(found.pre_crash)} samples before time zero")
    lines += [
        f"  custody {e.entry}: {_at(e.at)} {e.action} by {e.actor} {e.digest[:12]} {e.detail}".rstrip()
        for e in found.custody
    ]
    return "\n".join(lines)


def evidence_json(found: Evidence) -> str:
    """One record with its tables."""
    return orjson.dumps(found, option=orjson.OPT_INDENT_2).decode()


def one_line(option: str, text: str) -> str:
    """What goes into the custody log: not empty, no control characters. Raises ConfigError."""
    if not text.strip() or plain(text) != text:
        raise ConfigError(f"{option}: wanted is a line of text")
    return text
