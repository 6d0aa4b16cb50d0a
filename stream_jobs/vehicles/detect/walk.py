"""One vehicle's beats past all detectors, as the stream does it, in one go; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from stream_jobs.rules import Rule
from stream_jobs.vehicles.alert_rows import alert_row
from stream_jobs.vehicles.beat import Beat, Detector, Found, Memory
from stream_jobs.vehicles.detect.build import detectors
from stream_jobs.vehicles.rows import AlertRow


class Rules(NamedTuple):
    """Rules of the query `vehicles` and their detectors, in the same order."""

    rules: tuple[Rule, ...]
    detectors: tuple[Detector, ...]

    @classmethod
    def of(cls, rules: Sequence[Rule]) -> Rules:
        """With their detectors."""
        return cls(tuple(rules), detectors(rules))


def walk(beats: Iterable[Beat], rules: Rules, until_ms: int | None = None) -> Iterator[AlertRow]:
    """Alert records of beats that come a vehicle after the other, in the vehicle's order.

    ``until_ms``: the receive clock runs on to there after a vehicle's last beat; None: not at all.
    """
    for _, own in groupby(beats, key=lambda beat: beat.vehicle_id):
        yield from _vehicle(list(own), rules, until_ms)


def _vehicle(beats: Sequence[Beat], rules: Rules, until_ms: int | None) -> Iterator[AlertRow]:
    for place, (rule, detector) in enumerate(zip(*rules, strict=True)):
        order = sorted(beats, key=lambda beat: beat.received_ms) if detector.unordered else beats
        yield from _rule(order, place, rule, detector, until_ms)


def _rule(
    beats: Sequence[Beat], place: int, rule: Rule, detector: Detector, until_ms: int | None
) -> Iterator[AlertRow]:
    memory: Memory | None = None
    before: Beat | None = None
    for beat in beats:
        if before is not None:
            memory, found = _timer(detector, memory, beat.received_ms)
            yield from (alert_row(rule, each, before, at_ms) for each, at_ms in found)
        before = beat
        reading = beat.readings[place]
        if memory is None and not detector.always and not reading.holds:
            continue
        memory, news = detector.step(memory, beat, reading)
        yield from (alert_row(rule, each, beat) for each in news)
    if before is not None and until_ms is not None:
        memory, found = _timer(detector, memory, until_ms)
        yield from (alert_row(rule, each, before, at_ms) for each, at_ms in found)


def _timer(
    detector: Detector, memory: Memory | None, now_ms: int
) -> tuple[Memory | None, Sequence[tuple[Found, int]]]:
    """What the timers find that are due before ``now_ms`` (receive clock), each with when it was due."""
    found: list[tuple[Found, int]] = []
    while memory is not None and (due_ms := detector.due_ms(memory)) is not None and due_ms < now_ms:
        memory, more = detector.expire(memory, due_ms)
        found += [(each, due_ms) for each in more]
    return memory, found
