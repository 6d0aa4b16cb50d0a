"""The service itself: each part, the streaming queries and what waits for them, clocks, ledger, storage."""

from typing import Any, Final

import streamlit as st

from dashboard.query_cache import SLOW_S, ask, ask_rarely, ask_slowly, scope, settings
from dashboard.screens.operations import queries, tables
from dashboard.screens.operations.tables import BY_STATE, LOOKS, UNKNOWN
from dashboard.shared import charts, live, text
from dashboard.shared.queries import freshness

MOST: Final = 6  # rows that are seen at once of a table that may have many
NOT_MEASURED: Final = "Not known: nothing has measured it yet (`odograph watch`)."
PARTS: Final[dict[str, Any]] = {
    "State": st.column_config.TextColumn(width=95),  # for the longest, whatever is shown first
    "Last 15 minutes": st.column_config.AreaChartColumn(width="small", y_min=0, help="its rate"),
    "Errors": st.column_config.NumberColumn(format="%d", help="since the measurement before"),
    "Waiting": st.column_config.NumberColumn(format="localized", help="messages or records, for it"),
    "Full": st.column_config.ProgressColumn(format="%.1f %%", min_value=0, max_value=100),
    "Cores": st.column_config.NumberColumn(format="%.2f", help="CPU cores busy with it"),
    "Memory, MiB": "%.0f",
    "Restarts": "%d",
}
FAILURES: Final = st.column_config.NumberColumn(format="%d", help="since its process started")


def _parts() -> None:
    found, rates = live.rows(ask(queries.stages)), live.rows(ask(queries.stage_rates))
    if found.empty:
        st.badge("unknown", icon=LOOKS[UNKNOWN].icon, color="gray")
        live.nothing("Nothing was measured within a day: `odograph watch` does not run: `odograph up`.")
        return
    judged = tables.judged(found, settings().dashboard.strained_share)
    state, words = tables.verdict(judged)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="verdict"):
        st.badge(words, icon=LOOKS[state].icon, color=LOOKS[state].badge)
        st.caption(f"measured {text.duration(judged['age_s'].min())} ago")
    troubles = tables.troubles(judged)
    if troubles:
        st.text("\n".join(troubles))  # a reason may quote what somebody sent
    live.table(tables.parts(judged, rates), tables.PARTS, "parts", tint=BY_STATE, looks=PARTS)


def _now() -> None:
    """The parts and what waits, at each refresh."""
    with live.section():
        _parts()
    fresh = live.row(ask(freshness))
    if fresh is not None:  # what did not go into a window on the fast path
        tiles = {
            "Waiting in Kafka": text.number(fresh["lag_records"]),
            "Late, 24 h": text.number(fresh["late_frames"]),
            "Late, not repaired": text.number(fresh["late_open"]),
            "Quarantined, 24 h": text.number(fresh["quarantined_frames"]),
            "Dead letters, 24 h": text.number(fresh["dead_letters"]),
            "Dropped late, last batch": text.number(fresh["dropped_late"]),
        }
        live.figures("figures", tiles)
    put_off = ask(queries.overload)
    if put_off is not None and not put_off.empty:
        with live.section("Overload"):
            if lasting := tables.overload_now(put_off):
                st.warning(lasting)
            live.table(put_off, tables.OVERLOAD, "overload")
    with live.section("Streaming queries, last batch"):
        none = f"No batch within a day: the jobs do not run (`odograph up`), or had no data. {text.DRIVE}"
        live.table(live.rows(ask(queries.queries_now), none), tables.QUERIES, "queries")
    waiting, tasks = ask(queries.partition_lag), ask(queries.tasks)
    title, columns = "Records waiting, by partition", None
    if waiting is not None and not waiting.empty:
        waiting, columns = tables.places(waiting, settings().watch)
    live.listed(title, waiting, NOT_MEASURED, columns, "partitions", tint=BY_STATE)
    title, keys = "Vehicles that send most", ask_slowly(queries.top_keys)
    live.listed(title, keys, NOT_MEASURED, tables.TOP_KEYS, "keys")
    none = "None has been reported yet: `odograph maintenance` does not run; `odograph up` starts it."
    look: Any = {"looks": {"Failures": FAILURES}, "tint": BY_STATE, "most": MOST}
    live.listed("Periodic tasks", tasks, none, tables.TASKS, "tasks", **look)


def _history() -> None:
    none = f"No batch within 15 minutes, so no line of batch times and of records waiting. {text.DRIVE}"
    shown = text.local(live.rows(ask(queries.queries_history), none, st.caption), live.tz(), "bucket")
    left, right = st.columns(2)
    with left:
        st.subheader("Longest batch, last 15 minutes", anchor=False)
        live.chart(charts.by_query(shown, "bucket", "batch_ms", "ms"), "batch_ms")
    with right:
        st.subheader("Records waiting in Kafka, last 15 minutes", anchor=False)
        live.chart(charts.by_query(shown, "bucket", "lag_records", "records"), "lag")


def _watermark() -> None:
    found = live.first(ask_rarely(queries.watermark_defence))
    vehicles = live.rows(ask_rarely(queries.off_time_vehicles))
    ahead = live.rows(ask_slowly(queries.clocks_ahead))
    st.subheader("Watermark defence, last 24 hours", anchor=False)
    if scope() is None:  # the frames are those of everybody
        st.caption(tables.defence(found, settings().jobs.lateness_s), width="stretch")
    left, right = st.columns([3, 2])
    with left, live.section():
        st.markdown("**Late and quarantined, by vehicle**")
        live.rows(vehicles, "No frame was late or quarantined.", st.caption)
        live.table(vehicles, tables.OFF_TIME, "off_time", most=MOST)
    with right, live.section():
        st.markdown("**Who pushes the watermark**")
        st.caption(tables.pushed(found))
        live.rows(ahead, "No vehicle's newest data is ahead of the moment it was stored.", st.caption)
        live.table(ahead, tables.AHEAD, "ahead")


def _ledger() -> None:
    hours, missing = live.rows(ask_slowly(queries.audit_hours)), live.rows(ask_slowly(queries.audit_findings))
    st.subheader("Conservation ledger, last 24 hours", anchor=False)
    live.rows(hours, "No hour within a day: nothing was driven, or no audit was made yet: `odograph audit`.")
    live.table(hours, tables.AUDIT, "audit", most=MOST)
    if not missing.empty:
        st.caption("Missing, or counted otherwise than archived (odograph audit lists all of it)")
        live.table(missing, tables.AUDIT_FINDINGS, "audit_findings", most=MOST)


def _past() -> None:
    """What reads minutes or a day."""
    for draw in (_history, _watermark, _ledger):
        with live.section():
            draw()
    left, right = st.columns(2)
    with left:
        title, found = "Quarantined and dead letters, last 24 hours", ask_rarely(queries.rejected)
        live.listed(title, found, "Nothing was rejected.", tables.REJECTED, "rejected")
    with right:
        none = f"No finding within the last hour. {text.RAISE}"
        found = ask_slowly(queries.alert_latency)
        live.listed("Alert latency, last hour", found, none, tables.LATENCY, "latency")
    folders, sizes = live.rows(ask_rarely(queries.storage)), live.rows(ask_rarely(queries.table_sizes))
    left, right = st.columns([2, 3])
    with left, live.section("On the disk"):
        live.rows(folders, NOT_MEASURED, st.caption)
        st.caption(tables.room(folders))
        live.table(folders, tables.FOLDERS, "folders", looks={"MiB a day": text.ONE})
    with right:
        st.subheader("Biggest tables", anchor=False)
        live.table(sizes, tables.SIZES, "tables", most=MOST)


live.header("Operations")
live.part(_now)
live.part(_past, SLOW_S)
