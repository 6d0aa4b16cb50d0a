"""A dead letter as Kafka has it, its judgement by the contract in force, and its text. Pure."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final

import orjson

from bridge.uplink.translate import Record, Rejection, Translator
from infra.contract import topics
from infra.contract.errors import ConfigError, ContractError
from infra.contract.messages import decode_crash, is_part, join_crash
from infra.contract.verdict import CLOCK_AHEAD, ClockLimits, verdict
from infra.settings.values import duration_ms, moment_ms

CUT: Final = re.compile(r"the first (\d+) of (\d+) bytes are kept")
"""How a letter's detail says that only a part of the message was kept; see bridge.uplink.translate."""
PART_SET: Final = ("vehicle_id", "boot_id", "crash_id", "sha256", "parts")
NAMED: Final = 50  # letters that stay are named one by one up to this many; JSON names all
DUMP_WIDTH: Final = 16
DETAIL_CHARS: Final = 60

Marked = set[tuple[int, str]]
"""Offset and digest of letters that were sent in and are stored."""
Message = dict[str, Any]
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Letter:
    """One record of the topic dead-letter; ``at_ms`` is when the message was received."""

    offset: int
    at_ms: int
    key: bytes | None
    value: bytes
    headers: Mapping[str, bytes]

    @property
    def reason(self) -> str:
        """Why it is dead."""
        return self._text(topics.HEADER_REASON) or "unknown"

    @property
    def detail(self) -> str:
        """Why, at length."""
        return self._text(topics.HEADER_DETAIL)

    @property
    def vehicle_id(self) -> str | None:
        """The vehicle, where the topic named one."""
        return None if self.key is None else self.key.decode(errors="replace")

    @property
    def mqtt_topic(self) -> bytes | None:
        """The MQTT topic as received; None for a letter that no vehicle sent."""
        return self.headers.get(topics.HEADER_MQTT_TOPIC)

    @property
    def digest(self) -> str:
        """SHA-256 of the raw bytes, hex: as in the table odograph.dead_letter."""
        return hashlib.sha256(self.value).hexdigest()

    @property
    def first_received_ms(self) -> int:
        """When the message came over MQTT the first time."""
        for name in (topics.HEADER_FIRST_RECEIVED_MS, topics.HEADER_RECEIVED_MS):
            text = self.headers.get(name, b"")
            if text.isdigit():
                return int(text)
        return self.at_ms

    @property
    def cut(self) -> tuple[int, int] | None:
        """Bytes kept and bytes sent, where only a part was kept."""
        found = CUT.search(self.detail)
        return (int(found[1]), int(found[2])) if found else None

    @property
    def messages(self) -> int:
        """How many messages it stands for: itself, or those that were counted and not kept."""
        text = self.headers.get(topics.HEADER_MESSAGES, b"")
        return int(text) if text.isdigit() and len(text) < 10 else 1

    def _text(self, header: str) -> str:
        return self.headers.get(header, b"").decode(errors="backslashreplace")

    def row(self, marked: Marked) -> Row:
        """What lists show of it."""
        topic = self.mqtt_topic
        return {
            "offset": self.offset,
            "received": utc(self.at_ms),
            "reason": self.reason,
            "vehicle_id": self.vehicle_id,
            "mqtt_topic": None if topic is None else topic.decode(errors="backslashreplace"),
            "bytes": len(self.value),
            "detail": self.detail,
            "reinjected": (self.offset, self.digest) in marked,
        }


@dataclass(frozen=True, slots=True)
class Selection:
    """Which letters are meant; None: any."""

    reason: str | None = None
    vehicle_id: str | None = None

    def takes(self, letter: Letter) -> bool:
        """Whether the letter is meant."""
        return self.reason in (None, letter.reason) and self.vehicle_id in (None, letter.vehicle_id)


@dataclass(frozen=True, slots=True)
class Passed:
    """A letter that may go in: the record to store, the message in it and the channel it came by."""

    letter: Letter
    record: Record
    message: Message
    channel: str

    @property
    def is_crash_part(self) -> bool:
        """Whether it is a part of a crash record."""
        return self.channel == "crash" and is_part(self.message)

    def received_at(self, received_ms: int) -> Record:
        """The record, received at that moment."""
        now = (topics.HEADER_RECEIVED_MS, b"%d" % received_ms)
        headers = [now if pair[0] == now[0] else pair for pair in self.record.headers]
        return self.record._replace(headers=headers, timestamp_ms=received_ms)


@dataclass(frozen=True, slots=True)
class Stays:
    """A letter that stays dead, and why."""

    offset: int
    reason: str
    detail: str


@dataclass(slots=True)
class Outcome:
    """Letters judged."""

    passed: list[Passed] = field(default_factory=list)
    stays: list[Stays] = field(default_factory=list)


@dataclass(slots=True)
class Report:
    """What became of letters: offsets that went in (by channel), that had gone in before, that stay."""

    went: dict[int, str] = field(default_factory=dict)
    before: list[int] = field(default_factory=list)
    stays: list[Stays] = field(default_factory=list)


class Recheck:
    """The contract in force: names, limits of clocks."""

    def __init__(self, root: str, prefix: str, limits: ClockLimits) -> None:
        self._root = root
        self._translator = Translator(root, prefix)
        self._limits = limits

    def judge(self, letter: Letter, now_ms: int) -> Passed | Stays:
        """The letter as a record received at ``now_ms``, or why it stays."""

        def stays(reason: str, detail: str) -> Stays:
            return Stays(letter.offset, reason, detail)

        topic = letter.mqtt_topic
        if topic is None:
            return stays("not_from_mqtt", "a service wrote it, no vehicle sent it")
        if letter.cut is not None:
            kept, sent = letter.cut
            return stays("cut", f"only the first {kept} of its {sent} bytes were kept")
        if letter.headers.get(topics.HEADER_AUTHENTICATED_AS, letter.key) != letter.key:
            return stays("identity_mismatch", "the broker did not name the vehicle as its sender")
        found = self._translator.translate(topic, letter.value, now_ms)
        if not isinstance(found, Record):
            why = found if isinstance(found, Rejection) else Rejection("unknown_topic", "", None)
            return stays(why.reason, why.detail)
        message = orjson.loads(letter.value)
        channel = topics.parse_mqtt_topic(self._root, topic.decode())[1]
        if channel == "telemetry" and self._was_ahead(message, letter.first_received_ms):
            return stays(CLOCK_AHEAD, "when it came its clock was ahead; by now it would look right")
        headers = [
            *found.headers,
            (topics.HEADER_FIRST_RECEIVED_MS, b"%d" % letter.first_received_ms),
            (topics.HEADER_REINJECTED_FROM, b"%d" % letter.offset),
        ]
        return Passed(letter, found._replace(headers=headers), message, channel)

    def _was_ahead(self, frame: Message, received_ms: int) -> bool:
        span_ms = frame["dt_ms"] * (frame["n"] - 1)
        return verdict(frame["t0_ms"], span_ms, received_ms, self._limits) == CLOCK_AHEAD


def judge_parts(parts: Sequence[Passed]) -> Outcome:
    """Parts of crash records that may go in: a complete set must give a record."""

    def set_of(passed: Passed) -> tuple[str, ...]:
        return tuple(str(passed.message[key]) for key in PART_SET)

    outcome = Outcome()
    for _, group in groupby(sorted(parts, key=set_of), key=set_of):
        found = list(group)
        why = _set_error([passed.message for passed in found])
        if why is None:
            outcome.passed += found
        else:
            outcome.stays += [Stays(x.letter.offset, why.reason, why.detail) for x in found]
    outcome.passed.sort(key=lambda passed: passed.letter.offset)
    return outcome


def _set_error(parts: Sequence[Message]) -> ContractError | None:
    by_number, count = {part["part"]: part["data"] for part in parts}, parts[0]["parts"]
    if len(by_number) < count:
        return None
    try:
        decode_crash(join_crash([by_number[n] for n in range(count)], parts[0]["sha256"]))
    except ContractError as error:
        return error
    return None


def judge_statuses(statuses: Sequence[Passed], newest_ms: Mapping[str, int]) -> Outcome:
    """Status messages that may go in: none older than ``newest_ms`` by vehicle."""
    outcome, last = Outcome(), dict(newest_ms)
    for passed in statuses:
        vehicle_id, at_ms = passed.message["vehicle_id"], passed.message["at_ms"]
        if at_ms < last.get(vehicle_id, 0):
            stays = Stays(passed.letter.offset, "overtaken", "a newer status of the vehicle is in force")
            outcome.stays.append(stays)
            continue
        last[vehicle_id] = at_ms
        outcome.passed.append(passed)
    return outcome


def since_ms(text: str, now_ms: int) -> int:
    """So long before ``now_ms`` (``10m``), or a time, UTC unless it has a zone; raises ConfigError."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return now_ms - duration_ms(text, "--since")
    at_ms = moment_ms(text, "--since")
    if at_ms < 0:
        raise ConfigError(f"--since {text}: a time after 1970 is wanted")
    return at_ms


def utc(ms: int) -> str:
    """A time in ms since 1970 as people and machines read it."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def dump(raw: bytes) -> str:
    """Raw bytes as lines of position, hexadecimal and text."""
    lines = []
    for start in range(0, len(raw), DUMP_WIDTH):
        row = raw[start : start + DUMP_WIDTH]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start:08x}  {row.hex(' '):<{3 * DUMP_WIDTH - 1}}  {text}")
    return "\n".join(lines)


def list_text(found: Sequence[Row], by_reason: Mapping[str, int]) -> str:
    """A line a letter, then the counts."""
    lines = [
        f"{row['offset']:>8} {row['received']} {row['reason']:17} {row['vehicle_id'] or '-':17} "
        f"{row['bytes']:>7} {'again' if row['reinjected'] else '     '} {_short(row['detail'])}"
        for row in found
    ]
    head = f"{'offset':>8} {'received':24} {'reason':17} {'vehicle':17} {'bytes':>7} {'':5} detail"
    counts = [f"{count:>8,} {reason}" for reason, count in sorted(by_reason.items())]
    total = sum(by_reason.values())
    summary = f"{total:,} dead letters" + (f", the newest {len(found)} shown" if len(found) < total else "")
    return "\n".join([*([head, *lines] if lines else []), summary, *counts])


def list_json(found: Sequence[Row], by_reason: Mapping[str, int]) -> str:
    """The rows and the counts."""
    return _json({"letters": found, "by_reason": dict(sorted(by_reason.items()))})


def letter_text(letter: Letter, limit: int) -> str:
    """Its offset, its headers, its bytes; of more bytes than ``limit`` the first."""
    lines = [
        f"offset {letter.offset}, received {utc(letter.at_ms)}, vehicle {letter.vehicle_id or '-'}",
        *(f"{name}: {value.decode(errors='backslashreplace')}" for name, value in letter.headers.items()),
        f"sha256: {letter.digest}",
        f"{len(letter.value)} bytes" + (f", the first {limit}:" if len(letter.value) > limit else ":"),
        dump(letter.value[:limit]),
    ]
    return "\n".join(lines)


def report_text(report: Report, dry_run: bool) -> str:
    """Who stays and why, then the sums."""
    lines = [f"{x.offset:>8} stays: {x.reason}: {_short(x.detail, 120)}" for x in report.stays[:NAMED]]
    if len(report.stays) > NAMED:
        lines.append(f"and {len(report.stays) - NAMED} more")
    went = _counts(report.went.values())
    lines.append(f"{'would go in' if dry_run else 'went in'}: {len(report.went)}{went}")
    if report.before:
        lines.append(f"went in before: {len(report.before)} (--again sends them once more)")
    if report.stays:
        lines.append(f"stay: {len(report.stays)}{_counts(x.reason for x in report.stays)}")
    return "\n".join(lines)


def report_json(report: Report) -> str:
    """Every offset and what became of it."""
    went = {str(offset): channel for offset, channel in report.went.items()}
    return _json({"went": went, "before": report.before, "stays": [asdict(x) for x in report.stays]})


def _counts(names: Iterable[str]) -> str:
    counted = ", ".join(f"{name} {count}" for name, count in sorted(Counter(names).items()))
    return f" ({counted})" if counted else ""


def _short(detail: str, chars: int = DETAIL_CHARS) -> str:
    return detail if len(detail) <= chars else detail[: chars - 3] + "..."


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
