"""What is opened below the list, an alert or an incident: facts, evidence or timeline, actions, history.

Also the steps between neighbours, and forms that do something.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import streamlit as st

from dashboard import auth
from dashboard.auth import Reader
from dashboard.query_cache import SLOW_S, ask, forget, settings
from dashboard.screens.alerts import evidence, queries, tables
from dashboard.screens.alerts.tables import ALERT, INCIDENT, Kind
from dashboard.shared import live, text
from dashboard.shared.queries import alerts, incidents, rules
from dashboard.shared.text import Record
from infra.contract.downlink import Silences
from infra.contract.errors import ConfigError, OdographError
from infra.contract.messages import FLEET
from infra.settings import settings as contract
from stream_jobs.alerts.store import AlertStore, Deed, alert_store

LENGTHS_S: Final = {"30 min": 1_800, "2 h": 7_200, "8 h": 28_800, "24 h": 86_400, "7 d": 604_800}
SCOPES: Final = ("this rule on this vehicle", "this rule on all vehicles", "all rules on this vehicle")
NOTE_MOST: Final = 500
DONE: Final = "alert_done"
SILENCE_WORDS: Final = "Alerts are stored and shown all the same; webhooks and drivers are not notified."
SIGNALS_MOST: Final = 4
CONTEXT: Final = ("speed_kmh", "engine_rpm")  # shown beside what the rule reads, where the vehicle has them
BARS_MOST: Final = 40  # alerts that get a bar each; of more, how many were active is drawn
NOBODYS: Final = (None, FLEET)  # vehicle of what is of the fleet
LATENCIES: Final = ("event_to_received_ms", "received_to_alerted_ms", "alerted_to_stored_ms")
CHANGED: Final = (
    alerts, incidents, queries.alert, queries.alert_changes, queries.silences, queries.notes,
    queries.timeline,
)  # fmt: skip
"""The queries whose rows an action changes."""
Act = Callable[[AlertStore, str, str | None, float], str | None]
"""With the store, a name, words and a length, s; what came of it where that is not what was meant."""


class Way(NamedTuple):
    """What can be done in a dialog: its sign and words; ``deed`` None: to silence; ``before``: no change."""

    deed: Deed | None
    icon: str
    caption: str
    words: str
    done: str
    before: str = "Nothing was changed."


END: Final = "End by hand"  # only while it is active
QUIET: Final = Way(None, "notifications_off", SILENCE_WORDS, "Why", "Silenced.")
ENDED: Final = ("Why", "Ended.", "It was over before.")
ACKNOWLEDGE: Final[dict[str, tuple[Deed, str]]] = {
    "alert": ("acknowledge", "Acknowledged."),
    "incident": ("incident_acknowledge", "Acknowledged, with all its alerts."),
}
WAYS: Final = {
    "alert": {
        "Silence": QUIET,
        END: Way(
            "clear", "done_all", "A crash does not end by itself. A new finding opens a new alert.", *ENDED
        ),
    },
    "incident": {
        "Assign": Way("incident_assign", "person_add", "Left empty: nobody has it.", "To whom", "Assigned."),
        "Comment": Way(
            "incident_comment", "chat", "Everybody who opens the incident reads it.", "Comment", "Noted."
        ),
        "Silence": QUIET,
        END: Way("incident_close", "done_all", "Ends its alerts. A new finding opens it anew.", *ENDED),
    },
}


def chosen(kind: Kind) -> int | None:
    """The alert or incident of the address."""
    given = st.query_params.get(kind.name, "")
    return int(given) if given.isdecimal() and len(given) < 19 else None


def choose(kind: Kind, number: int | None) -> None:
    """Open an alert or incident, or none."""
    if number is None:
        st.query_params.pop(kind.name, None)
    else:
        st.query_params[kind.name] = str(number)


def steps(kind: Kind, listed: Sequence[int]) -> int:
    """The number of what is opened below the list, with ways to its neighbours; ends where nothing is."""
    number = chosen(kind)
    if number is None:
        if st.query_params.get(kind.name):
            st.warning(f"This address names no {kind.name}.", icon=":material/link_off:")
        raise live.NoRowsError
    st.divider()
    with st.container(horizontal=True, vertical_alignment="center", key="steps"):
        st.subheader(f"{kind.name.capitalize()} {number}", anchor=False, width="content")
        for label, shortcut, step in (("Previous", "K", -1), ("Next", "J", 1)):
            to, key = tables.neighbour(listed, number, step), f"step_{shortcut}"
            st.button(
                label, on_click=choose, args=(kind, to), disabled=to is None, shortcut=shortcut, key=key
            )
        st.button("Close", on_click=choose, args=(kind, None), shortcut="X", key="close", type="tertiary")
    return number


def opened(kind: Kind, number: int) -> None:
    """One alert or incident; what to do comes first where columns stand one below another."""
    if kind is ALERT:
        gone = f"There is no alert {number}: it never was, or late frames took it back."
        found = live.linked(queries.alert, "an alert", gone, number)
        facts, drawn, past = _alert, _evidence, _history
    else:
        gone = f"There is no incident {number}: it never was, or another took it in."
        found = live.linked(incidents, "an incident", gone, numbers=(number,))
        facts, drawn, past = _incident, _timeline, _notes
    if found["vehicle_id"] not in NOBODYS:
        auth.viewed(found["vehicle_id"])
    live.part(facts, None, number)
    left, right = st.columns([1, 1.6], gap="large")
    with right:
        live.part(drawn, SLOW_S, number, still=kind is ALERT and found["evidence_at"] is not None)
    with left:
        _actions(kind, found)
        live.part(past, None, number)


def _alert(number: int) -> None:
    found = live.first(ask(queries.alert, number))
    rule = f"{found['rule']} v{found['rule_version']}"
    st.text(text.joined(text.severity(found["severity"]), tables.status(found), rule, found["message"]))
    tiles = {
        "Since": text.clock(found["since_at"] or found["opened_at"], live.tz(), live.now()),
        "Duration": text.duration(found["duration_s"]),
        "Last value": text.number(found["value"], digits=1),
        "Worst": text.number(found["worst_value"], digits=1),
        "Limit": text.number(found["limit_value"], digits=1),
        "Findings": text.number(found["findings"]),
    }
    live.figures("figures_alert", tiles)

    def clock(name: str) -> str:
        return text.clock(found[name], live.tz())

    ended = clock("cleared_at") if found["cleared_at"] else "not yet"
    by = f" by {found['cleared_by']}" if found["cleared_by"] else ""
    lines = [f"{text.named(found['vehicle_id'])} · {found['model'] or 'model not known'}"]
    lines.append(f"opened {clock('opened_at')} · last finding {clock('last_at')} · ended {ended}{by}")
    if any(found[name] is not None for name in LATENCIES):
        took = ", ".join(text.number(found[name], "ms") for name in LATENCIES)
        lines.append(f"first finding: event to receipt, alert, table: {took}")
    if found["acknowledged"]:
        note = f": {found['note']}" if found["note"] else ""
        lines.append(f"acknowledged by {found['acknowledged_by']} {clock('acknowledged_at')}{note}")
    if found["silenced_until"]:
        lines.append(f"silenced until {clock('silenced_until')}: {found['silenced_why']}")
    _leads(ALERT, found, lines)


def _incident(number: int) -> None:
    found = live.first(ask(incidents, numbers=(number,)))
    what = (text.severity(found["severity"]), tables.status(found), tables.cause(found["cause"]))
    st.text(text.joined(*what, found["message"]))
    tiles = {
        "Since": text.clock(found["opened_at"], live.tz(), live.now()),
        "Age": text.duration(found["age_s"]),
        "Last finding": text.clock(found["last_at"], live.tz(), live.now()),
        "Alerts": text.number(found["alerts"]),
        "Vehicles": text.number(found["vehicles"]),
        "Assigned to": found["assigned_to"] or text.NONE,
    }
    live.figures("figures_incident", tiles)
    lines = [text.joined(text.whose(found), found["model"]), f"rules: {', '.join(found['rules'])}"]
    words = {
        f"acknowledged by {found['acknowledged_by']}": found["acknowledged_at"],
        "ended": found["closed_at"],
        "silenced until": found["silenced_until"],
    }
    lines += [f"{word} {text.clock(at, live.tz())}" for word, at in words.items() if at is not None]
    _leads(INCIDENT, found, lines)


def _leads(kind: Kind, found: Record, lines: Sequence[str]) -> None:
    """The lines, ways to what it is about, and where it can be found again."""
    st.text("\n".join(lines))
    with st.container(horizontal=True, vertical_alignment="center", key="ways"):
        if found["vehicle_id"] not in NOBODYS:
            live.vehicle_button("Open vehicle", found["vehicle_id"], key="to_vehicle")
        if kind is ALERT:
            number, icon = found["incident_no"], ":material/stacks:"
            if number is not None and st.button(f"Incident {number}", icon=icon, key="to_incident"):
                live.open_page("alerts", incident=str(number))
            if found["crash_id"] is not None and found["crash_boot_id"] is not None:
                record = f"{found['vehicle_id']}/{found['crash_boot_id']}/{found['crash_id']}"
                label, icon = f"Crash record ({found['verdict']})", ":material/car_crash:"
                if st.button(label, icon=icon, key="to_crash"):
                    live.open_page("crashes", record=record)
        st.code(f"{st.context.url}?{kind.name}={found[kind.number]}", language=None, width="stretch")


def _history(number: int) -> None:
    st.subheader("History", anchor=False)
    live.table(live.rows(ask(queries.alert_changes, number)), tables.CHANGES, "alert_history")


def _notes(number: int) -> None:
    none = "Nobody has acknowledged, assigned or commented it yet."
    live.listed("Notes", ask(queries.notes, number), none, tables.NOTES, "incident_notes")


def _evidence(number: int) -> None:
    """The frames around an alert: what the rule compared, then the signals as they were sent."""
    st.subheader("Evidence", anchor=False)
    alert = live.first(ask(queries.alert, number))
    kept, known = live.rows(ask(queries.alert_evidence, number)), ask(rules)
    if kept.empty:
        why = "were not in the archive"
        if alert["evidence_at"] is None:
            why = "are not collected yet: that takes a minute or two from the event"
        elif alert["evidence_frames"]:
            why = "are no longer kept"
        live.nothing(f"The frames around this alert {why}.")
        return
    rule = None
    if known is not None:  # where it still is of the version that found it
        name = str(alert["rule"]).partition(".")[0]
        rule = live.row(known[(known["rule"] == name) & (known["version"] == alert["rule_version"])])
    _curves(list(kept["frame"]), alert, rule)
    with st.expander("Frames, and where the log has them"):
        live.table(kept, tables.FRAMES, "evidence_frames")


def _curves(frames: Sequence[Record], alert: Record, rule: Record | None) -> None:
    """Value and limit as the rule saw them; of the signals those that matter first, others at choice."""
    opened_ms = round(alert["opened_at"].timestamp() * 1000)
    ended = alert["cleared_at"]
    cleared_s = None if ended is None else float((ended - alert["opened_at"]).total_seconds())
    read = evidence.read(frames, alert)
    seen = evidence.judged(read, opened_ms, alert, rule)
    st.caption(evidence.caption(len(frames), rule, seen))
    drawn: tuple[str, ...] = ()
    if seen.known:
        one = len(seen.signals) == 1 and bool(seen.unit)
        title = evidence.label(seen.signals[0]).partition(",")[0] if one else "value of the rule"
        live.chart(evidence.value_chart(seen, title, cleared_s), "evidence_value")
        drawn = seen.signals if one else ()
    there = evidence.present(read)
    usual = [n for n in dict.fromkeys((*seen.signals, *CONTEXT)) if n in there and n not in drawn]
    few: Any = {"default": usual[:SIGNALS_MOST], "max_selections": SIGNALS_MOST}
    picked = st.multiselect("Signals", there, format_func=evidence.label, key=f"signals_{opened_ms}", **few)
    for name in picked:
        st.markdown(f"**{evidence.label(name)}**")
        shown = evidence.curve(read, opened_ms, name)
        live.chart(evidence.signal_chart(shown, name, cleared_s), f"evidence_{name}")


def _timeline(number: int) -> None:
    """The alerts of an incident in time: bars, and rows that lead to their evidence."""
    found, alerts = live.first(ask(incidents, numbers=(number,))), live.rows(ask(queries.timeline, number))
    st.subheader("Timeline", anchor=False)
    drawn = evidence.bars if len(alerts) <= BARS_MOST else evidence.together
    local = text.local(text.local(alerts, live.tz(), "opened_at"), live.tz(), "last_at")
    live.chart(drawn(local), "timeline")
    of_fleet = found["vehicle_id"] is None
    title, columns = ("Vehicles", tables.SHARE) if of_fleet else ("Alerts", tables.TIMELINE)
    st.caption(f"{title}: click a row to open the alert with its evidence.")
    live.leading(alerts, columns, "incident_alerts", title, "alert_no", tint=text.BY_SEVERITY, most=12)


def _actions(kind: Kind, found: Record) -> None:
    """What the reader can do with it: acknowledge where nobody has, and what dialogs ask for."""
    st.subheader("Act", anchor=False)
    said()
    who, number = auth.reader(), int(found[kind.number])
    if not who.may("alerts"):
        st.caption(auth.why_not(who, "alerts"))
        return
    if who.local:
        st.caption(auth.LOCAL_WORDS)
    if found["acknowledged_at"] is None:
        deed, done = ACKNOWLEDGE[kind.name]
        act = _do(deed, number, "Somebody had acknowledged it before; it is left as it was.")
        form(who, f"acknowledge_{number}", "Acknowledge", "Note", act, done, shortcut="A")
    with st.container(horizontal=True, key="further"):
        for label, way in WAYS[kind.name].items():
            if (found["active"] or label != END) and st.button(label, icon=f":material/{way.icon}:"):
                st.dialog(label)(_ask)(label, way, kind, found, who)


def _ask(label: str, way: Way, kind: Kind, found: Record, who: Reader) -> None:
    st.caption(way.caption)
    number = int(found[kind.number])
    act = _silence(kind, found, who) if way.deed is None else _do(way.deed, number, way.before)
    form(who, f"{label}_{number}", label, way.words, act, way.done, lengths=way.deed is None)


def _silence(kind: Kind, found: Record, who: Reader) -> Act:
    """What the reader wants silenced: all of an incident, of an alert no other fleet's alerts."""
    scope = ""
    if kind is ALERT:
        choices = SCOPES if who.scope is None else [s for s in SCOPES if s != SCOPES[1]]
        scope = st.radio("What", choices, key=f"silence_scope_{found['alert_no']}")

    def quieten(store: AlertStore, name: str, why: str | None, length_s: float) -> str | None:
        until = None
        if kind is INCIDENT:
            store.silence_incidents([int(found["incident_no"])], length_s, name, why or "")
        else:
            rule = None if scope == SCOPES[2] else str(found["rule"]).partition(".")[0]
            vehicle = None if scope == SCOPES[1] else found["vehicle_id"]
            until = store.silence(rule, vehicle, length_s, name, why or "")["until_at"]
        write_silence_file(store)
        return until and f"Silenced until {text.clock(until, live.tz())}."

    return quieten


def _do(deed: Deed, number: int, before: str) -> Act:
    return lambda store, name, words, _: None if store.do(deed, [number], name, words) else before


def form(
    who: Reader, key: str, submit: str, words: str, act: Act, done: str, lengths: bool = False, **button: Any
) -> None:
    """Words, a length if ``lengths``, a name; says what came of ``act``, ``done`` where it says nothing."""
    with st.form(key, border="shortcut" in button):
        length = st.selectbox("For", list(LENGTHS_S), key=f"{key}_for") if lengths else next(iter(LENGTHS_S))
        name = auth.name_field(who, f"{key}_name")
        given = st.text_input(words, key=f"{key}_words", max_chars=NOTE_MOST).strip() or None
        if st.form_submit_button(submit, **({"type": "primary"} | button)):
            perform(who, name, lambda store: act(store, name, given, LENGTHS_S[length]), done)


def said() -> None:
    """What came of the last action, once."""
    words = st.session_state.pop(DONE, None)
    if words:
        st.success(words, icon=":material/check:")


def perform(who: Reader, name: str, action: Callable[[AlertStore], str | None], done: str) -> None:
    """Do it in one transaction if the reader may, say what came of it, and show the page anew."""
    try:
        if not auth.reader().may("alerts"):
            raise ConfigError(auth.why_not(who, "alerts"))
        address = contract.endpoints(settings(), ("db_dispatch_url",)).db_dispatch_url  # may do nothing else
        with alert_store(address, auth.reader().name) as store:
            came = action(store)
    except OdographError as error:
        st.error(text.plain(error))
        return
    if who.local:
        st.session_state["who"] = name  # the name given stays for the session
    forget(*CHANGED)
    st.session_state[DONE] = came or done
    st.rerun()


def write_silence_file(store: AlertStore) -> None:
    """The file beside the table, which the downlink reads."""
    Silences.write(settings().paths.home, store.in_force())
