"""A crash record as evidence, one zip that is the same bytes each time it is made, and as text; pure."""

import csv
import io
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson

from infra.clients.tables import cell, plain
from infra.contract.errors import ConfigError
from infra.contract.legal_basis import LAW, LegalBasis
from infra.contract.messages import PRE_CRASH, SEALS
from stream_jobs.crashes.custody import Entry, Verified, sha256_hex

EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # the oldest time a zip can tell: all its files have it
MODE: Final = 0o100644 << 16
DELTA_V: Final = ("t_ms", "delta_v_kmh", "delta_v_lat_kmh")
SAMPLES: Final = ("t_ms", *PRE_CRASH)
VERDICT: Final = ("verdict", "reasons", "figures", "final", "defects", "hash_ok", "signature")
SUMMARY: Final = Path(__file__).with_name("summary.txt").read_text()
UNNAMED: Final = Path(__file__).with_name("unnamed.txt").read_text()
UNNAMED_FILES: Final = ("record.json", "delta_v.csv", "pre_crash.csv", "verdict.json")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]")
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known of a record: its row of serving.crash_record, its curves, its entries of the log."""

    record: Row
    delta_v: Sequence[Row]
    pre_crash: Sequence[Row]
    custody: Sequence[Entry]


def name_of(record: Row) -> str:
    """The bundle's file name: no path can be made of a vehicle's words."""
    crash_id = str(record["crash_id"])
    safe = _UNSAFE.sub("_", crash_id)[:40]
    if safe != crash_id:
        safe += "-" + sha256_hex(crash_id.encode())[:8]
    return f"crash-{_UNSAFE.sub('_', record['vehicle_id'])}-{record['boot_id']}-{safe}.zip"


def unnamed(evidence: Evidence, pseudonym: str) -> Evidence:
    """The record under a pseudonym, without what its vehicle can be found or computed from."""
    record = evidence.record
    sent = orjson.loads(record["raw"]) if record["raw"] is not None else record["record"]
    kept = {name: value for name, value in sent.items() if name not in (*SEALS, "certificate")}
    text = orjson.dumps(kept).replace(record["vehicle_id"].encode(), pseudonym.encode()).decode()
    crash_id = record["crash_id"].replace(record["vehicle_id"], pseudonym)
    names = {"vehicle_id": pseudonym, "crash_id": crash_id, "record": orjson.loads(text), "raw": text}
    return Evidence({**record, **names}, evidence.delta_v, evidence.pre_crash, ())


def made(evidence: Evidence, basis: LegalBasis) -> bytes:
    """The zip: nothing in it is compressed, so no library's version can change a byte.

    Where the basis does not let the vehicle be named, ``evidence`` is that of ``unnamed``.
    """
    record, raw = evidence.record, evidence.record["raw"]
    sent = orjson.loads(raw) if raw is not None else record["record"]
    sealed = {key: value for key, value in sent.items() if key not in SEALS}
    kept = [entry for entry in evidence.custody if entry.action != "exported"]
    files = {
        "README.txt": _summary(record, sent, kept).encode(),
        "record.json": raw.encode() if raw is not None else orjson.dumps(sent),
        "canonical.json": orjson.dumps(sealed, option=orjson.OPT_SORT_KEYS),
        "delta_v.csv": csv_bytes(evidence.delta_v, DELTA_V),
        "pre_crash.csv": csv_bytes(evidence.pre_crash, SAMPLES),
        "verdict.json": _json({key: record[key] for key in VERDICT}),
        "custody.json": _json([asdict(entry) | {"at": _utc(entry.at)} for entry in kept]),
    }
    if not basis.names_vehicle:
        files = {name: files[name] for name in UNNAMED_FILES}
        files["README.txt"] = UNNAMED.format(vehicle_id=record["vehicle_id"], basis=basis).encode()
    files["legal_basis.json"] = _json({"law": LAW, "basis": basis.kind, "reference": basis.reference})
    sums = "".join(f"{sha256_hex(body)}  {name}\n" for name, body in files.items())
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, body in {**files, "SHA256SUMS": sums.encode()}.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.create_system, entry.external_attr = 3, MODE
            archive.writestr(entry, body)
    return out.getvalue()


def csv_bytes(rows: Sequence[Row], header: Sequence[str]) -> bytes:
    """Rows as CSV. Text that a spreadsheet would take for a formula gets an apostrophe before it."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_cell(row.get(name)) for name in header] for row in rows)
    return out.getvalue().encode()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) in (int, float):
        return f"{value:.12g}"
    text = str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _json(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"


def _utc(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"


def _summary(record: Row, sent: Row, kept: Sequence[Entry]) -> str:
    seal = "matches" if record["hash_ok"] else "DOES NOT MATCH"
    not_kept = "" if record["raw"] is not None else " (NOT KEPT: written again from the database)"
    wrong, plausible = record["defects"], ["whole and plausible by 49 CFR 563.7 and 563.8"]
    if wrong is None:
        plausible = ["not checked for completeness: stored before records were"]
    elif wrong:
        found = (f"  - {d['element']}: {d['fault']}: {d['detail']}" for d in wrong)
        plausible = ["not whole or not plausible:", *found]
    return SUMMARY.format(**dict(
        record, crash_id=plain(record["crash_id"]),
        event_time=_utc(record["event_time"]), received_at=_utc(record["received_at"]),
        profile=plain(str(record["profile"])), complete=plain(str(sent.get("complete"))),
        seal=f"{seal} ({plain(str(sent.get('sha256')))})", locked=_locked(record),
        reasons="".join(f"                 - {reason}\n" for reason in record["reasons"]),
        plausible="\n".join(plausible), not_kept=not_kept, last=kept[-1].sha256 if kept else "none",
    ))  # fmt: skip


def _locked(record: Row) -> str:
    """Since when, by whom and why a record is locked; no: it is not."""
    if record["locked_at"] is None:
        return "no"
    return f"{_utc(record['locked_at'])} by {record['locked_by']}: {record['locked_why']}"


def line(row: Row) -> str:
    """A record among others, as text."""
    delta = "    -" if row["delta_v_max_kmh"] is None else f"{row['delta_v_max_kmh']:5.0f}"
    bag = {True: "air bag", False: "-", None: "?"}[row["airbag_deployed"]]
    defects = row["defects"]
    state = "not checked" if defects is None else f"{len(defects)} defects" if defects else "whole"
    state = state if row["hash_ok"] else "SEAL BROKEN"
    signed = {"valid": "signed", "invalid": "FORGED", "absent": "unsigned"}.get(row["signature"], "unchecked")
    return (
        f"{cell(row['event_time'])}Z {row['vehicle_id']:17} {plain(row['crash_id']):20} {delta} km/h "
        f"{bag:8} {row['verdict']:11} {state:12} {signed:9} {'locked' if row['locked_at'] else 'open'}"
    )


def evidence_text(found: Evidence) -> str:
    """One record, everything but its tables' rows."""
    record = found.record
    lines = [line(record)]
    lines += [f"  {reason}" for reason in record["reasons"]]
    lines += [f"  defect: {d['element']}: {d['fault']}: {d['detail']}" for d in record["defects"] or []]
    if record["locked_at"]:
        lines.append(f"  locked {_locked(record)}")
    lines.append(f"  {len(found.delta_v)} delta-V points, {len(found.pre_crash)} samples before time zero")
    lines += [
        f"  custody {e.entry}: {cell(e.at)}Z {e.action} by {e.actor} {e.digest[:12]} {e.detail}".rstrip()
        for e in found.custody
    ]
    return "\n".join(map(plain, lines))


def as_json(found: Evidence | Iterable[Row] | Verified) -> str:
    """One record with its tables, records, or what a check found."""
    return orjson.dumps(found, option=orjson.OPT_INDENT_2).decode()


def one_line(option: str, text: str) -> str:
    """What goes into the custody log: not empty, no control characters. Raises ConfigError."""
    if not text.strip() or plain(text) != text:
        raise ConfigError(f"{option}: wanted is a line of text")
    return text
