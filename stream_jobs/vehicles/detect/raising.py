"""When a rule that lasts is raised, found again and over: the same for every kind that has a limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stream_jobs.rule_kinds import Lasting
from stream_jobs.rules import Rule
from stream_jobs.vehicles.beat import Found, Memory

AGAIN: float = 0.5
"""A raised rule is found again after this share of its clear time."""


class Judged(NamedTuple):
    """What one frame, or one mean, says of a rule at ``at_ms``; None: nothing."""

    at_ms: int
    holds: bool | None
    clears: bool | None
    value: float | None
    limit: float | None
    names: tuple[str, ...] = ()
    ready: bool = True
    """False: it may hold already, but is not raised yet."""


class Held(NamedTuple):
    """A memory: began to hold, last judged, last seen bad, last found (None: not raised), escalation."""

    since_ms: int
    seen_ms: int
    bad_ms: int
    found_ms: int | None
    step: int


@dataclass(frozen=True, slots=True)
class Raising:
    """How long a rule must hold, how long it must be gone, and its further limits."""

    severity: str
    above: bool
    raise_for_ms: int
    clear_for_ms: int
    gap_ms: int
    escalate: tuple[tuple[float, str], ...]

    @classmethod
    def of(cls, rule: Rule, lasting: Lasting, raise_for_s: float) -> Raising:
        """Those of a rule of the file."""
        return cls(
            severity=rule.severity,
            above=rule.beyond != "below",
            raise_for_ms=round(raise_for_s * 1000),
            clear_for_ms=round((rule.clear_for_s or 0) * 1000),
            gap_ms=round(lasting.gap_s * 1000),
            escalate=lasting.escalate,
        )

    def step(self, memory: Memory | None, now: Judged) -> tuple[Memory | None, Sequence[Found]]:
        """The memory after one more judgement, and what was found."""
        held = None if memory is None else Held(*memory)  # type: ignore[arg-type]
        if now.holds is None and now.clears is not True:
            return memory, ()
        if held is not None and now.at_ms <= held.seen_ms:
            return memory, ()
        if held is not None and self._is_over(held, now):
            held = None
        if held is None:
            return self._begin(now) if now.holds else (None, ())
        return self._go_on(held, now)

    def waits(self, memory: Memory | None) -> bool:
        """Whether it holds already and is not raised yet."""
        return memory is not None and memory[3] is None

    def later(self, memory: Memory, ms: int) -> Memory:
        """The memory of a rule that waits, after a pause of ``ms`` that does not count."""
        held = Held(*memory)  # type: ignore[arg-type]
        before_ms = held.seen_ms + ms - 1  # the frame that ends the pause comes after it
        return held._replace(since_ms=held.since_ms + ms, seen_ms=before_ms, bad_ms=before_ms)

    def _is_over(self, held: Held, now: Judged) -> bool:
        if held.found_ms is None:
            return not now.holds or now.at_ms - held.seen_ms > self.gap_ms
        return now.at_ms - held.bad_ms > self.clear_for_ms

    def _begin(self, now: Judged) -> tuple[Memory | None, Sequence[Found]]:
        return self._go_on(Held(now.at_ms, now.at_ms - 1, now.at_ms, None, 0), now)

    def _go_on(self, held: Held, now: Judged) -> tuple[Memory | None, Sequence[Found]]:
        if held.found_ms is None:
            held = held._replace(seen_ms=now.at_ms, bad_ms=now.at_ms)
            due = now.ready and now.at_ms - held.since_ms >= self.raise_for_ms
            return self._find(held, now) if due else (held, ())
        bad = bool(now.holds) or not now.clears
        if not bad:
            return self._quiet(held, now)
        held = held._replace(seen_ms=now.at_ms, bad_ms=now.at_ms)
        news = self._step_of(now) > held.step
        again = now.at_ms - (held.found_ms or 0) >= AGAIN * self.clear_for_ms
        return self._find(held, now) if news or again else (held, ())

    def _quiet(self, held: Held, now: Judged) -> tuple[Memory | None, Sequence[Found]]:
        """It is behind its clear level: the last moment that it was not is found once, to end there."""
        last = held.bad_ms
        found_ms = held.found_ms or 0
        after = held._replace(seen_ms=now.at_ms, found_ms=max(found_ms, last))
        if last <= found_ms:
            return after, ()
        return after, (self._found(held, last, None, now),)

    def _find(self, held: Held, now: Judged) -> tuple[Memory | None, Sequence[Found]]:
        held = held._replace(found_ms=now.at_ms, step=max(held.step, self._step_of(now)))
        return held, (self._found(held, now.at_ms, now.value, now),)

    def _found(self, held: Held, at_ms: int, value: float | None, now: Judged) -> Found:
        limit, severity = now.limit, None
        if held.step:
            limit, severity = self.escalate[held.step - 1]
        return Found(at_ms, held.since_ms, value, limit, severity, ", ".join(now.names) or None)

    def _step_of(self, now: Judged) -> int:
        """How many of the further limits the value is beyond."""
        value = now.value
        if value is None or not self.escalate:
            return 0
        if self.above:
            return sum(value > limit for limit, _ in self.escalate)
        return sum(value < limit for limit, _ in self.escalate)


def beyond(value: float, limit: float | None, above: bool) -> bool:
    """Whether a value is on the wrong side of a limit."""
    return limit is not None and (value > limit if above else value < limit)
