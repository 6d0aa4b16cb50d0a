"""Operations, what a day of records tells: clocks and the watermark, the ledger, rejects, storage."""

from __future__ import annotations

from typing import Literal
from zoneinfo import ZoneInfo

import pandas as pd
import streamlit as st

from dashboard import live, operations_queries, operations_tables, tables, text

HIGH_PX = 250
"""Height of a table that may have many rows."""


def body() -> None:
    """All of it."""
    watermark()
    ledger()
    reasons()
    storage()


def watermark() -> None:
    """Who pushes it, who comes late, and what delay would have saved 99.9 %."""
    told = live.row(live.ask_rarely(operations_queries.watermark_defence))
    vehicles = live.ask_rarely(operations_queries.off_time_vehicles)
    ahead = live.ask_slowly(operations_queries.clocks_ahead)
    if told is None or vehicles is None or ahead is None:
        return
    st.subheader("Watermark defence, last 24 hours", anchor=False)
    st.caption(operations_tables.defence(told, live.settings().jobs.lateness_s), width="stretch")
    left, right = st.columns([3, 2])
    with left:
        st.markdown("**Late and quarantined, by vehicle**")
        if vehicles.empty:
            st.caption("No frame was late or quarantined.")
        else:
            shown = operations_tables.off_time(vehicles, live.tz(), pd.Timestamp.now(tz="UTC"))
            st.dataframe(shown, hide_index=True, key="off_time", height=height(len(shown)))
    with right:
        st.markdown("**Who pushes the watermark**")
        st.caption(operations_tables.pushed(told))
        if ahead.empty:
            st.caption("No vehicle's newest data is ahead of the moment it was stored.")
        else:
            number = st.column_config.NumberColumn(format="%.1f")
            shown = operations_tables.ahead(ahead)
            st.dataframe(shown, hide_index=True, key="ahead", column_config={"Ahead, s": number})


def height(rows: int) -> int | Literal["auto"]:
    """Of a table with so many rows: px."""
    return HIGH_PX if rows > 6 else "auto"


def ledger() -> None:
    """Whether every frame is accounted for, by hour of its first sample; what is missing below."""
    hours, missing = (
        live.ask_slowly(operations_queries.audit_hours),
        live.ask_slowly(operations_queries.audit_findings),
    )
    if hours is None or missing is None:
        return
    st.subheader("Conservation ledger, last 24 hours", anchor=False)
    if hours.empty:
        live.nothing("No hour within a day: nothing was driven, or the first audit has not been made yet.")
        return
    now = pd.Timestamp.now(tz="UTC")
    st.dataframe(tables.audit(hours, live.tz(), now), hide_index=True, key="audit", height=height(len(hours)))
    if not missing.empty:
        st.caption("Missing, or counted otherwise than archived (odograph audit tells all of it)")
        shown = tables.audit_findings(missing, live.tz(), now)
        st.dataframe(shown, hide_index=True, key="audit_findings", height=height(len(shown)))


def reasons() -> None:
    """Rejected frames by reason, and the latency of alerts."""
    rejected = live.ask_rarely(operations_queries.rejected)
    latency = live.ask_slowly(operations_queries.alert_latency)
    left, right = st.columns(2)
    with left:
        st.subheader("Quarantined and dead letters, last 24 hours", anchor=False)
        listed(rejected, "Nothing was rejected.", live.tz())
    with right:
        st.subheader("Alert latency, last hour", anchor=False)
        if latency is not None and latency.empty:
            st.caption("No finding within the last hour.")
        elif latency is not None:
            number = st.column_config.NumberColumn(format="localized")
            table = tables.latency(latency)
            st.dataframe(
                table,
                hide_index=True,
                placeholder=text.NONE,
                column_config=dict.fromkeys(table.columns[1:], number),
            )


def listed(rejected: pd.DataFrame | None, none: str, zone: ZoneInfo) -> None:
    """The table of what was rejected."""
    if rejected is None:
        return
    if rejected.empty:
        st.caption(none)
        return
    st.dataframe(
        tables.rejected(rejected, zone, pd.Timestamp.now(tz="UTC")), hide_index=True, placeholder=text.NONE
    )


def storage() -> None:
    """What lies on the disk and in the tables, how fast it grows, how long it is kept."""
    folders, sizes = (
        live.ask_rarely(operations_queries.storage),
        live.ask_rarely(operations_queries.table_sizes),
    )
    if folders is None or sizes is None:
        return
    number = st.column_config.NumberColumn(format="%.1f")
    left, right = st.columns([2, 3])
    with left:
        st.subheader("On the disk", anchor=False)
        if folders.empty:
            st.caption("Not known: nothing has measured it yet (`odograph watch`).")
        else:
            st.caption(operations_tables.room(folders))
            st.dataframe(
                operations_tables.folders(folders),
                hide_index=True,
                placeholder=text.NONE,
                key="folders",
                column_config={"MiB": number, "MiB a day": number},
            )
    with right:
        st.subheader("Biggest tables", anchor=False)
        st.dataframe(
            operations_tables.sizes(sizes),
            hide_index=True,
            key="tables",
            height=HIGH_PX,
            column_config={"MiB": number, "Rows, about": st.column_config.NumberColumn(format="localized")},
        )
