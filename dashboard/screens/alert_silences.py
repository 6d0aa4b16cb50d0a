"""The silences: which are in force, each with a button that ends it, and those that are over."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd
import streamlit as st

from dashboard import alert_queries, alert_tables, live, signin, text
from dashboard.roles import Reader
from dashboard.screens import alert_actions

BUTTONS_MOST: Final = 12
ENDING: Final = "ending_silence"


def silences() -> None:
    """What nobody is told of, and until when."""
    row = st.session_state.pop(ENDING, None)
    alert_actions.said()
    live.part(listed)
    if row is not None:  # opened by the page: a live part's next drawing would take it away again
        end(row, signin.reader(live.known_roles()))


def listed() -> None:
    """Those in force line by line, then all as a table."""
    if ENDING in st.session_state:
        st.rerun()
    found = live.ask(alert_queries.silences)
    if found is None:
        return
    st.caption(
        "Silenced alerts are stored and shown all the same; webhooks and drivers are not told. A silence is "
        "made where an alert is open, or by: odograph alerts silence"
    )
    if found.empty:
        live.nothing("Nothing was ever silenced.")
        return
    in_force(found[found["in_force"]])
    table = alert_tables.silences(found, live.tz(), pd.Timestamp.now(tz="UTC"))
    st.dataframe(table, hide_index=True, placeholder=text.NONE, key="silences")


def in_force(found: pd.DataFrame) -> None:
    """A line and a button for each; the button where this reader may."""
    who = signin.reader(live.known_roles())
    may = who.may("alerts")
    if found.empty:
        st.caption("None is in force.")
        return
    moment = pd.Timestamp.now(tz="UTC")
    for row in found.head(BUTTONS_MOST).to_dict("records"):
        number = int(row["silence_no"])
        with st.container(
            horizontal=True, vertical_alignment="center", border=True, key=f"silence_row_{number}"
        ):
            st.text(alert_tables.silence_words(row, live.tz(), moment), width="stretch")
            if may:
                st.button(
                    "End now",
                    key=f"end_silence_{number}",
                    icon=":material/notifications:",
                    on_click=wish,
                    args=(row,),
                )
    if len(found) > BUTTONS_MOST:
        st.caption(f"{len(found) - BUTTONS_MOST} more are in force; end them by: odograph alerts unsilence")
    if not may:
        st.caption(signin.why_not(who, "alerts"))


def wish(row: dict[Any, Any]) -> None:
    """Its button was pressed."""
    st.session_state[ENDING] = row


@st.dialog("End a silence")
def end(row: dict[Any, Any], who: Reader) -> None:
    """Alerts are told again from now on; those stored under it are not told afterwards."""
    number = int(row["silence_no"])
    with st.form(f"end_silence_form_{number}", border=False):
        st.text(alert_tables.silence_words(row, live.tz(), pd.Timestamp.now(tz="UTC")))
        st.caption("Alerts are told again from now on. Those found meanwhile stay untold.")
        name = signin.name_field(who, f"end_silence_name_{number}")
        if st.form_submit_button("End this silence"):
            alert_actions.perform(
                who, name, lambda store: alert_actions.unquieten(store, number, name), "The silence is over."
            )
