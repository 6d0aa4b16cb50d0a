"""A dead letter as Kafka has it, its judgement by the contract in force, and its text. Pure."""

import hashlib
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final

import orjson

from bridge.uplink.translate import Record, Rejection, Translator
from infra.clients.tables import aligned, plain
from infra.contract import topics
from infra.contract.errors import ContractError
from infra.contract.messages import PART_SET, decode_crash, join_crash
from infra.contract.verdict import CLOCK_AHEAD, ClockLimits, verdict

CUT: Final = re.compile(r"the first (\d+) of (\d+) bytes are kept")
"""How a letter's detail says that only a part of the message was kept; see bridge.uplink.translate."""
NAMED: Final = 50  # letters that stay are named one by one up to this many; JSON names all
DUMP_WIDTH: Final = 16

Marked = set[tuple[int, str]]  # offset and digest of letters that were sent in and are stored
Row = dict[str, Any]


class Letter:
    """One record of the topic dead-letter; ``at_ms`` is when the message was received.

    ``vehicle_id`` is None where the topic named none. ``first_received_ms``: when the message came over MQTT
    the first time. ``digest``: SHA-256 of the raw bytes, hex, as in the table odograph.dead_letter. ``cut``:
    bytes kept and bytes sent, where only a part was kept. ``messages``: for how many it stands: itself, or
    those that were counted and not kept.
    """

    def __init__(
        self, offset: int, at_ms: int, key: bytes | None, value: bytes, headers: Mapping[str, bytes]
    ) -> None:
        self.offset, self.at_ms, self.key, self.value, self.headers = offset, at_ms, key, value, headers
        self.reason = self._text(topics.HEADER_REASON) or "unknown"
        self.detail = self._text(topics.HEADER_DETAIL)
        self.vehicle_id = None if self.key is None else self.key.decode(errors="replace")
        self.digest = hashlib.sha256(self.value).hexdigest()
        received_ms = self._number(topics.HEADER_RECEIVED_MS, self.at_ms)
        self.first_received_ms = self._number(topics.HEADER_FIRST_RECEIVED_MS, received_ms)
        cut = CUT.search(self.detail)
        self.cut = (int(cut[1]), int(cut[2])) if cut else None
        self.messages = self._number(topics.HEADER_MESSAGES, 1)

    def _text(self, header: str) -> str:
        return self.headers.get(header, b"").decode(errors="backslashreplace")

    def _number(self, header: str, otherwise: int) -> int:
        text = self.headers.get(header, b"")
        return int(text) if text.isdigit() and len(text) < 16 else otherwise

    def matches(self, reason: str | None, vehicle_id: str | None) -> bool:
        return reason in (None, self.reason) and vehicle_id in (None, self.vehicle_id)

    def row(self, marked: Marked) -> Row:
        topic = self._text(topics.HEADER_MQTT_TOPIC) if topics.HEADER_MQTT_TOPIC in self.headers else None
        return {
            "offset": self.offset, "received": utc(self.at_ms), "reason": self.reason,
            "vehicle_id": self.vehicle_id, "mqtt_topic": topic, "bytes": len(self.value),
            "detail": self.detail, "reinjected": (self.offset, self.digest) in marked,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Passed:
    """A letter that may go in: the record to store, the message in it and the channel it came by."""

    letter: Letter
    record: Record
    message: dict[str, Any]
    channel: str


@dataclass(frozen=True, slots=True)
class Stays:
    """A letter that stays dead, and why."""

    offset: int
    reason: str
    detail: str


Verdict = Passed | Stays


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

    def judge(self, letter: Letter, now_ms: int) -> Verdict:
        """The letter as a record received at ``now_ms``, or why it stays."""

        def stays(reason: str, detail: str) -> Stays:
            return Stays(letter.offset, reason, detail)

        topic = letter.headers.get(topics.HEADER_MQTT_TOPIC)
        if topic is None:
            return stays("not_from_mqtt", "a service wrote it, no vehicle sent it")
        if letter.cut is not None:
            return stays("cut", "only the first {} of its {} bytes were kept".format(*letter.cut))
        if letter.headers.get(topics.HEADER_AUTHENTICATED_AS, letter.key) != letter.key:
            return stays("identity_mismatch", "the broker did not name the vehicle as its sender")
        found = self._translator.translate(topic, letter.value, now_ms)
        if not isinstance(found, Record):
            why = found or Rejection("unknown_topic", "", None)
            return stays(why.reason, why.detail)
        message = orjson.loads(letter.value)
        channel = topics.parse_mqtt_topic(self._root, topic.decode())[1]
        if channel == "telemetry":
            span_ms = message["dt_ms"] * (message["n"] - 1)
            if verdict(message["t0_ms"], span_ms, letter.first_received_ms, self._limits) == CLOCK_AHEAD:
                return stays(CLOCK_AHEAD, "when it came its clock was ahead; by now it would look right")
        headers = [
            *found.headers,
            (topics.HEADER_FIRST_RECEIVED_MS, b"%d" % letter.first_received_ms),
            (topics.HEADER_REINJECTED_FROM, b"%d" % letter.offset),
        ]
        return Passed(letter, found._replace(headers=headers), message, channel)


def judge_parts(parts: Sequence[Passed]) -> Iterator[Verdict]:
    """Parts of crash records that may go in, set by set: a complete one must give a record."""

    def set_of(passed: Passed) -> tuple[str, ...]:
        return tuple(str(passed.message[key]) for key in PART_SET)

    for _, group in groupby(sorted(parts, key=set_of), key=set_of):
        found = list(group)
        first, data = found[0].message, {part.message["part"]: part.message["data"] for part in found}
        try:
            if len(data) == first["parts"]:
                decode_crash(join_crash([data[n] for n in range(first["parts"])], first["sha256"]))
        except ContractError as why:
            yield from (Stays(part.letter.offset, why.reason, why.detail) for part in found)
        else:
            yield from found


def judge_statuses(statuses: Sequence[Passed], newest_ms: Mapping[str, int]) -> Iterator[Verdict]:
    """Status messages that may go in: none older than ``newest_ms`` by vehicle."""
    last = dict(newest_ms)
    for status in statuses:
        vehicle_id, at_ms = status.message["vehicle_id"], status.message["at_ms"]
        if at_ms < last.get(vehicle_id, 0):
            yield Stays(status.letter.offset, "overtaken", "a newer status of the vehicle is in force")
        else:
            last[vehicle_id] = at_ms
            yield status


def tally(letters: Iterable[Letter], limit: int) -> tuple[deque[Letter], Counter[str]]:
    """The last ``limit`` of the letters, and the number of messages of all by reason."""
    newest, by_reason = deque[Letter](maxlen=limit), Counter[str]()
    for letter in letters:
        newest.append(letter)
        by_reason[letter.reason] += letter.messages
    return newest, by_reason


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
    heads = {"offset": ">", "received": "", "reason": "", "vehicle": "", "bytes": "d", "": "", "detail": ""}
    rows = [
        (str(row["offset"]), row["received"], row["reason"], row["vehicle_id"], row["bytes"],
         "again" if row["reinjected"] else "", _short(row["detail"], 60))
        for row in found
    ]  # fmt: skip
    total = sum(by_reason.values())
    summary = f"{total:,} dead letters" + (f", the newest {len(found)} shown" if len(found) < total else "")
    counts = aligned([(count, reason) for reason, count in sorted(by_reason.items())], indent="  ")
    return "\n".join([*([aligned(rows, heads)] if rows else []), summary, *([counts] if counts else [])])


def letter_text(letter: Letter, limit: int) -> str:
    """Its offset, its headers, its bytes; of more bytes than ``limit`` the first."""
    lines = [
        f"offset {letter.offset}, received {utc(letter.at_ms)}, vehicle {letter.vehicle_id or '-'}",
        *(plain(f"{k}: {v.decode(errors='backslashreplace')}") for k, v in letter.headers.items()),
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


def as_json(value: Any) -> str:
    """A report, or rows with their counts; keys are texts, as JSON wants them."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS
    return orjson.dumps(value, option=options).decode()


def _counts(names: Iterable[str]) -> str:
    counted = ", ".join(f"{name} {count}" for name, count in sorted(Counter(names).items()))
    return f" ({counted})" if counted else ""


def _short(detail: str, chars: int) -> str:
    return detail if len(detail) <= chars else detail[: chars - 3] + "..."
