"""The service itself: each part, the streaming queries and what waits for them, clocks, ledger, storage."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard import charts, fleet_queries, live, operations_queries, operations_tables, stages, tables, text
from dashboard.screens import operations_records

WHOLE = st.column_config.NumberColumn(format="localized", step=1)
ONE = st.column_config.NumberColumn(format="%.1f")
WHOLES = ("Batch, ms", "Frames in", "Waiting in Kafka", "State rows", "Duplicates dropped", "Dropped late")


def parts() -> None:
    """Whether all work, and each part: rate, errors, lag, saturation."""
    found, rates = live.ask(operations_queries.stages), live.ask(operations_queries.stage_rates)
    if found is None or rates is None:
        return
    if found.empty:
        st.badge("unknown", icon=stages.ICONS[stages.UNKNOWN], color="gray")
        live.nothing("Nothing was measured within a day: `odograph watch` does not run.")
        return
    judged = stages.judged(found, live.settings().dashboard.strained_share)
    state, words = stages.verdict(judged)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="verdict"):
        st.badge(words, icon=stages.ICONS[state], color=stages.BADGES[state])
        st.caption(f"measured {text.duration(judged['age_s'].min())} ago")
    troubles = stages.troubles(judged)
    if troubles:
        st.text("\n".join(troubles))  # a reason may quote what somebody sent
    shown = stages.table(judged, rates)
    st.dataframe(
        shown.style.map(stages.tint, subset=["State"]),
        hide_index=True,
        placeholder=text.NONE,
        key="parts",
        column_config={
            "Last 15 minutes": st.column_config.AreaChartColumn(width="small", y_min=0, help="its rate"),
            "Errors": st.column_config.NumberColumn(format="%d", help="since the last look"),
            "Waiting": st.column_config.NumberColumn(format="localized", help="messages or records, for it"),
            "Full": st.column_config.ProgressColumn(format="%.1f %%", min_value=0, max_value=100),
            "Cores": st.column_config.NumberColumn(format="%.2f", help="CPU cores busy with it"),
            "Memory, MiB": st.column_config.NumberColumn(format="%.0f"),
            "Restarts": st.column_config.NumberColumn(format="%d"),
        },
    )


def counts() -> None:
    """What did not go into a window on the fast path."""
    fresh = live.row(live.ask(fleet_queries.freshness))
    if fresh is None:
        return
    tiles = {
        "Waiting in Kafka": text.number(fresh["lag_records"]),
        "Late, 24 h": text.number(fresh["late_frames"]),
        "Late, open": text.number(fresh["late_open"]),
        "Quarantined, 24 h": text.number(fresh["quarantined_frames"]),
        "Dead letters, 24 h": text.number(fresh["dead_letters"]),
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
    st.dataframe(
        table,
        hide_index=True,
        placeholder=text.NONE,
        key="queries",
        column_config=dict.fromkeys(WHOLES, WHOLE) | {"State, MiB": ONE, "Frames/s": ONE},
    )


def history() -> None:
    """Batch time and lag over the last 15 minutes."""
    found = live.ask(operations_queries.queries_history)
    if found is None:
        return
    if found.empty:
        st.caption("No batch within 15 minutes, so no line of batch times and of records waiting.")
        return
    shown = text.local(found, live.tz(), "bucket")
    left, right = st.columns(2)
    with left:
        st.subheader("Longest batch, last 15 minutes", anchor=False)
        live.chart(charts.by_query(shown, "bucket", "batch_ms", "ms"), "batch_ms")
    with right:
        st.subheader("Records waiting in Kafka, last 15 minutes", anchor=False)
        live.chart(charts.by_query(shown, "bucket", "lag_records", "records"), "lag")


def partitions() -> None:
    """What waits for each reader, by partition."""
    found = live.ask(operations_queries.partition_lag)
    if found is None:
        return
    st.subheader("Records waiting, by partition", anchor=False)
    if found.empty:
        st.caption("Not known: nothing has measured it yet (`odograph watch`).")
        return
    shown = stages.places(found, live.tz(), pd.Timestamp.now(tz="UTC"))
    numbers = [name for name in shown.columns if name.startswith(("Partition", "Waiting"))]
    st.dataframe(
        shown.style.map(stages.tint, subset=["State"]),
        hide_index=True,
        placeholder=text.NONE,
        key="partitions",
        column_config=dict.fromkeys(numbers, WHOLE) | {"Appended, /s": ONE},
    )


def tasks() -> None:
    """Periodic tasks: last run, duration, state, error."""
    found = live.ask(operations_queries.tasks)
    if found is None:
        return
    st.subheader("Periodic tasks", anchor=False)
    if found.empty:
        st.caption("None has been reported yet: `odograph maintenance` does not run.")
        return
    shown = operations_tables.tasks(found, live.tz(), pd.Timestamp.now(tz="UTC"))
    st.dataframe(
        shown.style.map(stages.tint, subset=["State"]),
        hide_index=True,
        placeholder=text.NONE,
        key="tasks",
        height=operations_records.height(len(shown)),
        column_config={
            "Duration, s": st.column_config.NumberColumn(format="%.2f"),
            "Failures": st.column_config.NumberColumn(format="%d", help="since its process started"),
        },
    )


def now() -> None:
    """The parts and what waits, at each refresh."""
    parts()
    counts()
    queries()
    partitions()
    tasks()


def past() -> None:
    """What reads minutes or a day."""
    history()
    operations_records.body()


live.header("Operations")
live.part(now)
live.part(past, live.SLOW_S)
