"""Incidents and their alerts: the worst that is active first; one is opened below, and has an address."""

from datetime import datetime, time, timedelta
from typing import Any, Final

import pandas as pd
import streamlit as st

from dashboard import auth
from dashboard.auth import Reader
from dashboard.query_cache import SLOW_S, ask, ask_slowly, later, settings
from dashboard.screens.alerts import detail, evidence, queries, tables
from dashboard.screens.alerts.tables import ALERT, INCIDENT, Kind
from dashboard.shared import downloads, live, text
from dashboard.shared import queries as shared_queries
from dashboard.shared.text import Record
from dashboard.shared.theme import SEVERITIES
from stream_jobs.alerts.store import AlertStore

STATUS: Final = {"active": True, "cleared": False, "all": None}
SEEN: Final = {"all": None, "no": False, "yes": True}
NOBODY: Final = "nobody"
SPANS_D: Final = {"7 days": 7, "30 days": 30, "90 days": 90}
END_BUTTONS_MOST: Final = 12
LISTED, TURN, ENDING = "alert_list", "alert_turn", "ending_silence"


def _options(found: pd.DataFrame | None, column: str, asked: str | None, *always: str) -> list[str]:
    """What a filter offers, among it what the address asks for."""
    known = [*always, *([] if found is None else sorted(set(found[column].dropna())))]
    return [*([asked] if asked and asked not in known else []), *known]


def _filters(kind: Kind) -> tuple[Any, ...]:
    """What the query of the list takes, kept in the address."""
    rules, address = ask(shared_queries.rules), st.query_params

    def one_of(label: str, key: str, options: list[str]) -> Any:
        look: Any = {"index": None, "placeholder": "all", "bind": "query-params", "width": 200}
        return st.selectbox(label, options, key=key, **look)

    with live.toolbar():
        active = STATUS[live.choice("Status", STATUS, "status_filter")]
        pills: Any = {"selection_mode": "multi", "bind": "query-params"}
        severities = tuple(st.pills("Severity", list(SEVERITIES), key="severity", **pills)) or None
        if kind is ALERT:
            more: tuple[Any, ...] = (one_of("Rule", "rule", _options(rules, "rule", address.get("rule"))),)
        else:
            cause = one_of("Cause", "cause", _options(rules, "cause", address.get("cause")))
            assignees, asked = ask_slowly(queries.assignees), address.get("assigned")
            people = _options(assignees, "assigned_to", asked, NOBODY)
            seen = SEEN[live.choice("Acknowledged", SEEN, "seen", "all")]
            more = (cause, one_of("Assigned to", "assigned", people), seen)
        hint: Any = {"placeholder": "all, or a whole id", "bind": "query-params", "width": 200}
        vehicle = st.text_input("Vehicle", key="vehicle", **hint)
    return vehicle.strip() or None, severities, active, *more


def _listing(kind: Kind, asked: tuple[Any, ...]) -> None:
    """A row chosen by mouse or arrow keys is opened below. The list stands still while one is open."""
    live.renew()
    state = st.session_state
    found = live.rows(ask(kind.find, *asked))
    matching, chosen = [int(n) for n in found[kind.number]], detail.chosen(kind)
    kept = state.get(LISTED, (None, ()))
    same = kept[1] if kept[0] == (kind.name, asked) else ()
    numbers, newcomers = tables.held(same, matching, chosen is not None)
    gone = tuple(sorted(set(numbers) - set(matching)))
    others = ask(kind.find, numbers=gone) if gone else None
    both = found if others is None or others.empty else pd.concat([found, others], ignore_index=True)
    shown = tables.in_order(both, kind.number, numbers)
    numbers = tuple(int(n) for n in shown[kind.number])  # one may be there no more
    state[LISTED] = ((kind.name, asked), numbers)
    if not numbers:
        st.success(f"No {kind.name} matches. {text.RAISE}", icon=":material/check_circle:")
        return
    with st.container(horizontal=True, vertical_alignment="center", key="list_head"):
        live.say_listed(found, kind.name, shared_queries.LISTED_MOST)
        if newcomers:
            label, icon = f"{newcomers} new: show", ":material/refresh:"
            st.button(label, key="renew", on_click=_renew, icon=icon, type="tertiary")
    text_of = st.column_config.TextColumn
    look: Any = {"looks": {"Message": text_of(width=330), "No": text_of(width="small")}}
    look["most"] = 17 if chosen is None else 7
    # a new turn, a new table: the old mark would stand on another row
    key = f"{kind.name}s_{state.get(TURN, 0)}"
    look |= {"tint": text.BY_SEVERITY, "choose": lambda place: detail.choose(kind, numbers[place])}
    look["data"] = later(kind.find, *asked, most=downloads.ROWS_MOST)
    live.open_list(shown, kind.columns(chosen), key, f"{kind.name.capitalize()}s", **look)


def _renew() -> None:
    """Take the newcomers in; the open alert's neighbours are others then, so the whole page is drawn anew."""
    st.session_state[live.PICKED] = lambda: None
    st.session_state.pop(LISTED, None)
    st.session_state[TURN] = st.session_state.get(TURN, 0) + 1


def _rules(days: int) -> None:
    zone = live.tz()
    today = live.now().tz_convert(zone).date()
    listed = [today - timedelta(days=k) for k in reversed(range(days))]
    start, end = (datetime.combine(day, time(), zone) for day in (listed[0], today + timedelta(days=1)))
    known = live.rows(ask(shared_queries.rules))
    found = live.rows(ask_slowly(queries.rule_days, start, end, settings().tz))
    if known.empty and found.empty:
        live.nothing("No rule is noted yet: the jobs have not run on this database: `odograph up`.")
        return
    if found.empty:
        live.nothing(f"No alert has opened within {days} days. {text.RAISE}")
    else:
        live.chart(evidence.by_day(found, listed), "alerts_by_day")
    table = tables.rules(known, found, listed)
    st.caption(f"{len(table)} rules, those with the most alerts first.")
    looks: dict[str, Any] = {
        "Per day": st.column_config.BarChartColumn(f"Per day, {days} days", width="medium", y_min=0),
        "Message": st.column_config.TextColumn(width="large"),
        "Limit": st.column_config.TextColumn(width="small"),
    }
    live.table(table, tables.RULES, "rules", tint=text.BY_SEVERITY, looks=looks, most=24)


def _silences() -> None:
    if ENDING in st.session_state:
        st.rerun()
    found = live.rows(ask(queries.silences))
    st.caption(
        "Silenced alerts are stored and shown all the same; webhooks and drivers are not notified. A silence "
        "is made where an alert is open, or by: odograph alerts silence"
    )
    live.rows(found, "Nothing was ever silenced: `odograph alerts silence --help`.")
    with live.section():
        who, in_force = auth.reader(), found[found["in_force"]]
        live.rows(in_force, "None is in force.", st.caption)
        look: Any = {"horizontal": True, "vertical_alignment": "center", "border": True}
        for row in text.rows_of(in_force.head(END_BUTTONS_MOST)):
            key = f"end_silence_{row['silence_no']}"
            with st.container(key=f"silence_row_{row['silence_no']}", **look):
                st.text(tables.silence_words(row, live.tz(), live.now()), width="stretch")
                if who.may("alerts"):
                    icon = ":material/notifications:"
                    wanted = ({ENDING: row},)
                    st.button("End now", key=key, icon=icon, on_click=st.session_state.update, args=wanted)
        more = len(in_force) - END_BUTTONS_MOST
        if more > 0:
            st.caption(f"{more} more are in force; end them by: odograph alerts unsilence")
        if not who.may("alerts"):
            st.caption(auth.why_not(who, "alerts"))
    live.table(found, tables.SILENCES, "silences")


@st.dialog("End a silence")
def _end(row: Record, who: Reader) -> None:
    number = int(row["silence_no"])
    with st.form(f"end_silence_form_{number}", border=False):
        st.text(tables.silence_words(row, live.tz(), live.now()))
        st.caption("Notifications are sent again from now on; none is sent for alerts found meanwhile.")
        name = auth.name_field(who, f"end_silence_name_{number}")
        if st.form_submit_button("End this silence"):

            def end(store: AlertStore) -> str | None:
                ended = store.end_silences([number], name)
                detail.write_silence_file(store)
                return None if ended else "It was over before."

            detail.perform(who, name, end, "The silence is over.")


live.header("Alerts")
VIEWS: Final = {"Incidents": INCIDENT, "Alerts": ALERT, "Rules": None, "Silences": None}
first = "Alerts" if ALERT.name in st.query_params else "Incidents"  # an address of one alert
part = live.choice("Show", VIEWS, "view", first, label_visibility="collapsed")
if part == "Rules":
    live.part(_rules, SLOW_S, SPANS_D[live.choice("Time span", SPANS_D, "rule_span", "30 days")])
elif part == "Silences":
    ending = st.session_state.pop(ENDING, None)
    detail.said()
    live.part(_silences)
    if ending is not None:  # opened by the page: a live part's next drawing would take it away again
        _end(ending, auth.reader())
else:
    kind = VIEWS[part] or INCIDENT
    live.part(_listing, None, kind, _filters(kind))
    with live.section():
        detail.opened(kind, detail.steps(kind, st.session_state.get(LISTED, (None, ()))[1]))
