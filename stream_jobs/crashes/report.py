"""The vault in words."""

from __future__ import annotations

import getpass
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from infra.contract.errors import ConfigError
from stream_jobs.crashes import custody
from stream_jobs.crashes.bundle import Evidence, locked
from stream_jobs.crashes.custody import CrashLog, differing
from stream_jobs.crashes.tables import Vault

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Verified:
    """What a check of the vault found."""

    entries: int
    records: int
    locked: int
    deleted: int
    pending: int | None
    """Messages in Kafka's log that the vault has not read yet; None: not compared with it."""
    refused: int | None
    """Records in Kafka's log that became dead letters."""
    head: str
    wrong: Sequence[str]

    def as_text(self) -> str:
        """For people."""
        held = f"{self.entries} entries, {self.records} records, {self.locked} locked, {self.deleted} deleted"
        log = (
            f"compared, {self.refused} records refused as dead letters, {self.pending} messages not read yet"
        )
        lines = [
            held,
            f"Kafka's log: {log if self.pending is not None else 'NOT compared'}",
            f"head {self.head}",
        ]
        return "\n".join([*lines, *(self.wrong or ["nothing was changed"])])

    def as_json(self) -> str:
        """For machines."""
        return orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2).decode()


def verified(vault: Vault, may: custody.May, log: CrashLog | None, head: str | None) -> Verified:
    """The chain, the records against it, their own bytes and Kafka's log, and a head noted earlier."""
    entries, records = vault.entries, vault.records
    digests = {key: record.digest for key, record in records.items()}
    locked = {key for key, record in records.items() if record.locked}
    deleted = {entry.key for entry in entries if entry.action == "deleted"} - records.keys()
    wrong = [*custody.broken(entries), *custody.tampered(entries, digests, locked, may)]
    wrong += [
        f"{custody.name_of(key)}: {', '.join(record.contradictions)}: not what the record's own bytes say"
        for key, record in records.items()
        if record.contradictions
    ]
    if log is not None:
        wrong += differing(records, deleted, log)
    if head is not None and head not in {entry.sha256 for entry in entries}:
        wrong.append(f"the log does not hold {head}: its end was cut off or written anew")
    last = entries[-1].sha256 if entries else custody.START
    pending = None if log is None else log.pending
    refused = None if log is None else len(log.refused - records.keys())
    return Verified(len(entries), len(records), len(locked), len(deleted), pending, refused, last, wrong)


def rows_text(rows: Iterable[Row]) -> str:
    """A line a record."""
    return "\n".join(_line(row) for row in rows) or "no crash records"


def _line(row: Row) -> str:
    delta = "    -" if row["delta_v_max_kmh"] is None else f"{row['delta_v_max_kmh']:5.0f}"
    bag = {True: "air bag", False: "-", None: "?"}[row["airbag_deployed"]]
    return (
        f"{_at(row['event_time'])} {row['vehicle_id']:17} {_plain(row['crash_id']):20} {delta} km/h "
        f"{bag:8} {row['verdict']:11} {_whole(row):12} {'locked' if row['locked_at'] else 'open'}"
    )


def _at(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def _whole(row: Row) -> str:
    if not row["hash_ok"]:
        return "SEAL BROKEN"
    if row["defects"] is None:
        return "not checked"
    return f"{len(row['defects'])} defects" if row["defects"] else "whole"


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
    body = {
        "record": dict(found.record), "delta_v": found.delta_v, "pre_crash": found.pre_crash,
        "custody": [asdict(entry) for entry in found.custody],
    }  # fmt: skip
    return orjson.dumps(body, option=orjson.OPT_INDENT_2).decode()


def one_line(option: str, text: str) -> str:
    """What goes into the custody log: not empty, no control characters. Raises ConfigError."""
    if not text.strip() or _plain(text) != text:
        raise ConfigError(f"{option}: wanted is a line of text")
    return text


def user() -> str:
    """The name of the user of this process."""
    return getpass.getuser()


def _plain(text: str) -> str:
    """Nothing in it can move a terminal's cursor."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", text)
