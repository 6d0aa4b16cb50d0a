"""What a person can do with an alert: acknowledge it, silence its like for a while, end it by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import streamlit as st

from dashboard import alert_queries, live, signin, text
from dashboard.roles import Reader
from infra.contract.downlink import silence_file, write_silences
from infra.contract.errors import ConfigError, OdographError, ServiceError
from infra.settings import settings as contract
from stream_jobs.alerts.store import AlertStore, alert_store

LENGTHS_S: Final = {"30 min": 1_800, "2 h": 7_200, "8 h": 28_800, "24 h": 86_400, "7 d": 604_800}
SCOPES: Final = ("this rule on this vehicle", "this rule on all vehicles", "all rules on this vehicle")
NOTE_MOST: Final = 500
DONE: Final = "alert_done"

Row = Mapping[str, Any]


def actions(found: Row) -> None:
    """Forms for what is left to do, or why this reader may not."""
    st.subheader("Act", anchor=False)
    said()
    who = signin.reader(live.known_roles())
    if not who.may("alerts"):
        st.caption(signin.why_not(who, "alerts"))
        return
    if who.local:
        st.caption(signin.LOCAL_WORDS)
    if not found["acknowledged"]:
        acknowledge(found, who)
    with st.container(horizontal=True, key="further"):
        if st.button("Silence", icon=":material/notifications_off:"):
            silence(found, who)
        if found["active"] and st.button("End by hand", icon=":material/done_all:"):
            clear(found, who)


def said() -> None:
    """What came of the last deed, once."""
    words = st.session_state.pop(DONE, None)
    if words:
        st.success(words, icon=":material/check:")


def acknowledge(found: Row, who: Reader) -> None:
    """Somebody has seen it; it stays active until it is over."""
    number = int(found["alert_no"])
    with st.form(f"acknowledge_{number}"):
        name = signin.name_field(who, f"ack_name_{number}")
        note = st.text_input("Note", key=f"ack_note_{number}", max_chars=NOTE_MOST)
        if st.form_submit_button("Acknowledge", type="primary", shortcut="A"):
            perform(who, name, lambda store: _seen(store, number, name, note), "Acknowledged.")


@st.dialog("End by hand")
def clear(found: Row, who: Reader) -> None:
    """Ends an alert that does not end by itself; a new finding opens a new one."""
    number = int(found["alert_no"])
    with st.form(f"clear_{number}", border=False):
        st.caption("A crash does not end by itself. A new finding opens a new alert.")
        name = signin.name_field(who, f"clear_name_{number}")
        note = st.text_input("Why", key=f"clear_note_{number}", max_chars=NOTE_MOST)
        if st.form_submit_button("End this alert"):
            perform(who, name, lambda store: _ended(store, number, name, note), "Ended.")


@st.dialog("Silence")
def silence(found: Row, who: Reader) -> None:
    """Nobody is told for a while; alerts are stored all the same."""
    number = int(found["alert_no"])
    with st.form(f"silence_{number}", border=False):
        st.caption("Alerts are stored and shown all the same; webhooks and drivers are not told.")
        scope = st.radio("What", SCOPES, key=f"silence_scope_{number}")
        length = st.selectbox("For", list(LENGTHS_S), key=f"silence_for_{number}")
        name = signin.name_field(who, f"silence_name_{number}")
        why = st.text_input("Why", key=f"silence_why_{number}", max_chars=NOTE_MOST)
        if st.form_submit_button("Silence"):
            rule = None if scope == SCOPES[2] else str(found["rule"]).partition(".")[0]
            vehicle = None if scope == SCOPES[1] else found["vehicle_id"]
            perform(
                who,
                name,
                lambda store: quieten(store, rule, vehicle, LENGTHS_S[length], name, why),
                "Silenced.",
            )


def perform(who: Reader, name: str, deed: Callable[[AlertStore], str | None], done: str) -> None:
    """Do it in one transaction if the reader may, say what came of it, and show the page anew."""
    try:
        if not signin.reader(live.known_roles()).may("alerts"):
            raise ConfigError(signin.why_not(who, "alerts"))
        with alert_store(_address()) as store:
            came = deed(store)
    except OdographError as error:
        st.error(text.plain(error))
        return
    signin.remember(who, name)
    live.forget(
        alert_queries.alerts, alert_queries.alerts_numbered, alert_queries.alert, alert_queries.alert_changes,
        alert_queries.silences,
    )  # fmt: skip
    st.session_state[DONE] = came or done
    st.rerun()


def quieten(
    store: AlertStore, rule: str | None, vehicle: str | None, seconds: float, name: str, why: str
) -> str:
    """A silence in the table and in the file beside it, which the downlink reads."""
    made = store.silence(rule, vehicle, seconds, name, why)
    write_silences(silence_file(live.settings().paths.home), store.in_force())
    return f"Silenced until {text.clock(made['until_at'], live.tz())}."


def unquieten(store: AlertStore, number: int, name: str) -> str | None:
    """The end of a silence in the table and in the file beside it."""
    ended = store.end_silences([number], name)
    write_silences(silence_file(live.settings().paths.home), store.in_force())
    return None if ended else "It was over before."


def _seen(store: AlertStore, number: int, name: str, note: str) -> str | None:
    if store.acknowledge([number], name, note.strip() or None):
        return None
    return "Somebody had acknowledged it before; it is left as it was."


def _ended(store: AlertStore, number: int, name: str, note: str) -> str | None:
    return None if store.end([number], name, note.strip() or None) else "It was over before."


def _address() -> str:
    """Of the role that may do this and nothing else. Raises ServiceError."""
    address = contract.endpoints(live.settings()).db_dispatch_url
    if not address:
        raise ServiceError("this stack was started before it had a role for this; run: odograph up")
    return address
