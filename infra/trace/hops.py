"""The stations of one frame, as a list for people and for machines. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

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


def as_json(trace: Trace) -> dict[str, Any]:
    """For machines."""
    return asdict(trace) | {"found": trace.found}


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
