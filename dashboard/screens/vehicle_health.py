"""Parts of the vehicle's page about its health: signals against limits, trends, their history."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import pandas as pd
import streamlit as st

from dashboard import (
    charts,
    gauge_bars,
    gauges,
    health_charts,
    health_tables,
    live,
    text,
    vehicle_health_queries,
)
from dashboard.screens import vehicle_past
from dashboard.spans import Span

ABREAST: Final = 3
DRAWN: Final = 3
"""Trends that get a chart, the nearest to their threshold first."""


def signals(now: dict[str, Any]) -> None:
    """The last minute's signals against the limits of the rules in force."""
    rules = live.ask_rarely(vehicle_health_queries.rules)
    found = live.row(live.ask(vehicle_health_queries.signals, now["vehicle_id"], now["event_time"]))
    if rules is None or found is None:
        return
    readings = gauges.readings(found, rules, now["vehicle_class"])
    if not readings:
        return
    st.subheader("Against its limits", anchor=False)
    st.html(gauge_bars.picture(readings))
    until = text.clock(found["until"], live.tz())
    told = (
        f"The minute of data up to {until} against the alert rules in force. Limits by model (tyre pressure) "
        "have no bar; what is beyond them stands under Alerts."
    )
    st.caption(told if not rules.empty else "No rules are known yet: the jobs have not been started.")


def trends(vehicle_id: str) -> None:
    """Where slow quantities are heading, with the days to their thresholds."""
    found = live.ask_rarely(vehicle_health_queries.trends, vehicle_id)
    st.subheader("Where it is heading", anchor=False)
    if found is None:
        return
    if found.empty:
        st.caption("No trend yet: a line needs hours of at least six hours' span.")
        return
    st.dataframe(
        health_tables.tinted(health_tables.trends(found, live.tz())),
        hide_index=True,
        placeholder=text.NONE,
        key="trends",
        column_config=health_tables.TREND_CONFIG,
        alt="Trends with days to their thresholds",
    )
    near = found[found["days_to_threshold"].notna()].head(DRAWN)
    for column, trend in zip(st.columns(ABREAST), near.to_dict("records"), strict=False):
        with column:
            forecast(vehicle_id, {str(k): v for k, v in trend.items()})


def forecast(vehicle_id: str, trend: dict[str, Any]) -> None:
    """One trend: its hours, its line and the way ahead."""
    since = trend["as_of"] - timedelta(days=float(trend["span_days"]))
    hours = live.ask_rarely(
        vehicle_health_queries.trend_hours, vehicle_id, trend["metric"], since, trend["as_of"]
    )
    if hours is None:
        return
    name, local = health_tables.name(trend["metric"]), text.local(hours, live.tz(), "bucket")
    ends = text.local(pd.DataFrame({"t": [trend["as_of"]]}), live.tz(), "t")["t"]
    st.markdown(f"**{name}: {health_tables.days(trend['days_to_threshold'])}**")
    live.chart(health_charts.forecast(local, trend | {"as_of": ends[0]}), f"trend_{trend['metric']}")


def panels(history: pd.DataFrame, shown: Span) -> None:
    """Mechanical health over time: only what this vehicle has."""
    st.subheader("Health", anchor=False)
    found = charts.present(history)
    if not found:
        st.caption("No health signal within this span.")
        return
    local, frame = vehicle_past.timed(history, shown), vehicle_past.window(shown)
    for first in range(0, len(found), ABREAST):
        for column, spec in zip(st.columns(ABREAST), found[first : first + ABREAST], strict=False):
            with column:
                st.markdown(f"**{spec.title}**")
                live.chart(charts.panel(local, spec, "bucket", frame), f"panel_{spec.title}")
