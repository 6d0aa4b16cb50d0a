"""The sheets that sessions show: one store for pages and routes of a server."""

from __future__ import annotations

from typing import Final

import pandas as pd
import streamlit as st

from dashboard.sheets import Sheet, Sheets

SHOWN: Final = "sheets"


@st.cache_resource(show_spinner=False)
def fleet() -> Sheets:
    """The fleet as maps fetch it."""
    return Sheets()


@st.cache_resource(show_spinner=False)
def traffic() -> Sheets:
    """Traffic as maps fetch it."""
    return Sheets()


def sheet(sheets: Sheets, frame: pd.DataFrame, place: str) -> Sheet:
    """The sheet of an answer; this session keeps it for as long as it shows it in this place."""
    kept: dict[str, Sheet] = st.session_state.setdefault(SHOWN, {})
    kept[place] = sheets.of(frame)
    return kept[place]
