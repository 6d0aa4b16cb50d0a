"""One batch of records into the database, within the transaction of the cursor that is handed in.

Rows go in as one JSON parameter; times are ms since 1970 on the way.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Final

from infra.clients.db import Connection, sql_of
from infra.clients.kafka import Record
from infra.contract.downlink import Signer
from infra.contract.errors import ContractError
from infra.contract.evidence import statement
from infra.contract.incidents import Causes, Piece, is_fleet, joined
from infra.contract.verdict import ClockLimits
from infra.stack.access.identity import Trust, signature_of
from stream_jobs.alerts.derive import Alert, Finding, merge
from stream_jobs.app.statements import insert_json, json_rows, json_value, set_columns
from stream_jobs.crashes.chunks import Rejected, part_row, write_parts
from stream_jobs.events import rows as row_of
from stream_jobs.events.rows import Cursor, Row, as_json, insert_rows, with_rows
from stream_jobs.rules.cohort.judge import Metric
from stream_jobs.rules.model import CLEAR_FOR_S, NO_VALUE, Rule

SQL: Final = sql_of(__file__)
CONSUMER: Final = "events"

Place = tuple[str, int]  # topic (short name) and partition
Offsets = dict[Place, int]  # next offset
ALERT_COLUMNS: Final = SQL["alert_columns"]
_KEYS: Final = ("alert_no", "vehicle_id", "rule", "first_alert_id")
_LIFE: Final = " ".join(each.name for each in fields(Alert) if each.name not in _KEYS)
"""Of an alert what findings change."""
_RULE: Final = (
    "version severity query kind source condition value_sql limit_sql beyond clear_for_s message cause"
)
_FINDING: Final = " ".join(name for name in Finding.__struct_fields__ if name not in ("boot_id", "seq"))
INSERT_FINDINGS: Final = insert_json("alert_event", _FINDING, "ON CONFLICT DO NOTHING RETURNING alert_id")
INSERT_ALERTS: Final = insert_json("alert", f"vehicle_id rule first_alert_id {_LIFE}", "")
UPDATE_ALERTS: Final = (
    f"UPDATE odograph.alert a SET {set_columns(_LIFE, json_value)}, to_join = true, "  # noqa: S608  own columns
    f"{SQL['who_cleared']} FROM {json_rows(f'alert_no {_LIFE}')} WHERE a.alert_no = n.alert_no"
)
AT_ONCE: Final = 2000  # alerts that are given their incidents in one transaction
_TAKE_OVER: Final = ("move_alerts", "lock_both", "move_notes", "move_assignee", "note_joined", "delete_gone")
"""Incidents take others in: what was found, said and given moves along. Alerts first, as people lock them."""

Told = list[tuple[str, bytes]]  # keys and values for the topic ``incidents``


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
class Sealing:
    """What a crash record is received with: the devices' authority, and the key that signs the receipt."""

    devices: Trust | None = None
    notary: Signer | None = None

    def received(self, row: Row, user: str) -> Row:
        """The row with the verdict on its vehicle's signature, and with ours as ``user`` of the database."""
        raw, key, receipt = row["raw"].encode(), (row["vehicle_id"], row["boot_id"], row["crash_id"]), ""
        if self.notary is not None:
            receipt = self.notary.sign(statement(user, "received", key, hashlib.sha256(raw).hexdigest()))
        received_at = datetime.fromtimestamp(row["received_ms"] / 1000, UTC)
        return row | {"signature": signature_of(raw, self.devices, received_at), "receipt": receipt}


ClearTimes = Mapping[str, float | None]
"""By rule, how long an alert stays without a finding, s; None: until it is ended. Others have the default."""


def clears_after_ms(clear_times: ClearTimes, rule: str) -> int | None:
    """Milliseconds; None: does not clear by itself. What follows a point is a part of the rule."""
    seconds = clear_times.get(rule.partition(".")[0], CLEAR_FOR_S)
    return None if seconds is None else round(seconds * 1000)


class OvertakenError(Exception):
    """The stored offsets are not those that this process holds: they were reset meanwhile."""


def load_offsets(cursor: Cursor, places: Mapping[Place, str]) -> tuple[Offsets, dict[str, str]]:
    """Where to read on at each of ``places``, given with its log; 0 where nothing of this log was read yet.

    And of topics that another log was read of, that one's identity.
    """
    rows = [{"topic": topic, "partition": p, "log_generation": log} for (topic, p), log in places.items()]
    found = cursor.execute(SQL["offsets"], {"consumer": CONSUMER, "rows": as_json(rows)}).fetchall()
    others = {row["topic"]: row["other"] for row in found if row["other"] is not None}
    return {(row["topic"], row["partition"]): row["next_offset"] for row in found}, others


def move_offsets(cursor: Cursor, held: Offsets, after: Offsets) -> None:
    """Move the offsets on; raises OvertakenError unless they stand where ``held`` says."""
    rows = [
        {"topic": topic, "partition": partition, "held": held[topic, partition], "next_offset": offset}
        for (topic, partition), offset in sorted(after.items())
    ]
    moved = cursor.execute(SQL["move_offsets"], {"consumer": CONSUMER, "rows": as_json(rows)})
    if moved.rowcount != len(rows):
        raise OvertakenError("the stored offsets were reset")


def clear(cursor: Cursor, clear_times: ClearTimes) -> int:
    """End the alerts whose vehicle went on long enough without a finding; how many."""
    terms = {"clear_for_s": as_json(clear_times), "default_s": CLEAR_FOR_S}
    return cursor.execute(SQL["clear_alerts"], terms).rowcount


def join(cursor: Cursor, causes: Causes) -> Told:
    """Give alerts that wait for it their incident, at most AT_ONCE, and mark those that a silence covers; the
    store's word on the incidents that changed.

    Alerts whose span is new wait with ``to_join``, whoever wrote them: this store, the batch layer, or a
    version before there were incidents. Only what is near them in time is read.
    """
    cursor.execute(SQL["lock"], {})
    waiting = cursor.execute(SQL["waiting"].format(alert=SQL["alert"]), {"most": AT_ONCE}).fetchall()
    near = _near(cursor, causes, waiting) if waiting else []
    by_cause: dict[str, list[Row]] = {}
    for row in sorted([*waiting, *near], key=lambda row: row["alert_no"]):
        by_cause.setdefault(row["cause"] or causes.of(row["rule"]), []).append(row)
    told = [word for cause, rows in by_cause.items() for word in _join(cursor, cause, rows, causes)]
    cursor.execute(SQL["mark_silenced"], {})
    return told


def _near(cursor: Cursor, causes: Causes, waiting: Sequence[Row]) -> list[Row]:
    of = {row["cause"] or causes.of(row["rule"]) for row in waiting}
    reach_ms = max(max(causes.terms(cause).join_ms, causes.terms(cause).within_ms) for cause in of)
    return cursor.execute(SQL["near"].format(alert=SQL["alert"]), {
        "vehicles": sorted({row["vehicle_id"] for row in waiting}), "causes": sorted(of),
        "fleets": sorted(cause for cause in of if causes.terms(cause).vehicles is not None),
        "low_ms": min(row["from_ms"] for row in waiting) - reach_ms,
        "high_ms": max(row["to_ms"] for row in waiting) + reach_ms,
    }).fetchall()  # fmt: skip


def _join(cursor: Cursor, cause: str, rows: Sequence[Row], causes: Causes) -> Told:
    """The incidents of one cause, in the order of their numbers, then of their alerts, as ``rows`` are."""
    numbers = {row["incident_id"]: row["incident_no"] for row in rows if row["incident_no"] is not None}
    waits = {row["alert_no"] for row in rows if row["to_join"]}
    pieces = [
        Piece(row["vehicle_id"], row["from_ms"], row["to_ms"], row["incident_id"] or row["first_alert_id"],
              row["fleet"], row["alert_no"])
        for row in sorted(rows, key=lambda row: row["incident_no"] or math.inf)
    ]  # fmt: skip
    groups = [group for group in joined(pieces, causes.terms(cause)) if any(p.number in waits for p in group)]
    fresh = [group[0] for group in groups if group[0].incident_id not in numbers]
    opened = [{"incident_id": p.incident_id, "vehicle_id": p.vehicle_id, "cause": cause} for p in fresh]
    if opened:
        made = cursor.execute(SQL["open"], {"rows": as_json(opened)})
        numbers |= {row["incident_id"]: row["incident_no"] for row in made}
    assigned, gone, told = list[Row](), list[Row](), Told()
    for group in groups:
        kept, of_fleet = group[0].incident_id, is_fleet(group)
        others = {p.incident_id for p in group} & numbers.keys() - {kept}
        gone += [{"kept": numbers[kept], "gone": numbers[other]} for other in others]
        new = [p for p in group if p.number in waits]
        assigned += [{"alert_no": p.number, "incident_no": numbers[kept]} for p in new]
        for vehicle in {p.vehicle_id for p in (group if others else new)}:
            mine = [p for p in group if p.vehicle_id == vehicle]
            span = min(p.from_ms for p in mine), max(p.to_ms for p in mine)
            told.append(Piece(vehicle, *span, kept, of_fleet).encode(cause))
    for move in _TAKE_OVER if gone else ():
        cursor.execute(SQL[move], {"rows": as_json(gone)})
    cursor.execute(SQL["assign"], {"rows": as_json(assigned)})
    cursor.execute(
        SQL["of_fleet"], {"numbers": [numbers[group[0].incident_id] for group in groups if is_fleet(group)]}
    )
    return told


def sort_out(records: Sequence[Record], clocks: ClockLimits, generation: str = "") -> Batch:
    """The records decoded; what cannot be understood is among the rejected. ``generation``: of the log of
    dead letters.
    """
    batch = Batch()
    for record in records:
        if not record.value:  # it marks where records of an erased vehicle end, or takes a status back
            continue
        try:
            if record.topic == "alerts":
                batch.findings.append(row_of.finding(record))
            elif record.topic == "dead-letter":
                batch.dead_letters.append(row_of.dead_letter_row(record, generation))
            elif record.topic != "crash":
                batch.statuses.append(row_of.status_row(record, clocks))
            elif (part := part_row(record, clocks)) is not None:
                batch.crash_parts.append(part)
            else:
                batch.crashes.append(row_of.crash_row(record, clocks))
        except ContractError as error:
            batch.rejected.append((record, error))
        except Exception as error:  # noqa: BLE001  one record must never stop the store
            batch.rejected.append((record, ContractError("internal", f"{type(error).__name__}: {error}")))
    return batch


def write(
    cursor: Cursor, batch: Batch, clear_times: ClearTimes, clocks: ClockLimits, sealing: Sealing
) -> tuple[list[Finding], list[Rejected]]:
    """Store the batch, again without effect; the new findings, and the parts that give no crash record."""
    assembled, rejected = write_parts(cursor, batch.crash_parts, clocks)
    user = cursor.connection.info.user
    insert_rows(cursor, "crash_record", [sealing.received(row, user) for row in (*batch.crashes, *assembled)])
    insert_rows(cursor, "vehicle AS v", row_of.newest(batch.statuses), SQL["newer_status"])
    insert_rows(cursor, "dead_letter", batch.dead_letters, SQL["new_letter"])
    if not batch.findings:
        return [], rejected
    # Findings by their ids: those that were not there, in their order, each once.
    first = list({found.alert_id: found for found in reversed(batch.findings)}.values())[::-1]
    with_rows(cursor, INSERT_FINDINGS, first)
    new = {row["alert_id"] for row in cursor.fetchall()}
    fresh = [found for found in first if found.alert_id in new]
    if fresh:
        _write_alerts(cursor, fresh, clear_times)
    return fresh, rejected


def _write_alerts(cursor: Cursor, fresh: Sequence[Finding], clear_times: ClearTimes) -> None:
    by_key: dict[tuple[str, str], list[Finding]] = {}
    for found in fresh:
        by_key.setdefault((found.vehicle_id, found.rule), []).append(found)
    # The alerts that the findings may belong to: the active ones and those cleared within reach.
    reaches = [
        {"vehicle_id": vehicle_id, "rule": rule, "clear_ms": clears_after_ms(clear_times, rule),
         "from_ms": min(f.event_ms for f in findings), "to_ms": max(f.event_ms for f in findings)}
        for (vehicle_id, rule), findings in by_key.items()
    ]  # fmt: skip
    with_rows(cursor, SQL["known_alerts"].format(alert_columns=ALERT_COLUMNS), reaches)
    known: dict[tuple[str, str], list[Alert]] = {}
    for row in cursor.fetchall():
        known.setdefault((row["vehicle_id"], row["rule"]), []).append(Alert(**row))
    after = [
        alert
        for key, found in by_key.items()
        for alert in merge(known.get(key, []), found, clears_after_ms(clear_times, key[1]))
    ]
    # Alerts are numbered, and incidents after them, in the order in which their first findings came.
    place = {found.alert_id: k for k, found in enumerate(fresh)}
    put_alerts(cursor, sorted(after, key=lambda alert: place.get(alert.first_alert_id, -1)))


def put_alerts(cursor: Cursor | Connection, alerts: Sequence[Alert]) -> None:
    """Alerts in the places of their numbers, and those without one as new ones in this order."""
    stored = [alert for alert in alerts if alert.alert_no is not None]
    # What ends goes first: at no moment are two alerts of one vehicle and rule active.
    with_rows(cursor, UPDATE_ALERTS, [alert for alert in stored if alert.cleared_ms is not None])
    with_rows(cursor, UPDATE_ALERTS, [alert for alert in stored if alert.cleared_ms is None])
    with_rows(cursor, INSERT_ALERTS, [alert for alert in alerts if alert.alert_no is None])


def rule_notes(rules: Sequence[Rule], metrics: Sequence[Metric], causes: Causes | None = None) -> list[Row]:
    """A row a rule, those of cohorts' metrics too; expressions as the rules file has them."""
    table, notes, named = causes or Causes(), list[Row](), {"rule": "id", "limit_sql": "limit"}
    for rule in rules:
        value = None if rule.value == NO_VALUE else rule.value
        notes.append(rule.summary() | {"condition": rule.condition, "value_sql": value})
    notes += [metric.summary() for metric in metrics]
    caused = (note | {"cause": table.of(note["id"])} for note in notes)
    return [{k: note.get(named.get(k, k)) for k in ("rule", *_RULE.split())} for note in caused]


def note_rules(cursor: Cursor, rows: Sequence[Row]) -> None:
    """Note the rules in force, which pages show beside alerts; others are no longer in force."""
    columns = set_columns(_RULE, "excluded.{}".format)
    insert_rows(cursor, "rule", rows, SQL["rule_in_force"].format(columns=columns))
    cursor.execute(SQL["rules_gone"], {"rules": [row["rule"] for row in rows]})
