"""One frame's hops in all that holds a trace of it: log, dead letters, archive, ledger, tables."""

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import orjson
import psycopg
from psycopg.rows import dict_row

from infra.clients import duck
from infra.clients.db import connected, sql_of
from infra.clients.kafka import LogReader, Record, identity, record_of
from infra.clients.tables import plain
from infra.contract import topics
from infra.contract.verdict import LATE, OK, UNREADABLE, clock_limits, verdict
from infra.settings.settings import Endpoints, Settings
from infra.stack import query_offsets
from stream_jobs.archive.manifest import HOUR_MS, archive_of
from stream_jobs.archive.reader import hours, of_hours

State = Literal["done", "not yet", "gone"]
"""``gone``: was there, retention has taken it."""


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
        return bool(self.copies or self.dead)


def text(trace: Trace) -> str:
    """Aligned lines: the hop, its time, the time since the hop before it that has one, what is known."""
    copies = f"{trace.copies} {'copy' if trace.copies == 1 else 'copies'}"
    head = f"{trace.vehicle_id} boot {trace.boot_id} seq {trace.seq}: verdict {trace.verdict or 'unknown'}"
    lines = [f"{head}, {copies}" + (f", {trace.dead} dead-lettered" if trace.dead else "")]
    width = max((len(hop.name) for hop in trace.hops), default=0)
    before: int | None = None
    for hop in trace.hops:
        moment = "" if hop.at_ms is None else _clock(hop.at_ms)
        moment = moment if hop.state == "done" else hop.state
        delta = "" if hop.at_ms is None or before is None else f"{(hop.at_ms - before) / 1000:+.3f} s"
        lines.append(f"  {hop.name:<{width}}  {moment:<23}  {delta:>12}  {hop.detail}".rstrip())
        before = before if hop.at_ms is None else hop.at_ms
    return "\n".join(map(plain, [*lines, *(f"  note: {note}" for note in trace.notes)]))


def _clock(at_ms: int) -> str:
    """Date and time, UTC, to the millisecond; a number where no calendar has it."""
    try:
        return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3]
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"


def span_ms(message: dict[str, Any]) -> int:
    """From a frame's first sample to its last."""
    return int((message["n"] - 1) * message["dt_ms"])


def verdict_of(value: bytes, received_ms: int, settings: Settings) -> str:
    """The verdict on a record, by the same rule as everywhere."""
    try:
        message = orjson.loads(value)
        return verdict(message["t0_ms"], span_ms(message), received_ms, clock_limits(settings))
    except (ValueError, TypeError, KeyError, OverflowError):
        return UNREADABLE


def on_board(payload: bytes) -> list[Hop]:
    """First sample, last sample, sending: by the vehicle's own clock."""
    try:
        message = orjson.loads(payload)
        t0_ms, sent_ms, end_ms = int(message["t0_ms"]), int(message["sent_ms"]), span_ms(message)
    except (ValueError, TypeError, KeyError, OverflowError):
        return []
    samples = f"{message['n']} samples, {message['dt_ms']} ms apart"
    return [
        Hop("first sample", "done", "the vehicle's clock", t0_ms),
        Hop("last sample", "done", samples, t0_ms + end_ms),
        Hop("sent", "done", "the vehicle's clock", sent_ms),
    ]


SQL: Final = sql_of(__file__)
TAIL_MS: Final = 600_000  # how far back the log is read where no archive was searched before
MOST_RECORDS: Final = 1_000_000  # a stretch of the log is read to its end or to so many records: 5 to 20 s
SAY_EVERY_HOURS: Final = 6
DEAD_LETTERS: Final = 500  # newest dead letters of a vehicle that are looked into
_LISTED: Final = "SELECT * FROM odograph.{} WHERE topic = %s AND partition = %s AND log_offset = %s AND {}"
_OF_LOG: Final = "log_generation IN ('', %s)"

Say = Callable[[str], None]
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The frame that is looked for; ``boot_id`` None: the newest that has the sequence number."""

    vehicle_id: str
    seq: int
    boot_id: int | None = None


class Copy(NamedTuple):
    """One record of the frame: as the log has it, in the archive's file and row, or both."""

    topic: str
    partition: int
    offset: int
    received_ms: int
    value: bytes
    record: Record | None
    archived: str | None


def matches(value: bytes, wanted: Wanted) -> bool:
    """Whether a payload is the frame wanted. The vehicle is the record's key: it is not compared here."""
    if b"%d" % wanted.seq not in value:
        return False
    found = identity(value)
    return found is not None and found[1] == wanted.seq and wanted.boot_id in (None, found[0])


def alert_id(vehicle_id: str, rule: str, rule_version: int, boot_id: int, seq: int) -> str:
    """The id of a rule's finding in a frame, as the real-time query makes it."""
    same = "|".join(map(str, (vehicle_id, rule, rule_version, boot_id, seq)))
    return hashlib.sha256(same.encode()).hexdigest()[:32]


@dataclass(slots=True)
class Follower:
    """What a frame is looked for in. ``cut_short``: a stretch of the log was longer than what was read."""

    settings: Settings
    log: LogReader
    database: psycopg.Connection[Row]
    say: Say
    wanted: Wanted
    scanned: int = 0
    cut_short: bool = False

    @property
    def home(self) -> Path:
        return self.settings.paths.home.resolve()

    def topic(self, name: str) -> str:
        return topics.kafka_topic(self.settings.kafka.prefix, name)

    def row(self, query: str, *values: Any) -> Row | None:
        """The row of a query by key; None without one."""
        return self.database.execute(query.encode(), values).fetchone()

    def copies(self, look_back_ms: int) -> list[Copy]:
        """All records of the frame, in the order of the log."""
        live, copies = [self.topic(name) for name in topics.LIVE], dict[tuple[str, str, int, int], Copy]()
        ours = ("", *(self.log.generation(topic) for topic in live))
        for place, log, topic, partition, offset, received_ms, value in self._archived(look_back_ms):
            here = topic in live and log in ours
            record = self.log.at(topic, partition, offset) if here else None
            copy = Copy(topic, partition, offset, received_ms, value, record, place)
            copies["" if here else log, topic, partition, offset] = copy
        newest = query_offsets.committed(self.database, "archive")
        for topic in live:
            partition = topics.partition_of(self.wanted.vehicle_id.encode(), self.log.partitions(topic))
            not_archived = newest.ends.get(topic, {}).get(partition) if newest is not None else None
            if not_archived is None:
                not_archived = self.log.since(topic, partition, int(time.time() * 1000) - TAIL_MS)
            for found in self._find(topic, partition, not_archived):
                copy = Copy(topic, partition, found.offset, found.received_ms, found.value, found, None)
                copies.setdefault(("", topic, partition, found.offset), copy)
        return sorted(copies.values(), key=lambda copy: (copy.received_ms, copy.topic, copy.offset))

    def _archived(self, look_back_ms: int) -> list[tuple[str, str, str, int, int, int, bytes]]:
        """File and row, log, topic, partition, offset, receipt and bytes of archived copies, oldest first.

        Searched by hour of receipt, the newest first. The hour before the one that has it is looked into
        too: copies may lie on both sides of a full hour.
        """
        archive, wanted = archive_of(self.home), self.wanted
        oldest_ms = int(time.time() * 1000) - look_back_ms
        stored = [hour_ms for hour_ms in reversed(hours(archive)) if hour_ms + HOUR_MS > oldest_ms]
        found: list[tuple[str, str, str, int, int, int, bytes]] = []
        for number, hour_ms in enumerate(stored):
            if number and number % SAY_EVERY_HOURS == 0:
                self.say(f"not in the archive's newest {number} of {len(stored)} hours, going on")
            before = bool(found)
            if logs := {str(file.path): file.logs for file in of_hours(archive, [hour_ms])}:
                values = [[*logs], wanted.vehicle_id, wanted.seq, wanted.boot_id, wanted.boot_id]
                with duck.connected() as connection:
                    rows = connection.execute(SQL["archived"], values).fetchall()
                found[:0] = [
                    (f"{Path(file).relative_to(self.home).as_posix()} row {row}", logs[file].get(topic, ""),
                     topic, *rest)
                    for file, row, topic, *rest in rows
                ]  # fmt: skip
            if before:
                break
        return found

    def dead(self) -> list[Record]:
        """Dead letters of the frame: those that the table lists, and those it does not list yet."""
        topic = self.topic("dead-letter")
        generation = self.log.generation(topic)
        asked = (self.wanted.vehicle_id, generation, DEAD_LETTERS)
        listed = self.database.execute(SQL["dead"].encode(), asked).fetchall()
        end = self.row(SQL["dead_end"], generation)
        found = [self.log.at(topic, 0, offset) for offset in sorted(int(row["log_offset"]) for row in listed)]
        fresh = self._find(topic, 0, int(end["next"]) if end else 0, any_key=True)
        return [r for r in found if r is not None and matches(r.value, self.wanted)] + fresh

    def _find(self, topic: str, partition: int, begin: int, any_key: bool = False) -> list[Record]:
        """Records of the frame from ``begin`` to the end; the newest part of a stretch too long.

        ``any_key``: records without a key are looked into as well (dead letters).
        """
        low, end = self.log.bounds(topic, partition)
        begin = max(begin, low)
        if end - begin > MOST_RECORDS:
            begin, self.cut_short = end - MOST_RECORDS, True
        key = self.wanted.vehicle_id.encode()
        keys = (key, None) if any_key else (key,)
        found = []
        for message in self.log.messages(topic, partition, begin, end):
            self.scanned += 1
            value = message.value() or b""
            if message.key() in keys and matches(value, self.wanted) and (message.key() or key in value):
                found.append(record_of(message))
        return found

    def in_log(self, copy: Copy, number: int) -> list[Hop]:
        """Receipt by the bridge and the place in the log; the log's own time is the receipt."""
        which = "" if number == 1 else f" (copy {number})"
        place = f"{copy.topic}[{copy.partition}]@{copy.offset}, {len(copy.value):,} bytes"
        by, stored = "by the bridge", Hop(f"stored{which}", "done", place)
        if copy.record is None:
            stored = Hop(f"stored{which}", "gone", f"{place}; the log has it no more, the archive does")
        else:
            by += f" from {copy.record.headers.get(topics.HEADER_MQTT_TOPIC, 'an unknown topic')}"
        return [Hop(f"received{which}", "done", by, copy.received_ms), stored]

    def in_queries(self, copy: Copy, judged: str | None) -> list[Hop]:
        """Each streaming query's batch that took the record in."""
        hops = []
        for query in query_offsets.all_committed(self.database):
            if copy.topic == self.topic(topics.DEFERRED) and query != "archive":
                continue  # put off because of overload: the repair brings it into windows
            taken = self.row(SQL["taken"], copy.topic, str(copy.partition), query, copy.offset)
            if taken is None:
                hops.append(Hop(f"query {query}", "not yet", "in none of its committed batches"))
                continue
            exact = taken["exact"]
            detail = f"committed with batch {taken['batch_id']}{'' if exact else ' or an earlier one'}"
            detail += f"; left out: {judged}" if query != "archive" and judged != OK else ""
            hops.append(Hop(f"query {query}", "done", detail, _ms(taken["committed_at"]) if exact else None))
        return sorted(hops, key=lambda hop: (hop.at_ms is None, hop.at_ms or 0))

    def in_tables(self, copies: Sequence[Copy], judged: str | None) -> list[Hop]:
        """Archive, lists of what was late or kept from the windows, windows, alerts, newest state."""
        hops = [
            Hop("archived", "done", copy.archived)
            if copy.archived
            else Hop("archived", "not yet", f"offset {copy.offset} is in no file")
            for copy in copies
        ]
        for copy in copies:
            place = (copy.topic, copy.partition, copy.offset, self.log.generation(copy.topic))
            if late := self.row(_LISTED.format("late_frame", _OF_LOG), *place):
                repaired = late["repaired_at"]
                why = "put off" if copy.topic == self.topic(topics.DEFERRED) else "late"
                hops.append(Hop(f"listed as {why}", "done", f"offset {copy.offset} in late_frame"))
                detail = "its windows are restated from the archive"
                hops.append(Hop("repaired", "done" if repaired else "not yet", detail, _ms(repaired)))
            if kept := self.row(_LISTED.format("quarantined_frame", _OF_LOG), *place):
                detail = f"{kept['verdict']}, offset {copy.offset} in quarantined_frame"
                hops.append(Hop("quarantined", "done", detail))
        if judged == UNREADABLE:
            return hops
        message = orjson.loads(copies[0].value)
        first = int(message["t0_ms"])
        last = first + span_ms(message)
        if judged in (OK, LATE):
            hops += self._windows(first, last)
        vehicle_id, frame = self.wanted.vehicle_id, (self.wanted.boot_id or 0, self.wanted.seq)
        for row in self.database.execute(SQL["alerts"], (vehicle_id, first, last)).fetchall():
            if row["alert_id"] == alert_id(vehicle_id, row["rule"], row["rule_version"], *frame):
                detail = f"{row['severity']} {row['rule']} {row['alert_id']}"
                hops.append(Hop("alert", "done", detail, _ms(row["alerted_at"])))
                hops.append(Hop("alert stored", "done", row["rule"], _ms(row["stored_at"])))
        return [*hops, self._latest(last)] if judged == OK else hops

    def _windows(self, first: int, last: int) -> list[Hop]:
        """The vehicle's windows that the frame's samples fall into; it is counted in the first of them."""
        length_ms = self.settings.jobs.window_s * 1000
        starts = range(first // length_ms * length_ms, last + 1, length_ms)
        moments = [datetime.fromtimestamp(ms / 1000, UTC) for ms in starts]
        found = self.database.execute(SQL["windows"], (self.wanted.vehicle_id, moments)).fetchall()
        rows = {_ms(row["window_start"]): row for row in found}
        hops = []
        for start, moment in zip(starts, moments, strict=True):
            row, name = rows.get(start), f"window {moment:%H:%M:%S}"
            if row is None:
                hops.append(Hop(name, "not yet", "no row in vehicle_window"))
                continue
            counts = f"{row['frames']} frames, {row['samples']} samples"
            detail = f"{counts}, last written by batch {row['batch_id']}, revision {row['revision']}"
            hops.append(Hop(name, "done", detail, _ms(row["restated_at"])))
        return hops

    def _latest(self, last_ms: int) -> Hop:
        row = self.row(SQL["latest"], self.wanted.vehicle_id)
        if row is None or (_ms(row["event_time"]) or 0) < last_ms:
            return Hop("on the map", "not yet", "vehicle_latest is older")
        if _ms(row["event_time"]) == last_ms:
            return Hop("on the map", "done", "the vehicle's newest state", _ms(row["updated_at"]))
        return Hop("on the map", "done", "a newer state of the vehicle is shown by now")


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)


def follow(settings: Settings, endpoints: Endpoints, wanted: Wanted, look_back_ms: int, say: Say) -> Trace:
    """The frame's hops; ``found`` is False where nothing has it. Raises ServiceError."""
    with (
        LogReader(endpoints.kafka_bootstrap, "odograph-trace") as log,
        connected(endpoints.db_owner_url, row_factory=dict_row) as database,
    ):
        follower = Follower(settings, log, database, say, wanted)
        copies, dead = follower.copies(look_back_ms), follower.dead()
        met = [(copy.received_ms, copy.value) for copy in copies] + [(r.received_ms, r.value) for r in dead]
        ids = [identity(value) for _, value in sorted(met, reverse=True)]
        boots = list(dict.fromkeys(found[0] for found in ids if found is not None))
        notes = []
        if wanted.boot_id is None and boots:
            if len(boots) > 1:
                others = ", ".join(map(str, boots[1:]))
                more = f"this sequence number was sent in others too: --boot {others}"
                notes.append(f"the newest boot is shown; {more}")
            follower.wanted = wanted = replace(wanted, boot_id=boots[0])
            copies = [c for c in copies if matches(c.value, wanted)]
            dead = [r for r in dead if matches(r.value, wanted)]
        if follower.cut_short:
            notes.append(f"only the newest {follower.scanned:,} records of the log were looked through")
        judged = verdict_of(copies[0].value, copies[0].received_ms, settings) if copies else None
        hops = on_board(copies[0].value if copies else dead[0].value if dead else b"")
        for number, copy in enumerate(copies, 1):
            hops += follower.in_log(copy, number)
        for r in dead:
            why = ": ".join(r.headers.get(name, "?") for name in (topics.HEADER_REASON, topics.HEADER_DETAIL))
            hops.append(Hop("dead letter", "done", f"{r.topic}@{r.offset}: {why}", r.received_ms))
        if copies:
            hops += follower.in_queries(copies[0], judged) + follower.in_tables(copies, judged)
    return Trace(wanted.vehicle_id, wanted.boot_id, wanted.seq, judged, len(copies), len(dead), hops, notes)
