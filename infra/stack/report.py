"""Tables and JSON for people and machines. Rows in, text out."""

from __future__ import annotations

import io
import json
import os
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from rich.console import Console
from rich.markup import escape
from rich.table import Table

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
    table = _table("part", "state", "address", "pid", "up", "MiB", "restarts")
    for row in rows:
        color = BAD if row.trouble else GOOD
        cells = (row.name, f"[{color}]{row.state}[/]", row.address, _text(row.pid), _span(row.up_s))
        memory = "" if row.memory_mb is None else f"{row.memory_mb:.0f}"
        table.add_row(*cells, memory, _text(row.restarts))
    lines = [f"{row.name}: {row.trouble}" for row in rows if row.trouble]
    lines += [f"{row.name}: [yellow]{escape(row.remark)}[/]" for row in rows if row.remark]
    topics = _table("topic", "records")
    for name, count in counts.items():
        topics.add_row(name, f"{count:,}")
    kept = [_tables(big)] if big.tables else []
    return _render(table, *lines, *([topics] if counts else []), *_lag_lines(behind), *kept, _folders(big))


def _tables(big: Sizes) -> Table:
    """Tables with a retention, and others of some size."""
    table = _table("table", "MiB", "rows, about", "since", "kept")
    for one in big.tables or ():
        if one.kept_days is not None or one.since is not None or one.bytes >= SHOWN_BYTES:
            since = "" if one.since is None else f"{one.since:%Y-%m-%d}"
            kept = "for ever" if one.kept_days is None else f"{one.kept_days} days"
            table.add_row(one.name, _mib(one.bytes), f"{one.about_rows:,}", since, kept)
    return table


def _folders(big: Sizes) -> str:
    each = ", ".join(f"{name} {_mib(size)}" for name, size in big.folder_bytes.items())
    return f"on the disk, MiB: {each or 'nothing'}"


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f}"


def _lag_lines(behind: Lag) -> list[str]:
    """Lag in three ways, and the broker's queue; nothing of what did not answer."""
    lines = []
    if behind.records:
        each = ", ".join(f"{query} {count:,}" for query, count in behind.records.items())
        lines.append(f"records in Kafka not in a query's results: {each}")
    if behind.times is not None and behind.times.newest_behind_s is not None:
        t = behind.times
        lines.append(
            f"event time behind now: newest {_s(t.newest_behind_s)}, watermark {_s(t.watermark_behind_s)}"
        )
        view = f"p50 {_s(t.event_to_view_p50_s)}, p99 {_s(t.event_to_view_p99_s)}"
        lines.append(f"event to view in the last minute: {view}")
    if behind.broker is not None:
        b = behind.broker
        color = BAD if b.dropped else GOOD
        queue = f"{b.queued:,} messages wait, [{color}]{b.dropped:,} dropped[/]"
        lines.append(f"broker: {queue}, {b.clients} clients connected")
    return lines


def _s(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"{seconds:,.1f} s"


def status_json(rows: Sequence[Part], counts: dict[str, int], behind: Lag, big: Sizes) -> str:
    """The parts, the topics, the lag, the sizes."""
    parts = [asdict(row) for row in rows]
    return _json({"parts": parts, "topics": counts, "lag": asdict(behind), "sizes": asdict(big)})


def doctor_text(found: Sequence[Finding]) -> str:
    """Each finding in a line; the next step under what is wrong."""
    table = _table("", "examined", "finding")
    for finding in found:
        mark = f"[{GOOD}]ok[/]" if finding.fine else f"[{BAD}]wrong[/]"
        text = finding.detail if finding.fine else f"{finding.detail}\n-> {finding.next_step}"
        table.add_row(mark, finding.name, text)
    wrong = sum(not finding.fine for finding in found)
    return _render(table, f"{wrong} of {len(found)} wrong" if wrong else f"all {len(found)} fine")


def doctor_json(found: Sequence[Finding]) -> str:
    """The findings."""
    return _json([asdict(finding) for finding in found])


def config_text(rows: Sequence[Setting]) -> str:
    """The settings as a table."""
    table = _table("variable", "value", "from", "meaning")
    for row in rows:
        table.add_row(row.variable, row.value, row.source, row.meaning)
    return _render(table)


def config_json(rows: Sequence[Setting]) -> str:
    """The settings by variable."""
    return _json({row.variable: {"value": row.value, "source": row.source} for row in rows})


def _json(value: object) -> str:
    return json.dumps(value, indent=1, default=str) + "\n"


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _render(*parts: Table | str) -> str:
    """Text for standard output: coloured on a terminal, plain and wide elsewhere."""
    console = Console(highlight=False)
    out = io.StringIO()
    wide = None if console.is_terminal else 200
    Console(file=out, highlight=False, force_terminal=console.is_terminal, width=wide or console.width).print(
        *parts, sep="\n"
    )
    return out.getvalue()


def _text(value: int | None) -> str:
    return "" if value is None else str(value)


def _span(seconds: float | None) -> str:
    if seconds is None:
        return ""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting."""

    variable: str
    value: str
    source: str
    meaning: str


def settings_in_force(settings: Settings) -> list[Setting]:
    """Every setting, in the order of the declaration."""
    file = _file()
    return [
        Setting(variable, str(value), _source(variable, path, file), meaning)
        for variable, path, value, meaning in _walk(settings)
    ]


def _walk(settings: Settings) -> Iterator[tuple[str, tuple[str, ...], Any, str]]:
    for section, info in Settings.model_fields.items():
        value = getattr(settings, section)
        if not isinstance(value, BaseModel):
            meaning = info.description or "time zone shown to people"
            yield f"{PREFIX}{section}".upper(), (section,), value, meaning
            continue
        for key, field in type(value).model_fields.items():
            variable = f"{PREFIX}{section}_{key}".upper()
            yield variable, (section, key), getattr(value, key), field.description or ""


def _file() -> dict[str, Any]:
    path = Path(CONFIG_FILE)
    return tomllib.loads(path.read_text()) if path.exists() else {}


def _source(variable: str, path: tuple[str, ...], file: dict[str, Any]) -> str:
    if variable in os.environ:
        return "environment"
    node: Any = file
    for key in path:
        node = node.get(key) if isinstance(node, dict) else None
    return CONFIG_FILE if node is not None else "default"
