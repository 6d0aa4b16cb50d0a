"""Rules and alerts as text for a terminal; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from infra.clients.tables import aligned
from stream_jobs.reprocess.backtest import Change, Comparison, Episode, by_rule

Row = Mapping[str, Any]


def rule_table(rows: Sequence[Row]) -> str:
    """A line a rule."""
    lines = [
        (row["id"], f"v{row['version']}", row["severity"], row["query"], row["kind"], row["message"])
        for row in rows
    ]
    return aligned([("rule", "version", "severity", "query", "kind", "message"), *lines])


def alert_table(rows: Sequence[Row]) -> str:
    """A line an alert."""
    if not rows:
        return "no alerts"
    head = ("no", "severity", "state", "vehicle", "rule", "opened (UTC)", "for", "value", "limit", "message")
    return aligned([head, *(_alert_line(row) for row in rows)])


def _alert_line(row: Row) -> tuple[str, ...]:
    marks = ["active" if row["active"] else "over"]
    marks += ["seen"] if row["acknowledged"] else []
    marks += ["late"] if row["late"] else []
    marks += ["silenced"] if row["silenced_until"] is not None else []
    return (
        str(row["alert_no"]), row["severity"], ", ".join(marks), row["vehicle_id"], row["rule"],
        _time(row["opened_at"]), _span(row["duration_s"]), _number(row["value"]), _number(row["limit_value"]),
        row["message"],
    )  # fmt: skip


def alert_page(row: Row) -> str:
    """One alert, line by line, with its history and its evidence."""
    way = ("event_to_received_ms", "received_to_alerted_ms", "alerted_to_stored_ms")
    lines = [
        f"alert {row['alert_no']}  {row['severity']}  {row['rule']} v{row['rule_version']}: {row['message']}",
        f"vehicle {row['vehicle_id']} {row['model'] or ''}".rstrip(),
        f"since {_time(row['since_at'])}  opened {_time(row['opened_at'])}  last {_time(row['last_at'])}  "
        f"cleared {_time(row['cleared_at'])}  lasted {_span(row['duration_s'])}",
        f"value {_number(row['value'])}  worst {_number(row['worst_value'])}  "
        f"limit {_number(row['limit_value'])}  findings {row['findings']}{'  late' if row['late'] else ''}",
        "event to receipt, alert, table: " + ", ".join(f"{_number(row[key])} ms" for key in way),
        "", "history:",
        *(_change_line(change) for change in row["history"]),
        "", f"evidence: {len(row['evidence'])} frames{'' if row['evidence_at'] else ', not collected yet'}",
        *(
            f"  {_time(frame['t0'])}  boot {frame['boot_id']} seq {frame['seq']}  {frame['verdict']}  "
            f"{frame['kafka_topic']}/{frame['partition']}/{frame['log_offset']}"
            for frame in row["evidence"]
        ),
    ]  # fmt: skip
    return "\n".join(lines)


def _change_line(change: Row) -> str:
    who = f"  by {change['by_whom']}" if change["by_whom"] else ""
    note = f"  ({change['note']})" if change["note"] else ""
    what = (
        f"{_time(change['event_time'])}  {change['change']}  {change['severity']}  {_number(change['value'])}"
    )
    return f"  {what}{who}{note}"


def comparison_page(found: Comparison) -> str:
    """A line a rule, then the alerts that come and go."""
    counts = by_rule(found)
    if not counts:
        return "no alerts, neither by the rules in force nor by the changed ones"
    head = ("rule", "in force", "changed", "raised", "lost", "kept")
    lines = [head, *((rule, *map(str, count.values())) for rule, count in counts.items())]
    parts = [aligned(lines)]
    for word, group in (("raised", found.raised), ("lost", found.lost)):
        if group:
            rows = [_episode_line(episode) for episode in group]
            title = ("vehicle", "rule", "severity", "opened (UTC)", "ended", "worst", "limit")
            parts += ["", f"{word}:", aligned([title, *rows])]
    moved = [
        change for change in found.kept if change.later_s or change.before.severity != change.after.severity
    ]
    if moved:
        heads = ("vehicle", "rule", "opened (UTC)", "later by s", "severity")
        parts += ["", "kept, with a change:", aligned([heads, *map(_moved_line, moved)])]
    return "\n".join(parts)


def _episode_line(episode: Episode) -> tuple[str, ...]:
    return (
        episode.vehicle_id, episode.rule, episode.severity, _ms(episode.opened_ms), _ms(episode.ended_ms),
        _number(episode.value), _number(episode.limit),
    )  # fmt: skip


def _moved_line(change: Change) -> tuple[str, ...]:
    severity = change.after.severity
    if severity != change.before.severity:
        severity = f"{change.before.severity} to {severity}"
    after = change.after
    return after.vehicle_id, after.rule, _ms(after.opened_ms), f"{change.later_s:+.0f}", severity


def _ms(moment_ms: int | None) -> str:
    return "-" if moment_ms is None else _time(datetime.fromtimestamp(moment_ms / 1000, UTC))


def _time(moment: datetime | None) -> str:
    return "-" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def _number(value: Any) -> str:
    return "-" if value is None else f"{float(value):.4g}"


def _span(seconds: Any) -> str:
    if seconds is None:
        return "-"
    minutes, rest = divmod(round(float(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s"
