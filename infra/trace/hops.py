"""The hops of one frame: the list of them for people and machines, and what the frame itself says."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import orjson

from infra.contract.verdict import UNREADABLE, clock_limits, verdict
from infra.settings.settings import Settings

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
    return "\n".join([*lines, *(f"  note: {note}" for note in trace.notes)])


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
    except (ValueError, TypeError, KeyError):
        return UNREADABLE


def on_board(payload: bytes) -> list[Hop]:
    """First sample, last sample, sending: by the vehicle's own clock."""
    try:
        message = orjson.loads(payload)
        t0_ms, sent_ms, end_ms = int(message["t0_ms"]), int(message["sent_ms"]), span_ms(message)
    except (ValueError, TypeError, KeyError):
        return []
    samples = f"{message['n']} samples, {message['dt_ms']} ms apart"
    return [
        Hop("first sample", "done", "the vehicle's clock", t0_ms),
        Hop("last sample", "done", samples, t0_ms + end_ms),
        Hop("sent", "done", "the vehicle's clock", sent_ms),
    ]
