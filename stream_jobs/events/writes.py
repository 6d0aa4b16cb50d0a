"""One batch of records into the database, within the transaction of the cursor that is handed in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from infra.contract.errors import ContractError
from stream_jobs.alerts.derive import Alert, Finding, merge
from stream_jobs.crashes.chunks import Rejected, part_row, write_parts
from stream_jobs.events import sql
from stream_jobs.events.rows import (
    ClockRange,
    Record,
    Row,
    as_json,
    crash_row,
    dead_letter_row,
    finding,
    newest,
    status_row,
)
from stream_jobs.rules.model import CLEAR_FOR_S, Rule

Offsets = dict[tuple[str, int], int]
"""Next offset by topic (short name) and partition."""


class Cursor(Protocol):
    """What is needed of a database cursor whose rows are mappings."""

    @property
    def rowcount(self) -> int:
        """Rows that the last statement touched."""

    def execute(self, query: str, params: Mapping[str, Any]) -> Any:
        """Run a statement."""

    def fetchall(self) -> list[Row]:
        """All rows of the last statement."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Records by what becomes of them."""

    findings: list[Finding] = field(default_factory=list)
    crashes: list[Row] = field(default_factory=list)
    crash_parts: list[Row] = field(default_factory=list)
    statuses: list[Row] = field(default_factory=list)
    dead_letters: list[Row] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ClearTimes:
    """How long an alert stays without a finding, by rule; a rule that is not known has the default."""

    by_rule: Mapping[str, float | None]

    @classmethod
    def of(cls, rules: Sequence[Rule], kept: Sequence[str] = ()) -> ClearTimes:
        """Those of the rules in force; ``kept`` are rules whose finder says itself when it is over."""
        return cls({rule.id: rule.clear_for_s for rule in rules} | dict.fromkeys(kept))

    def ms(self, rule: str) -> int | None:
        """Milliseconds; None: does not clear by itself. What follows a point is a part of the rule."""
        seconds = self.by_rule.get(rule.partition(".")[0], CLEAR_FOR_S)
        return None if seconds is None else round(seconds * 1000)

    def params(self) -> dict[str, Any]:
        """For the statement that clears."""
        timed = {rule: seconds for rule, seconds in self.by_rule.items() if seconds is not None}
        kept = [rule for rule, seconds in self.by_rule.items() if seconds is None]
        return {"clear_for_s": as_json(timed), "default_s": CLEAR_FOR_S, "kept": kept}


class OvertakenError(Exception):
    """The stored offsets are not those that this process holds: another moved them, or they were reset."""


def load_offsets(cursor: Cursor, consumer: str, places: Sequence[tuple[str, int]]) -> Offsets:
    """Where to read on at each (topic, partition); 0 where nothing was read yet."""
    rows = [{"topic": topic, "partition": partition} for topic, partition in places]
    cursor.execute(sql.ENSURE_OFFSETS, {"consumer": consumer, "rows": as_json(rows)})
    cursor.execute(sql.OFFSETS, {"consumer": consumer})
    stored = {(row["topic"], row["partition"]): row["next_offset"] for row in cursor.fetchall()}
    return {place: stored[place] for place in places}


def move_offsets(cursor: Cursor, consumer: str, held: Offsets, after: Offsets) -> None:
    """Move the offsets on; raises OvertakenError unless they stand where ``held`` says.

    It locks their rows: two processes on the same topics follow one after the other, and the second fails.
    """
    rows = [
        {"topic": topic, "partition": partition, "held": held[topic, partition], "next_offset": offset}
        for (topic, partition), offset in sorted(after.items())
    ]
    cursor.execute(sql.MOVE_OFFSETS, {"consumer": consumer, "rows": as_json(rows)})
    if cursor.rowcount != len(rows):
        raise OvertakenError("the stored offsets were moved by another process or reset")


def clear(cursor: Cursor, clear_times: ClearTimes) -> int:
    """End the alerts whose vehicle went on long enough without a finding; how many."""
    cursor.execute(sql.CLEAR_ALERTS, clear_times.params())
    cleared = cursor.rowcount
    cursor.execute(sql.MARK_SILENCED, {})
    return cleared


def sort_out(records: Sequence[Record], clocks: ClockRange) -> Batch:
    """The records decoded; what cannot be understood is among the rejected."""
    batch = Batch()
    for record in records:
        try:
            _sort_in(batch, record, clocks)
        except ContractError as error:
            batch.rejected.append((record, error))
        except Exception as error:  # noqa: BLE001  one record must never stop the store
            internal = ContractError("internal", f"{type(error).__name__}: {error}")
            batch.rejected.append((record, internal))
    return batch


def _sort_in(batch: Batch, record: Record, clocks: ClockRange) -> None:
    if record.topic == "alerts":
        batch.findings.append(finding(record))
    elif record.topic == "crash":
        part = part_row(record, clocks)
        if part is None:
            batch.crashes.append(crash_row(record, clocks))
        else:
            batch.crash_parts.append(part)
    elif record.topic == "dead-letter":
        batch.dead_letters.append(dead_letter_row(record))
    else:
        status = status_row(record, clocks)
        batch.statuses.extend([status] if status else [])


def write(
    cursor: Cursor, batch: Batch, clear_times: ClearTimes, clocks: ClockRange
) -> tuple[list[Finding], list[Rejected]]:
    """Store the batch; the findings that were new, and the parts of crash records that give no record.

    Running it again changes nothing.
    """
    assembled, rejected = write_parts(cursor, batch.crash_parts, clocks)
    _run(cursor, sql.INSERT_CRASHES, [*batch.crashes, *assembled])
    _run(cursor, sql.UPSERT_VEHICLES, newest(batch.statuses))
    _run(cursor, sql.INSERT_DEAD_LETTERS, batch.dead_letters)
    fresh = _new_findings(cursor, batch.findings)
    if fresh:
        _write_alerts(cursor, fresh, clear_times)
    return fresh, rejected


def _run(cursor: Cursor, statement: str, rows: Sequence[Row]) -> None:
    if rows:
        cursor.execute(statement, {"rows": as_json(rows)})


def _new_findings(cursor: Cursor, findings: Sequence[Finding]) -> list[Finding]:
    """Store findings by their ids; those that were not there, in their order, each once."""
    if not findings:
        return []
    once = {found.alert_id: found for found in reversed(findings)}
    first = [found for found in findings if once[found.alert_id] is found]
    _run(cursor, sql.INSERT_FINDINGS, [asdict(found) for found in first])
    new = {row["alert_id"] for row in cursor.fetchall()}
    return [found for found in first if found.alert_id in new]


def _write_alerts(cursor: Cursor, fresh: Sequence[Finding], clear_times: ClearTimes) -> None:
    by_key: dict[tuple[str, str], list[Finding]] = {}
    for found in fresh:
        by_key.setdefault((found.vehicle_id, found.rule), []).append(found)
    known = _known_alerts(cursor, by_key, clear_times)
    after = [
        alert
        for key, found in by_key.items()
        for alert in merge(known.get(key, []), found, clear_times.ms(key[1]))
    ]
    stored = [alert for alert in after if alert.alert_no is not None]
    # What ends goes first: at no moment are two alerts of one vehicle and rule active.
    _run(cursor, sql.UPDATE_ALERTS, [asdict(alert) for alert in stored if alert.cleared_ms is not None])
    _run(cursor, sql.UPDATE_ALERTS, [asdict(alert) for alert in stored if alert.cleared_ms is None])
    _run(cursor, sql.INSERT_ALERTS, [asdict(alert) for alert in after if alert.alert_no is None])
    cursor.execute(sql.MARK_SILENCED, {})


def _known_alerts(
    cursor: Cursor, by_key: Mapping[tuple[str, str], list[Finding]], clear_times: ClearTimes
) -> dict[tuple[str, str], list[Alert]]:
    """The alerts that the findings may belong to: the active ones and those cleared within reach."""
    keys = [
        _reach(key, [found.event_ms for found in findings], clear_times.ms(key[1]))
        for key, findings in by_key.items()
    ]
    _run(cursor, sql.KNOWN_ALERTS, keys)
    known: dict[tuple[str, str], list[Alert]] = {}
    for row in cursor.fetchall():
        known.setdefault((row["vehicle_id"], row["rule"]), []).append(Alert(**row))
    return known


def _reach(key: tuple[str, str], times_ms: Sequence[int], clear_for_ms: int | None) -> Row:
    timed = clear_for_ms is not None
    return {
        "vehicle_id": key[0],
        "rule": key[1],
        "from_ms": min(times_ms) - (clear_for_ms or 0) if timed else None,
        "to_ms": max(times_ms) + (clear_for_ms or 0) if timed else None,
    }
