"""The service itself: each part, the streaming queries and what waits for them, clocks, ledger, storage."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd
import streamlit as st
from pandas.io.formats.style import Styler

from dashboard.query_cache import SLOW_S, ask, ask_rarely, ask_slowly, settings
from dashboard.screens.operations import queries, tables
from dashboard.shared import charts, live, text
from dashboard.shared.queries import freshness
from dashboard.shared.text import tinted

HIGH_PX: Final = 250  # height of a table that may have many rows
ONE, WHOLE = "%.1f", "localized"
WHOLES: Final = (
    "Batch, ms",
    "Frames in",
    "Waiting in Kafka",
    "State rows",
    "Duplicates dropped",
    "Dropped late",
)
PARTS: Final[dict[str, Any]] = {
    "Last 15 minutes": st.column_config.AreaChartColumn(width="small", y_min=0, help="its rate"),
    "Errors": st.column_config.NumberColumn(format="%d", help="since the last look"),
    "Waiting": st.column_config.NumberColumn(format="localized", help="messages or records, for it"),
    "Full": st.column_config.ProgressColumn(format="%.1f %%", min_value=0, max_value=100),
    "Cores": st.column_config.NumberColumn(format="%.2f", help="CPU cores busy with it"),
    "Memory, MiB": st.column_config.NumberColumn(format="%.0f"),
    "Restarts": st.column_config.NumberColumn(format="%d"),
}
FAILURES: Final = st.column_config.NumberColumn(format="%d", help="since its process started")


def _height(rows: int) -> live.Height:
    return HIGH_PX if rows > 6 else "auto"


def _tinted(table: pd.DataFrame) -> Styler:
    return tinted(table, "State", tables.COLOURS)


def _parts() -> None:
    """Whether all work, and each part: rate, errors, lag, saturation."""
    found, rates = ask(queries.stages), ask(queries.stage_rates)
    if found is None or rates is None:
        return
    if found.empty:
        st.badge("unknown", icon=tables.ICONS[tables.UNKNOWN], color="gray")
        live.nothing("Nothing was measured within a day: `odograph watch` does not run.")
        return
    judged = tables.judged(found, settings().dashboard.strained_share)
    state, words = tables.verdict(judged)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="verdict"):
        st.badge(words, icon=tables.ICONS[state], color=tables.BADGES[state])
        st.caption(f"measured {text.duration(judged['age_s'].min())} ago")
    troubles = tables.troubles(judged)
    if troubles:
        st.text("\n".join(troubles))  # a reason may quote what somebody sent
    live.table(_tinted(tables.table(judged, rates)), "parts", columns=PARTS)


def _counts() -> None:
    """What did not go into a window on the fast path."""
    fresh = live.row(ask(freshness))
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
    live.figures("figures", tiles)


def _queries() -> None:
    """The last batch of each query."""
    st.subheader("Streaming queries, last batch", anchor=False)
    found = ask(queries.queries_now)
    if found is None:
        return
    if found.empty:
        live.nothing("No batch within a day: the jobs do not run or have had no data yet.")
        return
    formats = {WHOLE: WHOLES, ONE: ("State, MiB", "Frames/s")}
    live.table(live.made(tables.QUERIES, found), "queries", formats=formats)


def _history() -> None:
    """Batch time and lag over the last 15 minutes."""
    found = ask(queries.queries_history)
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


def _watermark() -> None:
    """Who pushes it, who comes late, and what delay would have saved 99.9 %."""
    found = live.row(ask_rarely(queries.watermark_defence))
    vehicles = ask_rarely(queries.off_time_vehicles)
    ahead = ask_slowly(queries.clocks_ahead)
    if found is None or vehicles is None or ahead is None:
        return
    st.subheader("Watermark defence, last 24 hours", anchor=False)
    st.caption(tables.defence(found, settings().jobs.lateness_s), width="stretch")
    left, right = st.columns([3, 2])
    with left:
        st.markdown("**Late and quarantined, by vehicle**")
        if vehicles.empty:
            st.caption("No frame was late or quarantined.")
        else:
            shown = tables.off_time(vehicles, live.tz(), live.now())
            live.table(shown, "off_time", height=_height(len(shown)))
    with right:
        st.markdown("**Who pushes the watermark**")
        st.caption(tables.pushed(found))
        if ahead.empty:
            st.caption("No vehicle's newest data is ahead of the moment it was stored.")
        else:
            live.table(live.made(tables.AHEAD, ahead), "ahead", formats={ONE: ("Ahead, s",)})


def _ledger() -> None:
    """Whether every frame is accounted for, by hour of its first sample; what is missing below."""
    hours, missing = ask_slowly(queries.audit_hours), ask_slowly(queries.audit_findings)
    if hours is None or missing is None:
        return
    st.subheader("Conservation ledger, last 24 hours", anchor=False)
    if hours.empty:
        live.nothing("No hour within a day: nothing was driven, or the first audit has not been made yet.")
        return
    live.table(live.made(tables.AUDIT, hours), "audit", height=_height(len(hours)))
    if not missing.empty:
        st.caption("Missing, or counted otherwise than archived (odograph audit lists all of it)")
        shown = live.made(tables.AUDIT_FINDINGS, missing)
        live.table(shown, "audit_findings", height=_height(len(shown)))


def _storage() -> None:
    """What lies on the disk and in the tables, how fast it grows, how long it is kept."""
    folders, sizes = ask_rarely(queries.storage), ask_rarely(queries.table_sizes)
    if folders is None or sizes is None:
        return
    left, right = st.columns([2, 3])
    with left:
        st.subheader("On the disk", anchor=False)
        if folders.empty:
            st.caption("Not known: nothing has measured it yet (`odograph watch`).")
        else:
            st.caption(tables.room(folders))
            live.table(tables.folders(folders), "folders", formats={ONE: ("MiB", "MiB a day")})
    with right:
        st.subheader("Biggest tables", anchor=False)
        formats = {ONE: ("MiB",), WHOLE: ("Rows, about",)}
        live.table(live.made(tables.SIZES, sizes), "tables", formats=formats, height=HIGH_PX)


def _now() -> None:
    """The parts and what waits, at each refresh."""
    _parts()
    _counts()
    _queries()
    waiting, tasks = ask(queries.partition_lag), ask(queries.tasks)
    known = [] if waiting is None else list(waiting["partition"].unique())
    live.listed(
        "Records waiting, by partition",
        waiting,
        "Not known: nothing has measured it yet (`odograph watch`).",
        tables.places,
        "partitions",
        _tinted,
        formats={WHOLE: ("Waiting", *(f"Partition {number}" for number in known)), ONE: ("Appended, /s",)},
    )
    live.listed(
        "Periodic tasks",
        tasks,
        "None has been reported yet: `odograph maintenance` does not run.",
        tables.tasks,
        "tasks",
        _tinted,
        formats={"%.2f": ("Duration, s",)},
        columns={"Failures": FAILURES},
        height=_height(0 if tasks is None else len(tasks)),
    )


def _past() -> None:
    """What reads minutes or a day."""
    _history()
    _watermark()
    _ledger()
    left, right = st.columns(2)
    with left:
        title = "Quarantined and dead letters, last 24 hours"
        rejected = ask_rarely(queries.rejected)
        live.listed(title, rejected, "Nothing was rejected.", tables.REJECTED, "rejected")
    with right:
        found = ask_slowly(queries.alert_latency)
        nothing = "No finding within the last hour."
        formats = {WHOLE: list(tables.LATENCY)[1:]}
        live.listed("Alert latency, last hour", found, nothing, tables.LATENCY, "latency", formats=formats)
    _storage()


live.header("Operations")
live.part(_now)
live.part(_past, SLOW_S)
