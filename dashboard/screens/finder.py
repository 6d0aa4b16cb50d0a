"""The way to any vehicle: a search by id or model, and tables of vehicles whose rows can be clicked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pandas as pd
import streamlit as st

from dashboard import fleet_queries, live, tables, text

Pick = Callable[[str], None]

TAKEN: Final = "cells_taken"
ROWS: Final = 5
ROW_PX: Final = 36


def search(pick: Pick) -> None:
    """Vehicles by a part of their id or model; a click on one picks it."""
    words = st.text_input(
        "Find a vehicle", key="find", placeholder="Part of its id or model", bind="query-params"
    ).strip()
    if not words:
        return
    found = live.ask(fleet_queries.find_vehicles, words)
    if found is None:
        return
    if found.empty:
        st.caption("No vehicle has this in its id or model.")
        return
    clickable(tables.found_vehicles(found), "found", ROWS, "Vehicles found", pick)
    if len(found) == fleet_queries.FOUND_LIMIT:
        st.caption(f"The first {len(found)}: say more of it.")


def clickable(table: pd.DataFrame, key: str, rows: int, alt: str, pick: Pick) -> None:
    """A table with a column Vehicle; a click on a cell picks the vehicle of its row, once."""
    event = st.dataframe(
        tables.tinted(table),
        height="content" if len(table) <= rows else ROW_PX * (rows + 1),
        hide_index=True,
        placeholder=text.NONE,
        key=key,
        on_select="rerun",
        selection_mode="single-cell",
        alt=alt,
    )
    cells = event["selection"]["cells"]
    taken: dict[str, tuple[object, ...]] = st.session_state.setdefault(TAKEN, {})
    now = tuple(cells[0]) if cells else ()
    if now == taken.get(key, ()):
        return
    taken[key] = now
    if now:
        pick(str(table["Vehicle"].iloc[cells[0][0]]))
        st.rerun()
