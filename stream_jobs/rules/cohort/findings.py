"""News of a cohort as records of the topic ``alerts``; pure."""

from __future__ import annotations

from typing import Final

from stream_jobs.rules.cohort.judge import News
from stream_jobs.vehicles.alert_rows import finding_id
from stream_jobs.vehicles.rows import AlertRow

NO_FRAME: Final = 0
"""Boot and number of the frame: a bucket is of many."""


def alert_row(news: News, now_ms: int) -> AlertRow:
    """The record; what it is known by does not depend on ``now_ms``, when it was found.

    That stands for the receipt: found long after its bucket, it is marked late and told to nobody.
    """
    metric, residual = news.metric, news.residual
    limit = None if residual is None else residual.limit(news.side)
    return AlertRow(
        alert_id=finding_id(
            news.vehicle_id, metric.rule, metric.version, news.event_ms, ended=residual is None
        ),
        vehicle_id=news.vehicle_id,
        rule=metric.rule,
        rule_version=metric.version,
        severity=metric.severity,
        event_ms=news.event_ms,
        value=None if residual is None else residual.value,
        limit=limit,
        message=f"{metric.message}: {evidence(news)}",
        boot_id=NO_FRAME,
        seq=NO_FRAME,
        received_ms=now_ms,
        lat_deg=None,
        lon_deg=None,
        since_ms=news.since_ms,
        ended=residual is None,
    )


def evidence(news: News) -> str:
    """What it was compared with, in a few words."""
    residual = news.residual
    if residual is None:
        return "over, or not to be compared any more"
    unit, cohort = news.metric.unit, residual.cohort
    weather = "" if cohort.ambient_c is None else f", from {cohort.ambient_c} degC"
    hour = " in the last hour" if residual.over == "hour" else ""
    return (
        f"{residual.value:.1f} {unit} against {residual.median:.1f} {unit}, the median of "
        f"{residual.others} others{hour} ({cohort.model}, load band {cohort.load_band}{weather}), "
        f"z {residual.z:.1f}"
    )
