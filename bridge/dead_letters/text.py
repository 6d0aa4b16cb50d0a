"""Dead letters for people and machines: rows in, text out. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from bridge.dead_letters.letter import Letter, Marked, dump, utc
from bridge.dead_letters.recheck import Report
from infra.contract.errors import ConfigError
from infra.settings.values import duration_ms

NAMED: Final = 50
"""Letters that stay are named one by one up to this many; JSON names all."""

DETAIL_CHARS: Final = 60
Row = dict[str, Any]


def since_ms(text: str, now_ms: int) -> int:
    """So long before ``now_ms`` (``10m``), or a time, UTC unless it has a zone; raises ConfigError."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return now_ms - duration_ms(text, "--since")
    at = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if at.timestamp() < 0:
        raise ConfigError(f"--since {text}: a time after 1970 is wanted")
    return round(at.timestamp() * 1000)


def rows(letters: Iterable[Letter], marked: Marked) -> list[Row]:
    """A row a letter, ``reinjected`` among its fields."""
    return [x.row() | {"reinjected": (x.offset, x.digest) in marked} for x in letters]


def list_text(found: Sequence[Row], by_reason: Mapping[str, int]) -> str:
    """A line a letter, then the counts."""
    lines = [
        f"{row['offset']:>8} {row['received']} {row['reason']:17} {row['vehicle_id'] or '-':17} "
        f"{row['bytes']:>7} {'again' if row['reinjected'] else '     '} {_short(row['detail'])}"
        for row in found
    ]
    head = f"{'offset':>8} {'received':24} {'reason':17} {'vehicle':17} {'bytes':>7} {'':5} detail"
    counts = [f"{count:>8,} {reason}" for reason, count in sorted(by_reason.items())]
    total = sum(by_reason.values())
    summary = f"{total:,} dead letters" + (f", the newest {len(found)} shown" if len(found) < total else "")
    return "\n".join([*([head, *lines] if lines else []), summary, *counts])


def list_json(found: Sequence[Row], by_reason: Mapping[str, int]) -> str:
    """The rows and the counts."""
    return _json({"letters": found, "by_reason": dict(sorted(by_reason.items()))})


def letter_text(letter: Letter, limit: int) -> str:
    """Where it lies, its headers, its bytes; of more bytes than ``limit`` the first."""
    headers = [f"{name}: {value.decode(errors='backslashreplace')}" for name, value in letter.headers.items()]
    lines = [
        f"offset {letter.offset}, received {utc(letter.at_ms)}, vehicle {letter.vehicle_id or '-'}",
        *headers,
        f"sha256: {letter.digest}",
        f"{len(letter.value)} bytes" + (f", the first {limit}:" if len(letter.value) > limit else ":"),
        dump(letter.value[:limit]),
    ]
    return "\n".join(lines)


def report_text(report: Report, dry_run: bool) -> str:
    """Who stays and why, then the sums."""
    lines = [f"{x.offset:>8} stays: {x.reason}: {_short(x.detail, 120)}" for x in report.stays[:NAMED]]
    if len(report.stays) > NAMED:
        lines.append(f"and {len(report.stays) - NAMED} more")
    went = _counts(Counter(report.went.values()))
    lines.append(f"{'would go in' if dry_run else 'went in'}: {len(report.went)}{went}")
    if report.before:
        lines.append(f"went in before: {len(report.before)} (--again sends them once more)")
    if report.stays:
        lines.append(f"stay: {len(report.stays)}{_counts(Counter(x.reason for x in report.stays))}")
    return "\n".join(lines)


def report_json(report: Report) -> str:
    """Every offset and what became of it."""
    went = {str(offset): channel for offset, channel in report.went.items()}
    return _json({"went": went, "before": report.before, "stays": [asdict(x) for x in report.stays]})


def _counts(counts: Mapping[str, int]) -> str:
    return f" ({', '.join(f'{name} {count}' for name, count in sorted(counts.items()))})" if counts else ""


def _short(detail: str, chars: int = DETAIL_CHARS) -> str:
    return detail if len(detail) <= chars else detail[: chars - 3] + "..."


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
