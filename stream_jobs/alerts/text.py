"""Rules and alerts as text for a terminal; pure."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from infra.clients.tables import aligned, cell, plain

if TYPE_CHECKING:  # it comes with Spark
    from stream_jobs.reprocess.backtest import Comparison

Row = Mapping[str, Any]
_number = partial(cell, form=".4g")


def rule_table(rows: Sequence[Row]) -> str:
    """A line a rule."""
    names = ("severity", "query", "kind", "message")
    lines = ((row["id"], f"v{row['version']}", *(row[name] for name in names)) for row in rows)
    return aligned(lines, ("rule", "version", *names))


def alert_table(rows: Sequence[Row]) -> str:
    """A line an alert."""
    if not rows:
        return "no alerts"
    heads = ("no", "severity", "state", "vehicle", "rule", "opened (UTC)", "for", "value", "limit", "message")
    lines = (
        (str(row["alert_no"]), row["severity"], _state(row, seen=row["acknowledged"], late=row["late"]),
         row["vehicle_id"], row["rule"], row["opened_at"], _span(row["duration_s"]), _number(row["value"]),
         _number(row["limit_value"]), row["message"])
        for row in rows
    )  # fmt: skip
    return aligned(lines, heads)


def alert_page(row: Row) -> str:
    """One alert, line by line, with its history and its evidence."""
    way = ("event_to_received_ms", "received_to_alerted_ms", "alerted_to_stored_ms")
    lines = [
        f"alert {row['alert_no']}  {row['severity']}  {row['rule']} v{row['rule_version']}: {row['message']}",
        f"vehicle {row['vehicle_id']} {row['model'] or ''}".rstrip(),
        f"since {cell(row['since_at'])}  opened {cell(row['opened_at'])}  last {cell(row['last_at'])}  "
        f"cleared {cell(row['cleared_at'])}  lasted {_span(row['duration_s'])}",
        f"value {_number(row['value'])}  worst {_number(row['worst_value'])}  "
        f"limit {_number(row['limit_value'])}  findings {row['findings']}{'  late' if row['late'] else ''}",
        "event to receipt, alert, table: " + ", ".join(f"{_number(row[key])} ms" for key in way),
        "", "history:",
        *(_change_line(change) for change in row["history"]),
        "", f"evidence: {_evidence(row)}",
        *(
            f"  {cell(frame['t0'])}  boot {frame['boot_id']} seq {frame['seq']}  {frame['verdict']}  "
            f"{frame['kafka_topic']}/{frame['partition']}/{frame['log_offset']}"
            for frame in row["evidence"]
        ),
    ]  # fmt: skip
    return "\n".join(map(plain, lines))


def _evidence(row: Row) -> str:
    """How many frames around an alert there are, and why there are none."""
    if not row["evidence"] and row["evidence_frames"]:
        return f"{row['evidence_frames']} frames that are no longer kept"
    return f"{len(row['evidence'])} frames{'' if row['evidence_at'] else ', not collected yet'}"


def incident_table(rows: Sequence[Row]) -> str:
    """A line an incident."""
    if not rows:
        return "no incidents"
    heads = ("no", "severity", "state", "whose", "cause", "opened (UTC)", "for", "alerts", "with", "message")
    return aligned([_incident_cells(row) for row in rows], heads)


def _incident_cells(row: Row) -> tuple[str, ...]:
    return (
        str(row["incident_no"]), row["severity"], _state(row, seen=row["acknowledged_at"] is not None),
        row["vehicle_id"] or f"fleet: {row['vehicles']} vehicles", row["cause"], cell(row["opened_at"]),
        _span(row["duration_s"]), str(row["alerts"]), row["assigned_to"] or "-", row["message"],
    )  # fmt: skip


def incident_page(row: Row) -> str:
    """One incident, line by line, with its alerts and what was done and said."""
    number, severity, state, whose, cause, *_ = _incident_cells(row)
    heads = ("no", "vehicle", "rule", "severity", "opened (UTC)", "cleared", "value", "limit")
    timeline = (
        (str(a["alert_no"]), a["vehicle_id"], a["rule"], a["severity"], a["opened_at"], a["cleared_at"],
         _number(a["value"]), _number(a["limit_value"]))
        for a in row["timeline"]
    )  # fmt: skip
    seen = f"seen by {row['acknowledged_by']} {cell(row['acknowledged_at'])}"
    return "\n".join([
        plain(f"incident {number}  {severity}  {cause}: {row['message']}"),
        f"{whose}  {state}  {seen if row['acknowledged_at'] else 'seen by nobody'}  "
        f"with {row['assigned_to'] or 'nobody'}",
        f"opened {cell(row['opened_at'])}  last {cell(row['last_at'])}  closed {cell(row['closed_at'])}  "
        f"lasted {_span(row['duration_s'])}  id {row['incident_id']}",
        "", f"alerts: {row['alerts']}", aligned(timeline, heads, "  "),
        "", "done and said:",
        aligned(((n["at"], n["kind"], n["by_whom"] or "-", n["text"] or "") for n in row["notes"]), (), "  "),
    ])  # fmt: skip


def _state(row: Row, **marks: bool) -> str:
    marks |= {"silenced": row["silenced_until"] is not None}
    return ", ".join(["active" if row["active"] else "over", *filter(marks.get, marks)])


def _change_line(change: Row) -> str:
    who = f"  by {change['by_whom']}" if change["by_whom"] else ""
    note = f"  ({change['note']})" if change["note"] else ""
    words = cell(change["event_time"]), change["change"], change["severity"], _number(change["value"])
    return f"  {'  '.join(words)}{who}{note}"


def comparison_page(found: "Comparison") -> str:
    """A line a rule, then the alerts that come and go."""
    counts = found.by_rule()
    if not counts:
        return "no alerts, neither by the rules in force nor by the changed ones"
    head = ("rule", "in force", "changed", "raised", "lost", "kept")
    parts = [aligned([head, *((rule, *map(str, count.values())) for rule, count in counts.items())])]
    for word, group in (("raised", found.raised), ("lost", found.lost)):
        if group:
            lines = [("vehicle", "rule", "severity", "opened (UTC)", "ended", "worst", "limit")]
            lines += [
                (a.vehicle_id, a.rule, a.severity, _ms(a.opened_ms), _ms(a.cleared_ms),
                 _number(a.worst_value), _number(a.limit))
                for a in group
            ]  # fmt: skip
            parts += ["", f"{word}:", aligned(lines)]
    moved = [("vehicle", "rule", "opened (UTC)", "later by s", "severity")]
    for change in found.kept:
        before, after, severity = change.before, change.after, change.after.severity
        if severity != before.severity:
            severity = f"{before.severity} to {severity}"
        if change.later_s or after.severity != before.severity:
            moved.append(
                (after.vehicle_id, after.rule, _ms(after.opened_ms), f"{change.later_s:+.0f}", severity)
            )
    if len(moved) > 1:
        parts += ["", "kept, with a change:", aligned(moved)]
    return "\n".join(parts)


def _ms(moment_ms: int | None) -> str:
    return cell(None if moment_ms is None else datetime.fromtimestamp(moment_ms / 1000, UTC))


def _span(seconds: Any) -> str:
    if seconds is None:
        return "-"
    minutes, rest = divmod(round(float(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s"
