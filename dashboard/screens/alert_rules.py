"""The rules with their counts over time."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import pandas as pd
import streamlit as st

from dashboard import alert_charts, alert_queries, alert_tables, live, tables, text

SPANS_D: Final = {"7 days": 7, "30 days": 30, "90 days": 90}


def rules() -> None:
    """Every rule: what it is, and how often it found something."""
    chosen = st.segmented_control(
        "Time span", list(SPANS_D), default="30 days", required=True, key="rule_span", bind="query-params"
    )
    live.part(counted, live.SLOW_S, SPANS_D[str(chosen)])


def counted(days: int) -> None:
    """Counts by day of the reader's zone, today included."""
    zone = live.tz()
    today = datetime.now(zone).date()
    listed = [today - timedelta(days=k) for k in reversed(range(days))]
    start = datetime(listed[0].year, listed[0].month, listed[0].day, tzinfo=zone)
    after = today + timedelta(days=1)
    end = datetime(after.year, after.month, after.day, tzinfo=zone)
    known = live.ask(alert_queries.rules)
    found = live.ask_slowly(alert_queries.rule_days, start, end, live.settings().tz)
    if known is None or found is None:
        return
    if known.empty and found.empty:
        live.nothing("No rule is noted yet: the jobs have not run on this database.")
        return
    if found.empty:
        live.nothing(f"No alert has opened within {days} days.")
    else:
        st.altair_chart(alert_charts.by_day(found, listed), key="alerts_by_day")
    table = alert_tables.rules(known, found, listed, zone, pd.Timestamp.now(tz="UTC"))
    st.caption(f"{len(table)} rules, those with the most alerts first.")
    st.dataframe(
        tables.tinted(table),
        hide_index=True,
        placeholder=text.NONE,
        key="rules",
        height="content" if len(table) < 25 else 800,
        column_config={
            "Per day": st.column_config.BarChartColumn(f"Per day, {days} days", width="medium", y_min=0),
            "Message": st.column_config.TextColumn(width="large"),
            "Limit": st.column_config.TextColumn(width="small"),
        },
    )
