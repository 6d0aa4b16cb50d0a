"""Was a crash record changed? The custody log, in which each entry holds the hash of the one before it, held
against the records as readers see them, their own bytes, and Kafka's log of them.

Kafka keeps every crash record for ever and is none of the database's: who changes a record, or takes it out
of the vault with all that names it, changes it in one of two places.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import orjson

from infra.clients.kafka import LogReader, Record
from infra.clients.tables import plain
from infra.contract import evidence
from infra.contract.downlink import Verifier
from infra.contract.errors import ContractError, ServiceError
from infra.contract.evidence import statement
from infra.contract.frame import Frame
from infra.contract.messages import PART_SET, crash_digest, decode_crash, is_part, join_crash
from infra.contract.topics import kafka_topic
from infra.stack.access.identity import Trust, signature_of
from stream_jobs.crashes.check import profile_of

START: Final = "0" * 64
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
TOPIC, DEAD_LETTER = "crash", "dead-letter"
DEPLOYED: Final = "recorder: a restraint that does not reverse was deployed"
EVER_MS: Final = 1 << 52

Key = tuple[str, int, str]  # vehicle id, boot id, crash id
May = Mapping[str, Collection[str]]  # by action who may do it; an action that is not named anybody


def sha256_hex(body: bytes) -> str:
    """SHA-256, hex."""
    return hashlib.sha256(body).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """An entry of a log in which each holds the hash of the one before."""

    entry: int
    at: datetime
    actor: str
    action: str
    detail: str
    previous: str
    sha256: str

    @property
    def at_us(self) -> int:
        """Microseconds since 1970."""
        return (self.at - EPOCH) // MICROSECOND

    def hashed(self) -> str:
        """Of what it says."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(LogEntry):
    """One entry as the table has it; see the comments of odograph.custody."""

    vehicle_id: str
    boot_id: int
    crash_id: str
    digest: str
    signature: str | None = None

    @property
    def statement(self) -> bytes:
        """What the program that made the entry signed; a receipt signs what follows from it, too."""
        if self.action == "refused" or (self.action, self.detail) == ("locked", DEPLOYED):
            return statement(self.actor, "received", self.key, self.digest)
        return statement(self.actor, self.action, self.key, self.digest, self.detail)

    @property
    def key(self) -> Key:
        return self.vehicle_id, self.boot_id, self.crash_id

    def hashed(self) -> str:
        lines = (
            self.previous, self.entry, self.at_us, self.actor, self.action, self.vehicle_id, self.boot_id,
            plain(self.crash_id), self.digest, self.detail,
        )  # fmt: skip
        return sha256_hex("\n".join(map(str, lines)).encode())


def broken(entries: Iterable[LogEntry], since: int = 0) -> Iterator[str]:
    """What does not hold in the log, in its order, in words. ``since``: the first entry given; 0: all are."""
    wanted, before = since or 1, None if since else START
    for entry in entries:
        if entry.entry != wanted:
            yield f"entry {wanted} is missing: {entry.entry} follows"
        elif before is not None and entry.previous != before:
            yield f"entry {entry.entry} does not follow from the one before"
        if entry.sha256 != entry.hashed():
            yield f"entry {entry.entry} was changed: its hash is not that of what it says"
        wanted, before = entry.entry + 1, entry.sha256


@dataclass(frozen=True, slots=True)
class Anchors:
    """The heads that were anchored, by entry; what is wrong with their files, in words."""

    heads: Mapping[int, str] = field(default_factory=dict)
    wrong: Sequence[str] = ()
    words: str = ""
    newest: Path | None = None

    @property
    def first(self) -> int:
        """The first entry that was anchored; 0: none."""
        return min(self.heads, default=0)

    @property
    def last(self) -> int:
        """The last one; 0: none."""
        return max(self.heads, default=0)


def otherwise_anchored(
    entries: Iterable[LogEntry], anchors: Anchors, head: str | None = None
) -> Iterator[str]:
    """What is wrong with the anchors, and heads that were anchored, or told (``head``), and are not in the
    log; in words.
    """
    yield from anchors.wrong
    hashes = {entry.entry: entry.sha256 for entry in entries}
    for entry, sha256 in anchors.heads.items():
        if hashes.get(entry) != sha256:
            yield f"the log is not what was anchored at entry {entry}: it was cut off or written anew"
    if head is not None and head not in hashes.values():
        yield f"the log does not hold {head}: its end was cut off or written anew"


def unsigned(entries: Iterable[Entry], witness: Verifier, before_signing: int) -> Iterator[str]:
    """Entries that no program of the service made; up to ``before_signing`` they may have no signature."""
    for entry in entries:
        old = entry.signature is None and entry.entry <= before_signing
        if not old and not witness.holds(entry.statement, entry.signature or ""):
            yield f"{name_of(entry.key)} was {entry.action} by nobody of this service (entry {entry.entry})"


def tampered(
    entries: Sequence[Entry], digests: Mapping[Key, str], locked: Collection[Key], may: May
) -> Iterator[str]:
    """Records (``digests``: as stored) and locks that are not what the log says; entries of who may not."""
    histories: defaultdict[Key, list[Entry]] = defaultdict(list)
    for entry in entries:
        histories[entry.key].append(entry)
    for key, history in histories.items():
        for what in _of_record(history, digests.get(key), key in locked, may):
            yield f"{name_of(key)} {what}"
    yield from (f"{name_of(key)} is not in the log" for key in digests if key not in histories)


def _of_record(history: Sequence[Entry], digest: str | None, is_locked: bool, may: May) -> Iterator[str]:
    """What is wrong with the entries of one record in themselves, and with what is stored of it."""
    before = dict[str, Entry]()  # by action the first entry
    for entry in history:
        where = f"(entry {entry.entry})"
        if entry.actor not in may.get(entry.action, (entry.actor,)):
            yield f"was {entry.action} by {entry.actor}, who may not {where}"
        if entry.action == "received" and "received" in before:
            yield f"was received a second time {where}"
        elif entry.action == "changed":
            yield f"was changed by {entry.actor}, and nobody may {where}"
        elif entry.action == "deleted" and (digest is not None or "locked" in before):
            yield f"was deleted {where}, but {'it was locked' if digest is None else 'it is still there'}"
        before.setdefault(entry.action, entry)
    if "received" not in before:
        yield "is not in the log as received"
    elif digest is None and "deleted" not in before:
        yield "is gone, and the log does not say so"
    elif digest is not None and digest != before["received"].digest:
        yield f"is not what was received (entry {before['received'].entry})"
    if is_locked != ("locked" in before):
        yield "is locked, and the log does not say so" if is_locked else "was locked and is not any more"


def name_of(key: Key) -> str:
    """A record, for people."""
    return f"record {plain(key[2])} of {key[0]} (boot {key[1]})"


@dataclass(frozen=True, slots=True)
class Shown:
    """A record as readers see it."""

    digest: str
    received_ms: int
    locked: bool
    raw_kept: bool
    contradictions: Sequence[str] = ()  # columns that do not say what its own bytes say
    signature: str = evidence.UNCHECKED


def shown(row: Mapping[str, Any], devices: Trust | None = None) -> Shown:
    """A row of serving.crash_record, with its jsonb as ``record_text``; ``devices``: their authority."""
    raw, received_ms = row["raw"], _ms(row["received_at"])
    digest, says = sha256_hex((row["record_text"] if raw is None else raw).encode()), dict[str, bool]()
    signature = evidence.UNCHECKED if raw is None else signature_of(raw.encode(), devices, row["received_at"])
    if raw is not None:  # by column whether it says what the body says
        body = orjson.loads(raw)
        same = ("vehicle_id", "boot_id", "crash_id", "delta_v_max_kmh", "airbag_deployed")
        says = {
            "record": row["record"] == body,
            **{name: row[name] == body.get(name) for name in same},
            "event_time": _ms(row["event_time"]) in (body.get("event_ms"), received_ms),
            "profile": row["profile"] == profile_of(body),
            "complete": row["complete"] == (body.get("complete") is True),
            "hash_ok": row["hash_ok"] == (body.get("sha256") == crash_digest(body)),
            "signature": evidence.UNCHECKED in (signature, row["signature"]) or row["signature"] == signature,
            # A place that was not believed is not there.
            **{name: row[name] in (None, body.get(name)) for name in ("lat_deg", "lon_deg")},
        }
    wrong = tuple(name for name, holds in says.items() if not holds)
    return Shown(digest, received_ms, row["locked_at"] is not None, raw is not None, wrong, signature)


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


class CrashLog:
    """What Kafka's log holds: by identity the digests of its records, and when each was received, ms."""

    def __init__(self) -> None:
        self.records: defaultdict[Key, defaultdict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
        self.pending = 0  # messages that the vault has not read yet
        self.others: set[str] = set()  # digests of what gives no record, or gave one by an older contract
        # Records that the store refused: dead letters in the database, and in Kafka as far back as they go.
        self.refused: set[Key] = set()
        self.damage: list[str] = []  # what is wrong with the log itself, in words
        self._parts: dict[tuple[Any, ...], dict[int, tuple[str, int]]] = {}

    def add(self, record: Record) -> None:
        """One message more, in the order of the log; what gives no record the store leaves out as well."""
        try:
            message = decode_crash(record.value)
            if not is_part(message):
                self._note(message, record.value, record.received_ms)
                return
            key = tuple(message[name] for name in PART_SET)
            parts = self._parts.setdefault(key, {})
            parts.setdefault(message["part"], (message["data"], record.received_ms))
            if len(parts) == message["parts"]:
                del self._parts[key]
                raw = join_crash([parts[k][0] for k in range(len(parts))], message["sha256"])
                self._note(decode_crash(raw), raw, max(at_ms for _, at_ms in parts.values()))
        except ContractError:
            self.others.add(sha256_hex(record.value))

    def note_refused(self, dead: Collection[str], letters: Iterable[Record], whole: bool) -> None:
        """``letters`` are Kafka's dead letters; ``whole``: none of them has expired."""
        kept: dict[str, int] = {sha256_hex(each.value): each.received_ms for each in letters}
        oldest_ms = 0 if whole else min(kept.values(), default=EVER_MS)
        for key, versions in self.records.items():
            older = {digest for digest, at in versions.items() if min(at) < oldest_ms}
            if versions.keys() <= set(dead) & (kept.keys() | older):
                self.refused.add(key)

    def _note(self, message: Frame, raw: bytes, received_ms: int) -> None:
        key = (message["vehicle_id"], message["boot_id"], message["crash_id"])
        self.records[key][sha256_hex(raw)].add(received_ms)


def read_log(bootstrap: str, prefix: str, vault: "Vault") -> CrashLog:
    """The log up to where the vault has read it; raises ServiceError, also where that was another log."""
    found, topic = CrashLog(), kafka_topic(prefix, TOPIC)
    with LogReader(bootstrap) as log:
        if not (generation := {log.generation(topic)}).issuperset(vault.logs):
            raise ServiceError(
                f"{topic} is another log ({generation}) than the vault was read of ({vault.logs}): start "
                "`odograph jobs events` first, or leave the log out: --without-log"
            )
        for partition, (low, end) in log.spans(topic).items():
            until, place = vault.read_to.get(partition, 0), f"{topic}/{partition}"
            found.pending += max(0, end - until)
            if low > vault.begins.get(partition, 0):
                found.damage.append(f"{place} was cut: it begins at offset {low} and is kept for ever")
            if until > end:
                found.damage.append(f"{place} was made anew: it ends at {end}, {until} were read of it")
            for record in log.records(topic, partition, 0, min(until, end)):
                found.add(record)
        if vault.dead:
            letters = kafka_topic(prefix, DEAD_LETTER)
            low, end = log.bounds(letters, 0)
            found.note_refused(vault.dead, log.records(letters, 0, low, end), whole=low == 0)
    return found


def differing(records: Mapping[Key, Shown], deleted: Collection[Key], log: CrashLog) -> Iterator[str]:
    """Where vault and log differ, in words."""
    yield from log.damage
    for key, record in records.items():
        versions = log.records.get(key)
        if versions is None and not log.damage and record.digest not in log.others:
            yield f"{name_of(key)} is not in Kafka's log: no vehicle sent it"
        elif versions is not None and record.raw_kept:
            if record.digest not in versions:
                yield f"{name_of(key)} is not what Kafka's log holds"
            elif record.received_ms not in versions[record.digest]:
                yield f"{name_of(key)} was not received when it says, by Kafka's log"
    for key in log.records.keys() - records.keys() - log.refused - set(deleted):
        yield f"{name_of(key)} is in Kafka's log, and not in the vault"


def forged(records: Mapping[Key, Shown]) -> Iterator[str]:
    """Records that their vehicle did not sign: by its signature, or as it had signed others before."""
    signs: dict[str, int] = {}  # by vehicle, when its first signed record was received
    for key, record in records.items():
        if record.signature == evidence.VALID:
            signs[key[0]] = min(record.received_ms, signs.get(key[0], EVER_MS))
    for key, record in records.items():
        if record.signature == evidence.INVALID:
            yield f"{name_of(key)} is not signed by its vehicle: the signature is not of these bytes"
        elif record.signature == evidence.ABSENT and record.received_ms > signs.get(key[0], EVER_MS):
            yield f"{name_of(key)} is unsigned, and its vehicle had signed records before"


@dataclass(frozen=True, slots=True)
class Vault:
    """All that verify looks at in the database, of one moment."""

    entries: Sequence[Entry]
    records: Mapping[Key, Shown]
    read_to: Mapping[int, int]  # by partition the next offset of the crash topic that the event store reads
    dead: Collection[str]  # digests of crash messages among the dead letters
    logs: Collection[str]  # identities of the logs that these offsets are places in
    begins: Mapping[int, int] = field(default_factory=dict)  # by partition where an erasure cut the topic


@dataclass(frozen=True, slots=True)
class Verified:
    """What a check of the vault found; None: not compared with Kafka's log."""

    entries: int
    records: int
    locked: int
    deleted: int
    pending: int | None  # messages in the log that the vault has not read yet
    refused: int | None  # records in it that became dead letters
    head: str
    wrong: Sequence[str]
    signatures: Mapping[str, int]  # records by what is known of their vehicle's signature
    anchored: str  # how far the log is anchored outside the database, in words

    def as_text(self) -> str:
        compared = "NOT compared"
        if self.pending is not None:
            compared = f"compared, {self.refused} records refused as dead letters, "
            compared += f"{self.pending} messages not read yet"
        return "\n".join([
            f"{self.entries} entries, {self.records} records, {self.locked} locked, {self.deleted} deleted",
            "signed by vehicles: "
            + (", ".join(f"{n} {word}" for word, n in sorted(self.signatures.items())) or "none"),
            f"anchored: {self.anchored}",
            f"Kafka's log: {compared}", f"head {self.head}", *(self.wrong or ["nothing was changed"]),
        ])  # fmt: skip


def verified(
    vault: Vault, may: May, log: CrashLog | None, head: str | None, witness: Verifier | None, anchors: Anchors
) -> Verified:
    """The chain, the records against it, their own bytes, signatures and Kafka's log, and earlier heads."""
    entries, records = vault.entries, vault.records
    digests = {key: record.digest for key, record in records.items()}
    locked = {key for key, record in records.items() if record.locked}
    deleted = {entry.key for entry in entries if entry.action == "deleted"} - records.keys()
    wrong = [*broken(entries), *tampered(entries, digests, locked, may), *forged(records)]
    if witness is not None:
        wrong += unsigned(entries, witness, anchors.first)
    wrong += otherwise_anchored(entries, anchors, head)
    for key, record in records.items():
        if record.contradictions:
            columns = ", ".join(record.contradictions)
            wrong.append(f"{name_of(key)}: {columns}: not what the record's own bytes say")
    pending = refused = None
    if log is not None:
        wrong += differing(records, deleted, log)
        pending, refused = log.pending, len(log.refused - records.keys())
    last = entries[-1].sha256 if entries else START
    signatures = Counter(record.signature for record in records.values())
    return Verified(
        len(entries), len(records), len(locked), len(deleted), pending, refused, last, wrong, signatures,
        anchors.words,
    )  # fmt: skip
