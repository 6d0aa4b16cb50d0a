"""When a residual becomes an alert and when that is over; pure. Times in ms since 1970, begins of buckets."""

from __future__ import annotations

from dataclasses import dataclass, replace

from stream_jobs.rules.cohort.metrics import Metric


@dataclass(frozen=True, slots=True)
class State:
    """What is remembered of a vehicle and a metric while it is beyond, or raised.

    ``streak``: buckets beyond on end, all on ``side`` (1 above, -1 below); ``calm``: buckets within the clear
    level on end. ``since_ms``: the first bucket of the streak, ``last_ms``: the last one with a residual.
    """

    side: int
    streak: int
    calm: int
    raised: bool
    since_ms: int
    last_ms: int


def step(metric: Metric, state: State | None, z: float, at_ms: int) -> State | None:
    """The state after a bucket with a residual; None: nothing is to be remembered."""
    if state is not None and state.raised:
        return _raised(metric, state, z, at_ms)
    side = metric.beyond(z)
    if not side:
        return None
    if state is None or state.side != side:
        state = State(side, 0, 0, raised=False, since_ms=at_ms, last_ms=at_ms)
    streak = state.streak + 1
    return replace(state, streak=streak, raised=streak >= metric.buckets, last_ms=at_ms)


def _raised(metric: Metric, state: State, z: float, at_ms: int) -> State | None:
    """Between clear level and limit it stays; calm for as long as it took to be raised, it is over."""
    if state.side * z >= metric.clear_z:
        streak = state.streak + (metric.beyond(z) == state.side)
        return replace(state, streak=streak, calm=0, last_ms=at_ms)
    if state.calm + 1 >= metric.buckets:
        return None
    return replace(state, calm=state.calm + 1, last_ms=at_ms)


def forgotten(state: State, at_ms: int, gap_ms: int) -> bool:
    """Whether nothing was heard for so long that what was remembered says nothing any more."""
    return at_ms - state.last_ms > gap_ms
