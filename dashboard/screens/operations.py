"""The service itself: streaming queries, what was late or rejected, how quick alerts are."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from dashboard import charts, fleet_queries, live, operations_queries, tables, text


def counts() -> None:
    """What did not go into a window on the fast path."""
    fresh = live.row(live.ask(fleet_queries.freshness))
    if fresh is None:
        return
    tiles = {
        "Waiting in Kafka": text.number(fresh["lag_records"]),
        "Late frames": text.number(fresh["late_frames"]),
        "Late, open": text.number(fresh["late_open"]),
        "Quarantined": text.number(fresh["quarantined_frames"]),
        "Dead letters": text.number(fresh["dead_letters"]),
        "Dropped late": text.number(fresh["dropped_late"]),
    }
    with st.container(key="figures"):
        for label, value in tiles.items():
            st.metric(label, value, border=True)


def queries() -> None:
    """The last batch of each query."""
    st.subheader("Streaming queries, last batch", anchor=False)
    found = live.ask(operations_queries.queries_now)
    if found is None:
        return
    if found.empty:
        live.nothing("No batch within a day: the jobs do not run or have had no data yet.")
        return
    table = tables.queries(found, live.tz(), pd.Timestamp.now(tz="UTC"))
    one = st.column_config.NumberColumn(format="%.1f")
    st.dataframe(
        table,
        hide_index=True,
        placeholder=text.NONE,
        key="queries",
        column_config={"State, MiB": one, "Frames/s": one},
    )


def history() -> None:
    """Batch time and lag over the last 15 minutes."""
    found = live.ask(operations_queries.queries_history)
    if found is None or found.empty:
        return
    shown = text.local(found, live.tz(), "bucket")
    left, right = st.columns(2)
    with left:
        st.subheader("Longest batch, last 15 minutes", anchor=False)
        st.altair_chart(charts.by_query(shown, "bucket", "batch_ms", "ms"), key="batch_ms")
    with right:
        st.subheader("Records waiting in Kafka, last 15 minutes", anchor=False)
        st.altair_chart(charts.by_query(shown, "bucket", "lag_records", "records"), key="lag")


def reasons() -> None:
    """Rejected frames by reason, and the latency of alerts."""
    rejected, latency = live.ask(operations_queries.rejected), live.ask(operations_queries.alert_latency)
    left, right = st.columns(2)
    with left:
        st.subheader("Quarantined and dead letters, by reason", anchor=False)
        listed(rejected, "Nothing was rejected.", live.tz())
    with right:
        st.subheader("Alert latency, last hour", anchor=False)
        if latency is not None and latency.empty:
            st.caption("No finding within the last hour.")
        elif latency is not None:
            number = st.column_config.NumberColumn(format="%.0f")
            table = tables.latency(latency)
            st.dataframe(
                table,
                hide_index=True,
                placeholder=text.NONE,
                column_config=dict.fromkeys(table.columns[2:], number),
            )


def listed(rejected: pd.DataFrame | None, none: str, zone: Any) -> None:
    """The table of what was rejected."""
    if rejected is None:
        return
    if rejected.empty:
        st.caption(none)
        return
    st.dataframe(
        tables.rejected(rejected, zone, pd.Timestamp.now(tz="UTC")), hide_index=True, placeholder=text.NONE
    )


def ledger() -> None:
    """Whether every frame is accounted for, by hour of its first sample; what is missing below."""
    st.subheader("Conservation ledger, last 24 hours", anchor=False)
    hours, missing = live.ask(operations_queries.audit_hours), live.ask(operations_queries.audit_findings)
    if hours is None or missing is None:
        return
    if hours.empty:
        live.nothing("No hour within a day: nothing was driven, or the first audit has not been made yet.")
        return
    now = pd.Timestamp.now(tz="UTC")
    st.dataframe(tables.audit(hours, live.tz(), now), hide_index=True, key="audit")
    if not missing.empty:
        st.caption("Missing, or counted otherwise than archived (odograph audit tells all of it)")
        shown = tables.audit_findings(missing, live.tz(), now)
        st.dataframe(shown, hide_index=True, key="audit_findings")


def body() -> None:
    """All live parts."""
    counts()
    ledger()
    queries()
    history()
    reasons()


live.header("Operations")
live.part(body)
