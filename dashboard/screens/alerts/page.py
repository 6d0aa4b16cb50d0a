"""Alerts: what is active and not yet seen comes first; one is opened below, and shared by its address."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

import pandas as pd
import streamlit as st

from dashboard import auth
from dashboard.auth import Reader
from dashboard.query_cache import SLOW_S, ask, ask_slowly, settings
from dashboard.screens.alerts import charts, detail, queries, tables
from dashboard.shared import live
from dashboard.shared.queries import ALERT_LIMIT, alerts
from dashboard.shared.text import tinted
from dashboard.shared.theme import SEVERITIES

STATUS: Final = {"active": True, "cleared": False, "all": None}
SPANS_D: Final = {"7 days": 7, "30 days": 30, "90 days": 90}
FULL_PX: Final = 720
BESIDE_PX: Final = 300  # of the list while an alert is open below it
FEW: Final = 18
MESSAGE_PX: Final = 330  # the columns after it are seen too in a wide window
END_BUTTONS_MOST: Final = 12
LISTED, PICKED, TURN, ENDING = "alert_list", "alert_picked", "alert_turn", "ending_silence"


def _filters() -> None:
    """Status, severity, vehicle and rule, kept in the address."""
    known = ask(queries.rules)
    rules = [] if known is None else list(known["rule"])
    asked = st.query_params.get("rule")
    if asked and asked not in rules:
        rules.insert(0, asked)
    with live.toolbar():
        live.choice("Status", STATUS, "status_filter")
        st.pills("Severity", list(SEVERITIES), selection_mode="multi", key="severity", bind="query-params")
        st.selectbox("Rule", rules, index=None, placeholder="all", key="rule", bind="query-params", width=220)
        st.text_input("Vehicle", key="vehicle", bind="query-params", placeholder="all", width=200)


def _listing() -> None:
    """The alerts; a row chosen by mouse or arrow keys is opened below."""
    if st.session_state.pop(PICKED, False):
        st.rerun()
    state = st.session_state
    asked: tuple[Any, ...] = (
        (state.get("vehicle") or "").strip() or None,
        state.get("severity") or None,
        STATUS[state.get("status_filter") or "active"],
        state.get("rule") or None,
    )
    found = ask(alerts, *asked)
    if found is None:
        return
    chosen = detail.chosen()
    kept = state.get(LISTED, (None, ()))
    before = kept[1] if kept[0] == asked else ()
    shown = tables.held(before, [int(n) for n in found["alert_no"]], still=chosen is not None)
    state[LISTED] = (asked, shown.numbers)
    if not shown.numbers:
        st.success("No alert matches.", icon=":material/check_circle:")
        return
    gone = sorted(set(shown.numbers) - {int(n) for n in found["alert_no"]})
    others = ask(alerts, numbers=gone) if gone else None
    both = found if others is None or others.empty else pd.concat([found, others], ignore_index=True)
    _heading(len(found), shown.newcomers)
    _draw(tables.in_order(both, shown.numbers), chosen)


def _heading(matching: int, newcomers: int) -> None:
    """How many there are, and that the list stands still while an alert is open."""
    more = f"; the first {matching} are shown" if matching == ALERT_LIMIT else ""
    with st.container(horizontal=True, vertical_alignment="center", key="list_head"):
        st.caption(f"{matching} alerts{more}. Click a row, or move with the arrow keys, to open it below.")
        if newcomers:
            label, icon = f"{newcomers} new: show", ":material/refresh:"
            st.button(label, key="renew", on_click=_renew, icon=icon, type="tertiary")


def _renew() -> None:
    """Take the newcomers in; the open alert's neighbours are others then, so the whole page is drawn anew."""
    st.session_state[PICKED] = True
    st.session_state.pop(LISTED, None)
    st.session_state[TURN] = st.session_state.get(TURN, 0) + 1


def _draw(rows: pd.DataFrame, chosen: int | None) -> None:
    """The table. A new turn is a new table: the old one's mark would stand on another alert."""
    table = tables.triage(rows, live.tz(), live.now(), chosen)
    key = f"alerts_{st.session_state.get(TURN, 0)}"
    beside = chosen is not None and len(table) > 7
    live.table(
        tinted(table),
        key,
        "Alerts",
        {"%.1f": ("Value", "Limit")},
        {
            "Message": st.column_config.TextColumn(width=MESSAGE_PX),
            "No": st.column_config.TextColumn(width="small"),
        },
        height=BESIDE_PX if beside else live.height(len(table), FEW - 1, FULL_PX),
        on_select=lambda: _pick(key),
    )


def _pick(key: str) -> None:
    """A cell was chosen: its alert goes into the address."""
    cell = live.clicked(st.session_state[key])
    numbers = st.session_state[LISTED][1]
    if cell is not None and cell[0] < len(numbers):
        detail.choose(numbers[cell[0]])
        st.session_state[PICKED] = True


def _rules(days: int) -> None:
    """Every rule: what it is, and how often it found something, by day of the reader's zone."""
    zone = live.tz()
    today = datetime.now(zone).date()
    listed = [today - timedelta(days=k) for k in reversed(range(days))]
    ends = (listed[0], today + timedelta(days=1))
    start, end = (datetime(day.year, day.month, day.day, tzinfo=zone) for day in ends)
    known = ask(queries.rules)
    found = ask_slowly(queries.rule_days, start, end, settings().tz)
    if known is None or found is None:
        return
    if known.empty and found.empty:
        live.nothing("No rule is noted yet: the jobs have not run on this database.")
        return
    if found.empty:
        live.nothing(f"No alert has opened within {days} days.")
    else:
        st.altair_chart(charts.by_day(found, listed), key="alerts_by_day")
    table = tables.rules(known, found, listed, zone, live.now())
    st.caption(f"{len(table)} rules, those with the most alerts first.")
    columns: dict[str, Any] = {
        "Per day": st.column_config.BarChartColumn(f"Per day, {days} days", width="medium", y_min=0),
        "Message": st.column_config.TextColumn(width="large"),
        "Limit": st.column_config.TextColumn(width="small"),
    }
    live.table(tinted(table), "rules", columns=columns, height=live.height(len(table), 24, 800))


def _silences() -> None:
    """The silences: those in force, each with a button that ends it, then all as a table."""
    if ENDING in st.session_state:
        st.rerun()
    found = ask(queries.silences)
    if found is None:
        return
    st.caption(
        "Silenced alerts are stored and shown all the same; webhooks and drivers are not notified. A silence "
        "is made where an alert is open, or by: odograph alerts silence"
    )
    if found.empty:
        live.nothing("Nothing was ever silenced.")
        return
    _in_force(found[found["in_force"]])
    live.table(tables.silences(found, live.tz(), live.now()), "silences")


def _in_force(found: pd.DataFrame) -> None:
    """A line and a button for each; the button where this reader may."""
    who = auth.reader()
    may = who.may("alerts")
    if found.empty:
        st.caption("None is in force.")
        return
    for row in found.head(END_BUTTONS_MOST).to_dict("records"):
        number = int(row["silence_no"])
        with st.container(
            horizontal=True, vertical_alignment="center", border=True, key=f"silence_row_{number}"
        ):
            st.text(tables.silence_words(row, live.tz(), live.now()), width="stretch")
            key, icon = f"end_silence_{number}", ":material/notifications:"
            if may:
                st.button("End now", key=key, icon=icon, on_click=_want_end, args=(row,))
    if len(found) > END_BUTTONS_MOST:
        st.caption(
            f"{len(found) - END_BUTTONS_MOST} more are in force; end them by: odograph alerts unsilence"
        )
    if not may:
        st.caption(auth.why_not(who, "alerts"))


def _want_end(row: dict[Any, Any]) -> None:
    st.session_state[ENDING] = row


@st.dialog("End a silence")
def _end(row: dict[Any, Any], who: Reader) -> None:
    number = int(row["silence_no"])
    with st.form(f"end_silence_form_{number}", border=False):
        st.text(tables.silence_words(row, live.tz(), live.now()))
        st.caption("Notifications are sent again from now on; none is sent for alerts found meanwhile.")
        name = auth.name_field(who, f"end_silence_name_{number}")
        if st.form_submit_button("End this silence"):
            done = "The silence is over."
            detail.perform(who, name, lambda store: detail.end_silence(store, number, name), done)


live.header("Alerts")
part = live.choice("Show", ("Alerts", "Rules", "Silences"), "view", label_visibility="collapsed")
if part == "Rules":
    live.part(_rules, SLOW_S, SPANS_D[live.choice("Time span", SPANS_D, "rule_span", "30 days")])
elif part == "Silences":
    ending = st.session_state.pop(ENDING, None)
    detail.said()
    live.part(_silences)
    if ending is not None:  # opened by the page: a live part's next drawing would take it away again
        _end(ending, auth.reader())
else:
    _filters()
    live.part(_listing)
    detail.detail(st.session_state.get(LISTED, (None, ()))[1])
