"""What status, doctor and config show: tables for people, JSON for machines."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from rich.markup import escape
from rich.table import Table

from infra.clients.tables import rendered, table
from infra.contract.errors import OdographError
from infra.settings.settings import CONFIG_FILE, PREFIX, Settings, endpoints
from infra.stack.doctor import Finding
from infra.stack.kafka import records_by_topic
from infra.stack.stack import Stack
from infra.stack.status import Lag, Part, Sizes

GOOD, BAD = "green", "red"
SHOWN_BYTES = 1 << 20
"""Smaller tables without a retention are left out for people."""


def topic_counts(stack: Stack) -> dict[str, int]:
    """Records in each topic; nothing when Kafka cannot be asked."""
    try:
        found = endpoints(stack.settings)
        return records_by_topic(found.kafka_bootstrap, stack.settings.kafka.prefix)
    except OdographError:
        return {}  # the rows of the services say what is wrong with it


def status_text(rows: Sequence[Part], counts: dict[str, int], behind: Lag, big: Sizes) -> str:
    """The parts as a table, troubles below, then the topics, how far behind all is, and how big it is."""
    parts = table("part", "state", "address", "pid", "up", "MiB", "restarts")
    for row in rows:
        state = f"[{BAD if row.trouble else GOOD}]{row.state}[/]"
        memory = "" if row.memory_mb is None else f"{row.memory_mb:.0f}"
        numbers = (_span(row.up_s), memory, _text(row.restarts))
        parts.add_row(row.name, state, row.address, _text(row.pid), *numbers)
    lines = [f"{row.name}: {row.trouble}" for row in rows if row.trouble]
    lines += [f"{row.name}: [yellow]{escape(row.remark)}[/]" for row in rows if row.remark]
    topics = table("topic", "records", rows=[(name, f"{count:,}") for name, count in counts.items()])
    kept = [_tables(big)] if big.tables else []
    folders = ", ".join(f"{name} {_mib(size)}" for name, size in big.folder_bytes.items())
    on_disk = f"on the disk, MiB: {folders or 'nothing'}"
    return rendered(parts, *lines, *([topics] if counts else []), *_lag_lines(behind), *kept, on_disk)


def _tables(big: Sizes) -> Table:
    """Tables with a retention, and others of some size."""
    made = table("table", "MiB", "rows, about", "since", "kept")
    for one in big.tables or ():
        if one.kept_days is not None or one.since is not None or one.bytes >= SHOWN_BYTES:
            since = "" if one.since is None else f"{one.since:%Y-%m-%d}"
            kept = "for ever" if one.kept_days is None else f"{one.kept_days} days"
            made.add_row(one.name, _mib(one.bytes), f"{one.about_rows:,}", since, kept)
    return made


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f}"


def _lag_lines(behind: Lag) -> list[str]:
    """Lag in three ways, and the broker's queue; nothing of what did not answer."""
    lines = []
    if behind.records:
        each = ", ".join(f"{query} {count:,}" for query, count in behind.records.items())
        lines.append(f"records in Kafka not in a query's results: {each}")
    if (t := behind.times) is not None and t.newest_behind_s is not None:
        newest, watermark = _s(t.newest_behind_s), _s(t.watermark_behind_s)
        lines.append(f"event time behind now: newest {newest}, watermark {watermark}")
        view = f"p50 {_s(t.event_to_view_p50_s)}, p99 {_s(t.event_to_view_p99_s)}"
        lines.append(f"event to view in the last minute: {view}")
    if (b := behind.broker) is not None:
        dropped = f"[{BAD if b.dropped else GOOD}]{b.dropped:,} dropped[/]"
        lines.append(f"broker: {b.queued:,} messages wait, {dropped}, {b.clients} clients connected")
    return lines


def _s(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"{seconds:,.1f} s"


def _text(value: int | None) -> str:
    return "" if value is None else str(value)


def _span(seconds: float | None) -> str:
    if seconds is None:
        return ""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


def status_json(rows: Sequence[Part], counts: dict[str, int], behind: Lag, big: Sizes) -> str:
    """The parts, the topics, the lag, the sizes."""
    parts = [asdict(row) for row in rows]
    return _json({"parts": parts, "topics": counts, "lag": asdict(behind), "sizes": asdict(big)})


def doctor_text(found: Sequence[Finding]) -> str:
    """Each finding in a line; the next step under what is wrong."""
    made = table("", "examined", "finding")
    for finding in found:
        mark = f"[{GOOD}]ok[/]" if finding.fine else f"[{BAD}]wrong[/]"
        text = finding.detail if finding.fine else f"{finding.detail}\n-> {finding.next_step}"
        made.add_row(mark, finding.name, text)
    wrong = sum(not finding.fine for finding in found)
    return rendered(made, f"{wrong} of {len(found)} wrong" if wrong else f"all {len(found)} fine")


def doctor_json(found: Sequence[Finding]) -> str:
    """The findings."""
    return _json([asdict(finding) for finding in found])


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting in force; secrets are masked."""

    variable: str
    value: str
    source: str
    meaning: str


def settings_in_force(settings: Settings) -> list[Setting]:
    """Every setting, in the order of the declaration."""
    path = Path(CONFIG_FILE)
    file = tomllib.loads(path.read_text()) if path.exists() else {}
    found = []
    for section, info in Settings.model_fields.items():
        value = getattr(settings, section)
        if not isinstance(value, BaseModel):
            meaning = info.description or "time zone shown to people"
            found.append(_setting((section,), value, meaning, file))
            continue
        for key, field in type(value).model_fields.items():
            found.append(_setting((section, key), getattr(value, key), field.description or "", file))
    return found


def _setting(path: tuple[str, ...], value: object, meaning: str, file: dict[str, Any]) -> Setting:
    variable = f"{PREFIX}{'_'.join(path)}".upper()
    node: Any = file
    for key in path:
        node = node.get(key) if isinstance(node, dict) else None
    source = "environment" if variable in os.environ else CONFIG_FILE if node is not None else "default"
    return Setting(variable, str(value), source, meaning)


def config_text(rows: Sequence[Setting]) -> str:
    """The settings as a table."""
    cells = [(row.variable, row.value, row.source, row.meaning) for row in rows]
    return rendered(table("variable", "value", "from", "meaning", rows=cells))


def config_json(rows: Sequence[Setting]) -> str:
    """The settings by variable."""
    return _json({row.variable: {"value": row.value, "source": row.source} for row in rows})


def _json(value: object) -> str:
    return json.dumps(value, indent=1, default=str) + "\n"
