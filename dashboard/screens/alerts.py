"""Alerts: what is active and not yet seen comes first; one is opened below, and shared by its address."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd
import streamlit as st

from dashboard import alert_queries, alert_tables, live, tables, text, triage
from dashboard.palette import SEVERITIES
from dashboard.screens import alert_detail, alert_rules, alert_silences

STATUS: Final = {"active": True, "cleared": False, "all": None}
VIEWS: Final = ("Alerts", "Rules", "Silences")
FULL_PX: Final = 720
BESIDE_PX: Final = 300  # of the list while an alert is open below it; a bare text here would be drawn
FEW: Final = 18
MESSAGE_PX: Final = 330  # the columns after it are seen too in a wide window
LISTED: Final = "alert_list"
PICKED: Final = "alert_picked"
TURN: Final = "alert_turn"


def view() -> str:
    """Which of the page's parts is shown, kept in the address."""
    chosen = st.segmented_control(
        "Show",
        VIEWS,
        default=VIEWS[0],
        required=True,
        key="view",
        bind="query-params",
        label_visibility="collapsed",
    )
    return str(chosen)


def filters() -> None:
    """Status, severity, vehicle and rule, kept in the address."""
    known = live.ask(alert_queries.rules)
    rules = [] if known is None else list(known["rule"])
    asked = st.query_params.get("rule")
    if asked and asked not in rules:
        rules.insert(0, asked)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium", key="toolbar"):
        st.segmented_control(
            "Status", list(STATUS), default="active", required=True, key="status_filter", bind="query-params"
        )
        st.pills("Severity", list(SEVERITIES), selection_mode="multi", key="severity", bind="query-params")
        st.selectbox("Rule", rules, index=None, placeholder="all", key="rule", bind="query-params", width=220)
        st.text_input("Vehicle", key="vehicle", bind="query-params", placeholder="all", width=200)


def listing() -> None:
    """The alerts; a row chosen by mouse or arrow keys is opened below."""
    if st.session_state.pop(PICKED, False):
        st.rerun()
    asked = wanted()
    found = live.ask(alert_queries.alerts, *asked)
    if found is None:
        return
    chosen = alert_detail.chosen()
    kept = st.session_state.get(LISTED, (None, ()))
    before = kept[1] if kept[0] == asked else ()
    shown = triage.held(before, [int(n) for n in found["alert_no"]], still=chosen is not None)
    st.session_state[LISTED] = (asked, shown.numbers)
    if not shown.numbers:
        st.success("No alert matches.", icon=":material/check_circle:")
        return
    rows = with_rows(found, shown.numbers)
    heading(len(found), shown.newcomers)
    draw(rows, chosen)


def wanted() -> tuple[Any, ...]:
    """The filters as the query takes them."""
    state = st.session_state
    return (
        (state.get("vehicle") or "").strip() or None,
        state.get("severity") or None,
        STATUS[state.get("status_filter") or "active"],
        state.get("rule") or None,
    )


def with_rows(found: pd.DataFrame, numbers: tuple[int, ...]) -> pd.DataFrame:
    """The rows of these alerts, those too that the filters no longer match."""
    gone = sorted(set(numbers) - {int(n) for n in found["alert_no"]})
    others = live.ask(alert_queries.alerts_numbered, gone) if gone else None
    both = found if others is None or others.empty else pd.concat([found, others], ignore_index=True)
    return triage.in_order(both, numbers)


def heading(matching: int, newcomers: int) -> None:
    """How many there are, and that the list stands still while an alert is open."""
    more = f"; the first {matching} are shown" if matching == alert_queries.ALERT_LIMIT else ""
    with st.container(horizontal=True, vertical_alignment="center", key="list_head"):
        st.caption(f"{matching} alerts{more}. Click a row, or move with the arrow keys, to open it below.")
        if newcomers:
            st.button(
                f"{newcomers} new: show",
                key="renew",
                on_click=renew,
                icon=":material/refresh:",
                type="tertiary",
            )


def renew() -> None:
    """Take the newcomers in; the open alert's neighbours are others then, so the whole page is drawn anew."""
    st.session_state[PICKED] = True
    st.session_state.pop(LISTED, None)
    st.session_state[TURN] = st.session_state.get(TURN, 0) + 1


def draw(rows: pd.DataFrame, chosen: int | None) -> None:
    """The table. A new turn is a new table: the old one's mark would stand on another alert."""
    table = alert_tables.triage(rows, live.tz(), pd.Timestamp.now(tz="UTC"), chosen)
    key = f"alerts_{st.session_state.get(TURN, 0)}"
    one = st.column_config.NumberColumn(format="%.1f")
    st.dataframe(
        tables.tinted(table),
        hide_index=True,
        placeholder=text.NONE,
        height=BESIDE_PX
        if chosen is not None and len(table) > 7
        else "content"
        if len(table) < FEW
        else FULL_PX,
        key=key,
        on_select=lambda: pick(key),
        selection_mode="single-cell",
        alt="Alerts",
        column_config={
            "Value": one,
            "Limit": one,
            "Message": st.column_config.TextColumn(width=MESSAGE_PX),
            "No": st.column_config.TextColumn(width="small"),
        },
    )


def pick(key: str) -> None:
    """A cell was chosen: its alert goes into the address."""
    cells = st.session_state[key]["selection"]["cells"]
    numbers = st.session_state[LISTED][1]
    if cells and cells[0][0] < len(numbers):
        alert_detail.choose(numbers[cells[0][0]])
        st.session_state[PICKED] = True


live.header("Alerts")
part = view()
if part == "Rules":
    alert_rules.rules()
elif part == "Silences":
    alert_silences.silences()
else:
    filters()
    live.part(listing)
    alert_detail.detail(st.session_state.get(LISTED, (None, ()))[1])
