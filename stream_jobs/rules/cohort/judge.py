"""Closed buckets in, residuals and findings out: a fold, so neither a restart nor a split changes a thing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from infra.settings.job_sections import Cohort as Terms
from stream_jobs.rules.cohort.lasting import State, forgotten, step
from stream_jobs.rules.cohort.metrics import Metric
from stream_jobs.rules.cohort.residuals import Bucket, Residual, residuals

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
Key = tuple[str, str]
"""Metric and vehicle."""
States = Mapping[Key, State]


@dataclass(frozen=True, slots=True)
class News:
    """A finding, or with ``residual`` None an end; ``event_ms`` is the end of the bucket that it is of."""

    metric: Metric
    vehicle_id: str
    event_ms: int
    since_ms: int
    side: int
    residual: Residual | None


@dataclass(frozen=True, slots=True)
class Judged:
    """What some buckets gave; ``kept`` are residuals worth storing, with the state after them."""

    states: States
    kept: list[tuple[Residual, State | None]] = field(default_factory=list)
    news: list[News] = field(default_factory=list)


def judge(
    buckets: Sequence[Bucket], from_ms: int, states: States, metrics: Sequence[Metric], terms: Terms
) -> Judged:
    """Judge the buckets that begin at ``from_ms`` or later, in order of time; those before are their past."""
    known = {metric.metric: metric for metric in metrics}
    judged = Judged(states={key: state for key, state in states.items() if key[0] in known})
    for bucket in buckets:
        if bucket.at_ms >= from_ms:
            since_ms = bucket.at_ms + terms.bucket_min * MINUTE_MS - HOUR_MS
            hour = [b for b in buckets if since_ms <= b.at_ms <= bucket.at_ms]
            judged = _one(judged, bucket, hour, known, terms)
    return judged


def _one(
    before: Judged, bucket: Bucket, hour: Sequence[Bucket], metrics: Mapping[str, Metric], terms: Terms
) -> Judged:
    length_ms = terms.bucket_min * MINUTE_MS
    after = Judged(dict(before.states), before.kept, before.news)
    states: dict[Key, State] = {}
    for key, state in sorted(before.states.items()):
        if not forgotten(state, bucket.at_ms, terms.gap_min * MINUTE_MS):
            states[key] = state
        elif state.raised:
            after.news.append(_end(metrics[key[0]], key[1], state, state.last_ms + length_ms))
    for residual in residuals(bucket, hour, [*metrics.values()], terms):
        key = residual.metric.metric, residual.vehicle_id
        old = states.pop(key, None)
        new = step(residual.metric, old, residual.z, bucket.at_ms)
        if new is not None:
            states[key] = new
        after.news.extend(_news(residual, old, new, bucket.at_ms + length_ms))
        if new is not None or abs(residual.z) >= terms.keep_z:
            after.kept.append((residual, new))
    return Judged(states, after.kept, after.news)


def _news(residual: Residual, old: State | None, new: State | None, event_ms: int) -> list[News]:
    if new is not None and new.raised and residual.metric.beyond(residual.z) == new.side:
        return [News(residual.metric, residual.vehicle_id, event_ms, new.since_ms, new.side, residual)]
    if new is None and old is not None and old.raised:
        return [_end(residual.metric, residual.vehicle_id, old, event_ms)]
    return []


def _end(metric: Metric, vehicle_id: str, state: State, event_ms: int) -> News:
    return News(metric, vehicle_id, event_ms, state.since_ms, state.side, None)
