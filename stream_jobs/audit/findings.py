"""What an account lacks, in words: for the report and for the dashboard's table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from infra.contract.seq_ranges import size, text
from stream_jobs.audit.take import Account, LogGap, WindowGap


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
    for log in account.log:
        yield from _of_log(log)
    for window in account.windows:
        yield _of_window(window, zone)
    for vehicle_id, f in sorted(account.vehicles.items()):
        for name, archived, listed in (
            ("late", f.late_records, f.late_listed),
            ("quarantined", f.quarantined_records, f.quarantined_listed),
        ):
            if archived != listed:
                what = f"{name}: {archived} records archived, {listed} listed"
                yield Finding("archive to lists", vehicle_id, what, abs(archived - listed))


def _of_log(log: LogGap) -> Iterator[Finding]:
    where = f"{log.topic}/{log.partition}"
    if log.ranges:
        yield Finding("log to archive", None, f"{where} offsets {text(log.ranges)}", size(log.ranges))
    if log.doubles:
        yield Finding("log to archive", None, f"{where}: records archived twice", log.doubles)


def _of_window(w: WindowGap, zone: tzinfo) -> Finding:
    at = datetime.fromtimestamp(w.window_start_ms / 1000, zone).strftime("%Y-%m-%d %H:%M:%S %Z")
    seqs = "none" if w.boot_id is None else f"boot {w.boot_id} seq {w.first_seq}-{w.last_seq}"
    what = f"window {at}: {w.archived} frames archived ({seqs}), {w.counted} counted"
    return Finding("archive to windows", w.vehicle_id, what, abs(w.archived - w.counted))
