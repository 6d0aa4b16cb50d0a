"""Judges dead letters again, by the contract in force: what may go in now, and what stays, and why. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

import orjson

from bridge.dead_letters.letter import Letter
from bridge.translate import Record, Rejection, Translator
from infra.contract import topics
from infra.contract.errors import ContractError
from infra.contract.messages import decode_crash, is_part, join_crash
from infra.contract.verdict import CLOCK_AHEAD, ClockLimits, verdict

PART_SET: Final = ("vehicle_id", "boot_id", "crash_id", "sha256", "parts")

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Passed:
    """A letter that may go in: the record to store, the message in it and the channel it came by."""

    letter: Letter
    record: Record
    message: Message
    channel: str

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
        topic = letter.mqtt_topic
        if topic is None:
            return Stays(letter.offset, "not_from_mqtt", "a service wrote it, no vehicle sent it")
        if letter.cut is not None:
            kept, sent = letter.cut
            return Stays(letter.offset, "cut", f"only the first {kept} of its {sent} bytes were kept")
        if not self._vouched(letter):
            return Stays(
                letter.offset, "identity_mismatch", "the broker did not name the vehicle as its sender"
            )
        found = self._translator.translate(topic, letter.value, now_ms)
        if not isinstance(found, Record):
            why = found if isinstance(found, Rejection) else Rejection("unknown_topic", "", None)
            return Stays(letter.offset, why.reason, why.detail)
        message = orjson.loads(letter.value)
        channel = topics.parse_mqtt_topic(self._root, topic.decode())[1]
        if channel == "telemetry" and self._was_ahead(message, letter.first_received_ms):
            detail = "when it came its clock was ahead; by now it would look right"
            return Stays(letter.offset, CLOCK_AHEAD, detail)
        return Passed(letter, found._replace(headers=_headers(found, letter)), message, channel)

    def _vouched(self, letter: Letter) -> bool:
        """Whether the broker's word on the sender, where it was asked for, was the vehicle."""
        said = letter.headers.get(topics.HEADER_AUTHENTICATED_AS)
        return said is None or said == letter.key

    def _was_ahead(self, frame: Message, received_ms: int) -> bool:
        span_ms = frame["dt_ms"] * (frame["n"] - 1)
        return verdict(frame["t0_ms"], span_ms, received_ms, self._limits) == CLOCK_AHEAD


def _headers(record: Record, letter: Letter) -> list[tuple[str, bytes]]:
    """Those of a record that came over MQTT now, and where it comes from."""
    return [
        *record.headers,
        (topics.HEADER_FIRST_RECEIVED_MS, b"%d" % letter.first_received_ms),
        (topics.HEADER_REINJECTED_FROM, b"%d" % letter.offset),
    ]


def judge_parts(parts: Sequence[Passed]) -> Outcome:
    """Parts of crash records that may go in: a set that is all here must give a record.

    A set of which some are here goes in: the event store may hold the rest.
    """
    outcome = Outcome()
    for _, group in groupby(sorted(parts, key=_set_of), key=_set_of):
        found = list(group)
        by_number = {passed.message["part"]: passed.message["data"] for passed in found}
        why = _set_error(by_number, found[0].message)
        if why is None:
            outcome.passed += found
        else:
            outcome.stays += [Stays(x.letter.offset, why.reason, why.detail) for x in found]
    outcome.passed.sort(key=lambda passed: passed.letter.offset)
    return outcome


def _set_of(passed: Passed) -> tuple[str, ...]:
    return tuple(str(passed.message[key]) for key in PART_SET)


def _set_error(by_number: Mapping[int, str], part: Message) -> ContractError | None:
    if len(by_number) < part["parts"]:
        return None
    try:
        decode_crash(join_crash([by_number[n] for n in range(part["parts"])], part["sha256"]))
    except ContractError as error:
        return error
    return None


def judge_statuses(statuses: Sequence[Passed], newest_ms: Mapping[str, int]) -> Outcome:
    """Status messages that may go in: the topic keeps the last one of a vehicle, so an older one stays out.

    ``newest_ms``: device time of the status in force by vehicle.
    """
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


def is_crash_part(passed: Passed) -> bool:
    """Whether it is a part of a crash record."""
    return passed.channel == "crash" and is_part(passed.message)
