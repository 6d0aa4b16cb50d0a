"""An audit as people and machines read it, and what an account lacks in words."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo

from infra.clients.tables import aligned
from infra.contract.seq_ranges import size, text
from stream_jobs.audit.collect import Account
from stream_jobs.audit.ledger import EVER_MS, Figures
from stream_jobs.audit.run import Audit

MOST_FINDINGS: Final = 20  # lines of what is missing that are shown; all of them are in the JSON
COLUMNS: Final = {
    "generated": "made", "lost_on_link": "link", "dropped_on_board": "board", "on_board": "held",
    "on_the_way": "way", "dead": "dead", "missing": "missing", "late": "late", "quarantined": "quarant.",
    "counted": "counted", "duplicate": "dupl.", "residual": "residual",
}  # fmt: skip
"""Figures by vehicle and what stands above them."""
JSON_NAMES: Final = {"backfilled": "brought_in", "backfilled_distinct": "brought_distinct"}
"""Figures of the ledger that the JSON has under another name."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Frames (of the log: records) that are missing between two stages, or counted otherwise."""

    stage: str
    vehicle_id: str | None
    what: str
    frames: int


def findings(account: Account, zone: tzinfo = UTC) -> Iterator[Finding]:
    """Stage by stage; times in ``zone``."""
    for gap in account.gaps:
        what = f"boot {gap.boot_id} seq {text(gap.ranges)}"
        what += f"; lost with the session of {gap.lost_with}" if gap.lost_with else ""
        yield Finding("vehicle to archive", gap.vehicle_id, what, size(gap.ranges))
    for topic, partition, ranges, doubles in account.log:
        where = f"{topic}/{partition}"
        if ranges:
            yield Finding("log to archive", None, f"{where} offsets {text(ranges)}", size(ranges))
        if doubles:
            yield Finding("log to archive", None, f"{where}: records archived twice", doubles)
    for w in account.windows:
        seqs = "none" if w.boot_id is None else f"boot {w.boot_id} seq {w.first_seq}-{w.last_seq}"
        what = f"{w.archived} frames archived ({seqs}), {w.counted} counted"
        what = f"window {_at(w.window_start_ms, zone)}: {what}"
        yield Finding("archive to windows", w.vehicle_id, what, abs(w.archived - w.counted))
    for vehicle_id, f in sorted(account.vehicles.items()):
        for name in ("late", "quarantined"):
            archived, listed = getattr(f, f"{name}_records"), getattr(f, f"{name}_listed")
            if archived != listed:
                what = f"{name}: {archived} records archived, {listed} listed"
                yield Finding("archive to lists", vehicle_id, what, abs(archived - listed))


def _at(moment_ms: int, zone: tzinfo) -> str:
    return datetime.fromtimestamp(moment_ms / 1000, zone).strftime("%Y-%m-%d %H:%M:%S %Z")


def as_text(audit: Audit, by_vehicle: bool, tz: str) -> str:
    """One line a figure with what it means, then vehicles, then what is missing; the verdict last."""
    account, zone = audit.account, ZoneInfo(tz)
    since, until = (
        _at(ms, zone) if ms < EVER_MS else "" for ms in (account.scope.since_ms, account.scope.until_ms)
    )
    when = f"lies in {since} to {until}" if account.scope.since_ms else f"lies before {until}"
    lines = ["frames since the beginning" if account.scope.whole else f"frames whose first sample {when}"]
    lines += [_row(*row) for row in _figures(audit, zone)]
    if by_vehicle:
        rows = (
            (vehicle_id or "(none)", *(getattr(figures, name) for name in COLUMNS))
            for vehicle_id, figures in sorted(account.vehicles.items())
        )
        lines.append(aligned(rows, ("vehicle", *COLUMNS.values())))
    missing = [
        _row("missing", f.frames, f"{f.stage}: {f'{f.vehicle_id} ' if f.vehicle_id else ''}{f.what}")
        for f in findings(account, zone)
    ]
    more = len(missing) - MOST_FINDINGS
    lines += missing[:MOST_FINDINGS]
    lines += [f"{'':26}and {more} lines more: --json"] if more > 0 else []
    lines += [
        f"{'cloned':>12} {c.vehicle_id}: boots {c.boot_id} and {c.other_boot_id}"
        f" report at once for {c.overlap_ms / 1000:.0f} s"
        for c in audit.clones
    ]
    verdict = "everything is accounted for" if audit.residual == 0 else "frames or records unaccounted for"
    return "\n".join([*lines, _row("residual", audit.residual, verdict)])


def _row(name: str, figure: int, meaning: str) -> str:
    return f"{name:>12} {figure:>12,}   {meaning}"


def _figures(audit: Audit, zone: tzinfo) -> Iterator[tuple[str, int, str]]:
    account, ledger, seen = audit.account, audit.ledger, audit.horizon
    f = account.total
    yield "vehicles", len(account.vehicles), "with a frame, or expected to have one"
    yield "generated", f.generated, "frames, by the sequence numbers of their devices"
    if ledger is not None:
        yield "", ledger.generated, "of them left their vehicle, as the simulator's runs say"
        yield "sent", ledger.sent, f"frames published, copies included; {ledger.acked:,} acknowledged"
        yield "poison", ledger.poison, "messages broken on purpose"
    yield "link", f.lost_on_link, "lost by the radio link"
    yield "on board", f.dropped_on_board + f.on_board, f"{f.on_board:,} kept, the others pushed out"
    yield "on the way", f.on_the_way, "in the log, or counted by a run that goes on; not archived yet"
    session = "lost with a session of the bridge: the broker lost none"
    if account.sessions:
        last = account.sessions[-1]
        count, at = len(account.sessions), _at(last.at_ms, zone)
        session = f"may have been lost with {count} sessions of the bridge, the last {at}: {last.detail}"
    yield "session", account.lost_with_session, session
    broker = "dropped by the broker: it does not say"
    if account.broker_dropped is not None:
        broker = (
            f"of the missing are explained by what the broker says it dropped ({account.broker_dropped:,})"
        )
    yield "broker", account.dropped_by_broker, broker
    others = f"{f.dead_unknown:,} dead letters besides, whose frame cannot be told"
    yield "dead", f.dead, f"frames in dead letters only; {others}"
    if ledger is not None:
        brought = f", {ledger.backfilled:,} of them brought in by back-fills" if ledger.backfilled else ""
        yield "in Kafka", ledger.appended, f"records in the topic; {ledger.archived:,} archived{brought}"
    repaired = f"{f.repaired:,} repaired, {f.late_open:,} open"
    yield "late", f.late, f"frames ({f.late_records:,} records); {repaired}"
    yield "deferred", f.deferred, "frames put off because of overload, in the archive and in no window yet"
    limited = "messages beyond a vehicle's limit that were counted only: they explain so many"
    yield "not kept", f.not_kept, limited
    yield "quarantined", f.quarantined, f"frames with an impossible clock ({f.quarantined_records:,} records)"
    yield "erased", f.erased, "frames of vehicles that were erased: odograph privacy erase"
    yield "counted", f.counted, f"frames in windows by the stream; {f.in_time:,} in the archive"
    if account.again:
        yield "again", account.again, "frames of them under a number that another frame of the device had"
    yield "duplicate", f.duplicate, "records of frames seen before"
    if audit.in_flight:
        waits = f"{seen.slowest} is at {_at(seen.moment_ms, zone)}, windows stay open beyond it; or: --wait"
        yield "in flight", audit.in_flight, f"records too young to be balanced: {waits}"


def as_json(audit: Audit) -> str:
    """Everything: the sums of a whole audit on top, then the account with all vehicles and ranges."""
    account, scope = audit.account, audit.account.scope

    def with_residual(figures: Figures) -> dict[str, int]:
        return {**asdict(figures), "residual": figures.residual}

    whole = {} if audit.ledger is None else asdict(audit.ledger)
    of_account = ("dropped_by_broker", "lost_with_session", "again")
    body: dict[str, Any] = {
        **{JSON_NAMES.get(name, name): figure for name, figure in whole.items()},
        "since_ms": scope.since_ms if not scope.whole else None,
        "until_ms": scope.until_ms if scope.until_ms != EVER_MS else None,
        "in_flight": audit.in_flight,
        "residual": audit.residual,
        "account": with_residual(account.total) | {name: getattr(account, name) for name in of_account},
        "sessions": [loss._asdict() for loss in account.sessions],
        "vehicles": {v: with_residual(f) for v, f in sorted(account.vehicles.items())},
        "missing": [gap._asdict() for gap in account.gaps],
        "log": [gap._asdict() for gap in account.log],
        "windows": [gap._asdict() for gap in account.windows],
        "cloned": [clone._asdict() for clone in audit.clones],
    }
    return json.dumps(body, indent=1)
