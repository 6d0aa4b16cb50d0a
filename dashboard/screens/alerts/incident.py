"""One incident: what it is, its alerts in time, who has a share in it, what was done and what can be."""

from typing import Any, Final

import streamlit as st

from dashboard.auth import Reader
from dashboard.query_cache import SLOW_S, ask
from dashboard.screens.alerts import detail as alert_detail
from dashboard.screens.alerts import evidence, queries, tables
from dashboard.screens.alerts.detail import ENDED, QUIET, Way
from dashboard.screens.alerts.tables import INCIDENT
from dashboard.shared import live, text
from dashboard.shared.queries import incidents
from dashboard.shared.text import Record
from dashboard.shared.theme import SEVERITY_SIGNS
from stream_jobs.alerts.store import AlertStore, Deed

BARS_MOST: Final = 40  # alerts that get a bar each; of more, how many were active is drawn


WAYS: Final = {
    "Assign": Way("incident_assign", "person_add", "Left empty: nobody has it.", "To whom", "Assigned."),
    "Comment": Way(
        "incident_comment", "chat", "Everybody who opens the incident reads it.", "Comment", "Noted."
    ),
    "Silence": QUIET,
    "End by hand": Way("incident_close", "done_all", "Ends its alerts. A new finding opens it anew.", *ENDED),
}


def detail(number: int) -> None:
    """One incident."""
    gone = f"There is no incident {number}: it never was, or another took it in."
    found = live.linked(incidents, gone, numbers=(number,))
    live.part(_facts, None, number)
    left, right = st.columns([1, 1.6], gap="large")
    with right:
        live.part(_timeline, SLOW_S, number)
    with left:
        who = alert_detail.dispatcher()
        if who is not None:
            _actions(found, who)
        live.part(_notes, None, number)


def _facts(number: int) -> None:
    found = live.first(ask(incidents, numbers=(number,)))
    sign = f"{SEVERITY_SIGNS[found['severity']]} {found['severity']} · {tables.status(found)}"
    st.text(text.joined(sign, tables.cause(found["cause"]), found["message"]))
    tiles = {
        "Since": text.clock(found["opened_at"], live.tz(), live.now()),
        "Age": text.duration(found["age_s"]),
        "Last finding": text.clock(found["last_at"], live.tz(), live.now()),
        "Alerts": text.number(found["alerts"]),
        "Vehicles": text.number(found["vehicles"]),
        "Who has it": found["assigned_to"] or text.NONE,
    }
    live.figures("figures_incident", tiles)
    lines = [text.joined(tables.whose(found), found["model"]), f"rules: {', '.join(found['rules'])}"]
    for word, at, by in (
        ("acknowledged", "acknowledged_at", "acknowledged_by"),
        ("ended", "closed_at", None),
    ):
        if found[at] is not None:
            whom = f" by {found[by]}" if by else ""
            lines.append(f"{word}{whom} {text.clock(found[at], live.tz())}")
    if found["silenced_until"]:
        lines.append(f"silenced until {text.clock(found['silenced_until'], live.tz())}")
    st.text("\n".join(lines))
    with st.container(horizontal=True, vertical_alignment="center", key="ways"):
        if found["vehicle_id"] is not None:
            live.vehicle_button("Open vehicle", found["vehicle_id"], key="to_vehicle")
        alert_detail.address(INCIDENT, found)


def _timeline(number: int) -> None:
    """Its alerts in time: bars, and rows that lead to their evidence."""
    found, alerts = live.first(ask(incidents, numbers=(number,))), live.rows(ask(queries.timeline, number))
    st.subheader("Timeline", anchor=False)
    drawn = evidence.bars if len(alerts) <= BARS_MOST else evidence.together
    local = text.local(text.local(alerts, live.tz(), "opened_at"), live.tz(), "last_at")
    live.chart(drawn(local), "timeline")
    of_fleet = found["vehicle_id"] is None
    title, columns = ("Vehicles", tables.SHARE) if of_fleet else ("Alerts", tables.TIMELINE)
    st.caption(f"{title}: click a row to open the alert with its evidence.")
    look: Any = {"tint": text.BY_SEVERITY, "height": live.height(len(alerts), 12, 470)}
    live.leading(alerts, columns, "incident_alerts", title, "alerts", "alert_no", **look)


def _notes(number: int) -> None:
    none = "Nobody has acknowledged, assigned or commented it yet."
    live.listed("Notes", ask(queries.notes, number), none, tables.NOTES, "incident_notes")


def _actions(found: Record, who: Reader) -> None:
    number = int(found["incident_no"])

    def quieten(store: AlertStore, name: str, why: str | None, length_s: float) -> None:
        store.silence_incidents([number], length_s, name, why or "")
        alert_detail.write_silence_file(store)

    acknowledge: tuple[Deed, str] = ("incident_acknowledge", "Acknowledged, with all its alerts.")
    ways = {label: way for label, way in WAYS.items() if found["active"] or way.deed != "incident_close"}
    done = None if found["acknowledged_at"] is not None else acknowledge
    alert_detail.act_on(number, who, done, ways, lambda: quieten)
