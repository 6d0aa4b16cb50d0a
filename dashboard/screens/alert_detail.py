"""One alert: its facts, what happened to it, and beside them its evidence and what can be done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import pandas as pd
import streamlit as st

from dashboard import alert_queries, alert_tables, live, text, triage
from dashboard.palette import SEVERITY_SIGNS
from dashboard.screens import alert_actions, alert_evidence

CHOSEN: Final = "alert"
"""In the address: an address with it is a link to one alert."""

Row = Mapping[str, Any]


def chosen() -> int | None:
    """The alert of the address."""
    given = st.query_params.get(CHOSEN, "")
    return int(given) if given.isdecimal() and len(given) < 19 else None


def choose(alert_no: int | None) -> None:
    """Open an alert, or none."""
    if alert_no is None:
        st.query_params.pop(CHOSEN, None)
    else:
        st.query_params[CHOSEN] = str(alert_no)


def detail(listed: Sequence[int]) -> None:
    """The alert of the address, below the list."""
    number = chosen()
    if number is None:
        if st.query_params.get(CHOSEN):
            st.warning("This address names no alert.", icon=":material/link_off:")
        return
    st.divider()
    steps(number, listed)
    answer = live.ask(alert_queries.alert, number)
    found = live.row(answer)
    if answer is None:
        live.until_answered(alert_queries.alert, number)
        return
    if found is None:
        gone = f"There is no alert {number}: it never was, or late frames took it back."
        st.warning(gone, icon=":material/link_off:")
        return
    live.part(facts, None, number)
    left, right = st.columns(
        [1, 1.6], gap="large"
    )  # what to do comes first where they stand one below another
    with right:
        collected = found["evidence_at"] is not None
        live.part(alert_evidence.proof, live.SLOW_S, number, still=collected)
    with left:
        alert_actions.actions(found)
        live.part(history, None, number)


def steps(number: int, listed: Sequence[int]) -> None:
    """Which alert it is, its neighbours in the list, and the way out; by keys too."""
    before, after = (triage.neighbour(listed, number, step) for step in (-1, 1))
    with st.container(horizontal=True, vertical_alignment="center", key="steps"):
        st.subheader(f"Alert {number}", anchor=False, width="content")
        st.button(
            "Previous", on_click=choose, args=(before,), disabled=before is None, shortcut="K", key="before"
        )
        st.button("Next", on_click=choose, args=(after,), disabled=after is None, shortcut="J", key="after")
        st.button("Close", on_click=choose, args=(None,), shortcut="X", key="close", type="tertiary")


def facts(number: int) -> None:
    """What it is, in words and figures; renewed with the list."""
    found = live.row(live.ask(alert_queries.alert, number))
    if found is None:
        return
    sign = SEVERITY_SIGNS[found["severity"]]
    st.text(
        f"{sign} {found['severity']} · {alert_tables.status(found | silenced(found))} · {found['rule']} "
        f"v{found['rule_version']} · {found['message']}"
    )
    zone = live.tz()
    tiles = {
        "Since": text.clock(found["since_at"] or found["opened_at"], zone, datetime.now(UTC)),
        "Duration": text.duration(found["duration_s"]),
        "Last value": text.number(found["value"], digits=1),
        "Worst": text.number(found["worst_value"], digits=1),
        "Limit": text.number(found["limit_value"], digits=1),
        "Findings": text.number(found["findings"]),
    }
    with st.container(key="figures_alert"):
        for label, value in tiles.items():
            st.metric(label, value, border=True)
    lines = [f"{found['vehicle_id']} · {found['model'] or 'model not known'}", *times(found)]
    st.text("\n".join(lines))
    ways(found)


def silenced(found: Row) -> dict[str, Any]:
    """The columns of the list that one alert names otherwise."""
    return {"silenced_until": found["silenced_until"], "late": found["late"]}


def times(found: Row) -> list[str]:
    """Begin, last finding and end; how long its first finding took."""
    zone = live.tz()
    ended = text.clock(found["cleared_at"], zone) if found["cleared_at"] else "not yet"
    by = f" by {found['cleared_by']}" if found["cleared_by"] else ""
    lines = [
        f"opened {text.clock(found['opened_at'], zone)} · "
        f"last finding {text.clock(found['last_at'], zone)} · ended {ended}{by}"
    ]
    way = ("event_to_received_ms", "received_to_alerted_ms", "alerted_to_stored_ms")
    if any(found[name] is not None for name in way):
        took = ", ".join(text.number(found[name], "ms") for name in way)
        lines.append(f"first finding: event to receipt, alert, table: {took}")
    if found["acknowledged"]:
        note = f": {found['note']}" if found["note"] else ""
        lines.append(
            f"acknowledged by {found['acknowledged_by']} {text.clock(found['acknowledged_at'], zone)}{note}"
        )
    if found["silenced_until"]:
        lines.append(f"silenced until {text.clock(found['silenced_until'], zone)}: {found['silenced_why']}")
    return lines


def ways(found: Row) -> None:
    """On to the vehicle and to the crash record; the address to send to somebody."""
    with st.container(horizontal=True, vertical_alignment="center", key="ways"):
        if st.button("Open vehicle", icon=":material/directions_car:", key="to_vehicle"):
            live.open_vehicle(found["vehicle_id"])
        if found["crash_id"] is not None and found["crash_boot_id"] is not None:
            record = f"{found['vehicle_id']}/{found['crash_boot_id']}/{found['crash_id']}"
            if st.button(f"Crash record ({found['verdict']})", icon=":material/car_crash:", key="to_crash"):
                live.open_page("crashes", record=record)
        st.code(f"{st.context.url}?{CHOSEN}={found['alert_no']}", language=None, width="stretch")


def history(number: int) -> None:
    """What happened to it, and who did it."""
    st.subheader("History", anchor=False)
    found = live.ask(alert_queries.alert_changes, number)
    if found is None:
        return
    table = alert_tables.changes(found, live.tz(), pd.Timestamp.now(tz="UTC"))
    one = st.column_config.NumberColumn(format="%.1f")
    st.dataframe(
        table,
        hide_index=True,
        key="alert_history",
        placeholder=text.NONE,
        column_config={"Value": one, "Limit": one},
    )
