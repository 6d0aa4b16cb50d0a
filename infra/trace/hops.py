"""The hops of one frame: what each station knows of it, and the list of them for people and machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

import orjson

from infra.clients.kafka import Record
from infra.contract.topics import HEADER_DETAIL, HEADER_MQTT_TOPIC, HEADER_REASON
from infra.contract.verdict import LATE, OK, UNREADABLE, clock_limits, verdict
from infra.settings.settings import Settings
from infra.stack import query_offsets
from infra.trace import tables

if TYPE_CHECKING:
    from infra.trace.follow import Copy, Follower, Wanted

REAL_TIME = ("instant", "instant-crash")
ARCHIVE = "archive"
State = Literal["done", "not yet", "gone", "missing"]
"""``gone``: was there, retention has taken it. ``missing``: should be there and is not."""


@dataclass(frozen=True, slots=True)
class Hop:
    """A station. ``at_ms`` is None where nobody notes its time."""

    name: str
    state: State
    detail: str
    at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """A frame and its hops in order. ``copies`` counts its records in the log, ``dead`` its dead letters."""

    vehicle_id: str
    boot_id: int | None
    seq: int
    verdict: str | None
    copies: int
    dead: int
    hops: Sequence[Hop]
    notes: Sequence[str] = field(default_factory=tuple)

    @property
    def found(self) -> bool:
        """Whether it was met anywhere."""
        return bool(self.copies or self.dead)


def text(trace: Trace) -> str:
    """Aligned lines: the hop, its time, the time since the hop before it that has one, what is known."""
    judged = trace.verdict or "unknown"
    plural = "copy" if trace.copies == 1 else "copies"
    head = (
        f"{trace.vehicle_id} boot {trace.boot_id} seq {trace.seq}: verdict {judged}, {trace.copies} {plural}"
    )
    lines = [head + (f", {trace.dead} dead-lettered" if trace.dead else "")]
    width = max((len(hop.name) for hop in trace.hops), default=0)
    before: int | None = None
    for hop in trace.hops:
        state = "" if hop.state == "done" else hop.state
        moment = state or (clock(hop.at_ms) if hop.at_ms is not None else "")
        delta = "" if hop.at_ms is None or before is None else f"{(hop.at_ms - before) / 1000:+.3f} s"
        lines.append(f"  {hop.name:<{width}}  {moment:<23}  {delta:>12}  {hop.detail}".rstrip())
        before = before if hop.at_ms is None else hop.at_ms
    return "\n".join([*lines, *(f"  note: {note}" for note in trace.notes)])


def clock(at_ms: int) -> str:
    """Date and time, UTC, to the millisecond; a number where no calendar has it."""
    try:
        moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{moment.microsecond // 1000:03d}"


def span_ms(message: dict[str, Any]) -> int:
    """From a frame's first sample to its last."""
    return int((message["n"] - 1) * message["dt_ms"])


def verdict_of(value: bytes, received_ms: int, settings: Settings) -> str:
    """The verdict on a record, by the same rule as everywhere."""
    try:
        message = orjson.loads(value)
        return verdict(message["t0_ms"], span_ms(message), received_ms, clock_limits(settings))
    except (ValueError, TypeError, KeyError):
        return UNREADABLE


def on_board(payload: bytes) -> list[Hop]:
    """First sample, last sample, sending: by the vehicle's own clock."""
    try:
        message = orjson.loads(payload)
        t0_ms, sent_ms, covered_ms = int(message["t0_ms"]), int(message["sent_ms"]), span_ms(message)
    except (ValueError, TypeError, KeyError):
        return []
    return [
        Hop("first sample", "done", "the vehicle's clock", t0_ms),
        Hop(
            "last sample", "done", f"{message['n']} samples, {message['dt_ms']} ms apart", t0_ms + covered_ms
        ),
        Hop("sent", "done", "the vehicle's clock", sent_ms),
    ]


def in_log(topic: str, copy: Copy, number: int) -> list[Hop]:
    """Receipt by the bridge and the place in the log; the log's own time is the receipt."""
    which = "" if number == 1 else f" (copy {number})"
    place = f"{topic}[{copy.partition}]@{copy.offset}, {len(copy.value):,} bytes"
    if copy.record is None:
        kept = Hop(f"stored{which}", "gone", f"{place}; retention has taken it, the archive has it")
        return [Hop(f"received{which}", "done", "by the bridge", copy.received_ms), kept]
    by = f"by the bridge from {copy.record.headers.get(HEADER_MQTT_TOPIC, 'an unknown topic')}"
    return [Hop(f"received{which}", "done", by, copy.received_ms), Hop(f"stored{which}", "done", place)]


def dead_letter(record: Record) -> Hop:
    """Why a copy went to dead-letter."""
    reason, detail = (record.headers.get(name, "?") for name in (HEADER_REASON, HEADER_DETAIL))
    return Hop(
        "dead letter", "done", f"{record.topic}@{record.offset}: {reason}: {detail}", record.received_ms
    )


def in_queries(follower: Follower, copy: Copy, judged: str | None) -> list[Hop]:
    """Each streaming query's batch that took the record in."""
    hops = []
    topic = follower.topic("telemetry")
    for query in query_offsets.queries(follower.home):
        if query in REAL_TIME:
            continue  # it passes records through when they come: its batches say nothing of one
        taken = query_offsets.batch_of(follower.home, query, topic, copy.partition, copy.offset)
        name = f"query {query}"
        if taken is None:
            hops.append(Hop(name, "not yet", "in none of its committed batches"))
            continue
        at = tables.committed_at(follower.database, query, taken.query_id, taken.batch_id)
        which = f"batch {taken.batch_id}" if taken.exact else f"batch {taken.batch_id} or an earlier one"
        left_out = query != ARCHIVE and judged != OK
        detail = f"committed with {which}" + (f"; left out: {judged}" if left_out else "")
        hops.append(Hop(name, "done", detail, _ms(at) if taken.exact else None))
    return sorted(hops, key=lambda hop: (hop.at_ms is None, hop.at_ms or 0))


def in_tables(follower: Follower, wanted: Wanted, copies: Sequence[Copy], judged: str | None) -> list[Hop]:
    """Archive, lists of what was late or kept from the windows, windows, alerts, newest state."""
    hops = [
        Hop("archived", "done", copy.archived)
        if copy.archived
        else Hop("archived", "not yet", f"offset {copy.offset} is in no file")
        for copy in copies
    ]
    for copy in copies:
        hops += _listed(follower, copy)
    message = orjson.loads(copies[0].value) if judged != UNREADABLE else None
    if message is None:
        return hops
    if judged in (OK, LATE):
        hops += _windows(follower, wanted, message)
    first, last = int(message["t0_ms"]), int(message["t0_ms"]) + span_ms(message)
    for row in tables.alerts(
        follower.database, wanted.vehicle_id, wanted.boot_id or 0, wanted.seq, (first, last)
    ):
        hops.append(
            Hop("alert", "done", f"{row['severity']} {row['rule']} {row['alert_id']}", _ms(row["alerted_at"]))
        )
        hops.append(Hop("alert stored", "done", row["rule"], _ms(row["stored_at"])))
    return [*hops, *_latest(follower, wanted, last)] if judged == OK else hops


def _listed(follower: Follower, copy: Copy) -> list[Hop]:
    topic, database = follower.topic("telemetry"), follower.database
    hops = []
    late = tables.one(database, tables.LATE, topic, copy.partition, copy.offset)
    if late is not None:
        repaired = late["repaired_at"]
        hops.append(Hop("listed as late", "done", f"offset {copy.offset} in late_frame"))
        detail = "its windows are restated from the archive"
        hops.append(Hop("repaired", "done" if repaired else "not yet", detail, _ms(repaired)))
    kept = tables.one(database, tables.QUARANTINED, topic, copy.partition, copy.offset)
    if kept is not None:
        hops.append(
            Hop("quarantined", "done", f"{kept['verdict']}, offset {copy.offset} in quarantined_frame")
        )
    return hops


def _windows(follower: Follower, wanted: Wanted, message: dict[str, Any]) -> list[Hop]:
    """The vehicle's windows that the frame's samples fall into; it is counted in the first of them."""
    length_ms = follower.settings.jobs.window_s * 1000
    first, last = int(message["t0_ms"]), int(message["t0_ms"]) + span_ms(message)
    starts = list(range(first // length_ms * length_ms, last + 1, length_ms))
    moments = [datetime.fromtimestamp(ms / 1000, UTC) for ms in starts]
    rows = {_ms(r["window_start"]): r for r in tables.windows(follower.database, wanted.vehicle_id, moments)}
    hops = []
    for start, moment in zip(starts, moments, strict=True):
        row, name = rows.get(start), f"window {moment:%H:%M:%S}"
        if row is None:
            hops.append(Hop(name, "not yet", "no row in vehicle_window"))
            continue
        counts = f"{row['frames']} frames, {row['samples']} samples, last written by batch {row['batch_id']}"
        detail = f"{counts}, revision {row['revision']}"
        hops.append(Hop(name, "done", detail, _ms(row["restated_at"])))
    return hops


def _latest(follower: Follower, wanted: Wanted, last_ms: int) -> list[Hop]:
    row = tables.one(follower.database, tables.LATEST, wanted.vehicle_id)
    if row is None or (_ms(row["event_time"]) or 0) < last_ms:
        return [Hop("on the map", "not yet", "vehicle_latest is older")]
    if _ms(row["event_time"]) == last_ms:
        return [Hop("on the map", "done", "the vehicle's newest state", _ms(row["updated_at"]))]
    return [Hop("on the map", "done", "a newer state of the vehicle is shown by now")]


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)
