"""Crash records: the vault. The list, one record opened below, and its bundle as evidence."""

from __future__ import annotations

from typing import Final

import pandas as pd
import streamlit as st

from dashboard import crash_queries, crash_tables, live, maps, text
from dashboard.crash_queries import Key
from dashboard.screens import crash_record

VERDICTS: Final = ("confirmed", "suspect", "unverified", "pothole")
LISTED: Final = "crash_list"
PICKED: Final = "crash_picked"
RECORD: Final = "record"  # in the address: VEHICLE/BOOT/CRASH_ID, as `odograph crash` names a record
BESIDE_PX: Final = 240


def chosen() -> Key | None:
    """The record of the address."""
    parts = st.query_params.get(RECORD, "").split("/", 2)
    if len(parts) != 3 or not parts[1].isdecimal() or len(parts[1]) > 18:
        return None
    return parts[0], int(parts[1]), parts[2]


def filters() -> None:
    """Verdict and vehicle, kept in the address."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium", key="toolbar"):
        st.pills("Verdict", VERDICTS, key="verdict", bind="query-params")
        st.text_input("Vehicle", key="vehicle", bind="query-params", placeholder="all", width=200)


def listing() -> None:
    """The records, the newest first; a row chosen is opened below."""
    if st.session_state.pop(PICKED, False):
        st.rerun()
    vehicle = (st.session_state.get("vehicle") or "").strip() or None
    found = live.ask(crash_queries.crash_list, vehicle, st.session_state.get("verdict"))
    if found is None:
        return
    if found.empty:
        live.nothing("No crash record matches.")
        return
    keys = list(zip(found["vehicle_id"], found["boot_id"], found["crash_id"], strict=True))
    table_key = f"crashes_{hash(tuple(keys))}"  # another list is another table: no mark on the wrong row
    st.session_state[LISTED] = keys
    more = f"; the first {len(found)} are shown" if len(found) == crash_queries.RECORD_LIMIT else ""
    many = "1 record" if len(found) == 1 else f"{len(found)} records"
    st.caption(f"{many}{more}. Click a row, or move with the arrow keys, to open it below.")
    table = crash_tables.records(found, live.tz(), pd.Timestamp.now(tz="UTC"))
    st.dataframe(
        table.style.map(crash_tables.tint, subset=["Verdict"]),
        hide_index=True,
        placeholder=text.NONE,
        height="content" if len(table) < 7 else BESIDE_PX if chosen() else 600,
        key=table_key,
        on_select=lambda: pick(table_key),
        selection_mode="single-cell",
        alt="Crash records",
        column_config={"Delta-V, km/h": st.column_config.NumberColumn(format="%.0f")},
    )


def pick(table_key: str) -> None:
    """A cell was chosen: its record goes into the address."""
    cells = st.session_state[table_key]["selection"]["cells"]
    keys: list[Key] = st.session_state[LISTED]
    if cells and cells[0][0] < len(keys):
        vehicle_id, boot_id, crash_id = keys[cells[0][0]]
        st.query_params[RECORD] = f"{vehicle_id}/{boot_id}/{crash_id}"
        st.session_state[PICKED] = True


def opened() -> None:
    """The record of the address, below the list."""
    key = chosen()
    if key is None:
        if st.query_params.get(RECORD):
            st.warning("This address names no record.", icon=":material/link_off:")
        return
    found = live.ask(crash_queries.crash, key)
    if found is None:
        live.until_answered(crash_queries.crash, key)
    elif found.empty:
        st.warning("There is no such crash record.", icon=":material/link_off:")
    else:
        st.divider()
        crash_record.record(key, maps.rows_of(found)[0])


live.header("Crashes")
filters()
live.part(listing)
opened()
