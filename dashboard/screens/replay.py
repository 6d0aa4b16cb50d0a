"""A day again: the whole map at any moment of it, and what shadow runs of stored days differ in from live."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import streamlit as st

from dashboard import (
    fleet_queries,
    icons,
    legends,
    live,
    past,
    replay_frames,
    replay_queries,
    replay_tables,
    text,
)
from dashboard.maps import Record, rows_of
from dashboard.player import components

SPEEDS = {"1x": 1, "10x": 10, "60x": 60, "300x": 300, "900x": 900}
PLAYER = "player"
ANSWERED = "player_answered"
GATHER = timedelta(minutes=1)
"""So long after the first window of a day most vehicles that drive have reported."""
CLOCKS = ("%H:%M:%S", "%H:%M")


def choose() -> tuple[date, int, str | None] | None:
    """Day, speed and the vehicle to follow, kept in the address; None: nothing is stored."""
    span = live.row(live.ask(replay_queries.day_span))
    if span is None:
        return None
    if span["last_at"] is None:
        live.nothing("No window of any vehicle is stored yet: there is no day to play again.")
        return None
    first, last = (span[name].astimezone(live.tz()).date() for name in ("first_at", "last_at"))
    known = live.ask_slowly(fleet_queries.vehicle_ids)
    ids = [] if known is None else list(known["vehicle_id"])
    wanted = st.query_params.get("follow")
    if wanted and wanted not in ids:
        ids.insert(0, wanted)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium", key="toolbar"):
        day = st.date_input(
            "Day", value=last, min_value=first, max_value=last, key="day", bind="query-params", width=160
        )
        speed = st.segmented_control(
            "Speed", list(SPEEDS), default="60x", required=True, key="speed", bind="query-params"
        )
        follow = st.selectbox(
            "Follow", ids, index=ids.index(wanted) if wanted else None, placeholder="Nobody", width=230
        )
    if follow != wanted:
        if follow:
            st.query_params["follow"] = follow
        else:
            st.query_params.pop("follow", None)
    return (day if isinstance(day, date) else last), SPEEDS[speed], follow


def bounds(day: date) -> tuple[datetime, datetime]:
    """Begin and end of a day of the reader's zone."""
    ends = (datetime.combine(each, time(), live.tz()) for each in (day, day + timedelta(days=1)))
    begin, end = (each.astimezone(UTC) for each in ends)
    return begin, end


def moment(day: date, told: str | None) -> datetime | None:
    """The moment that an address names, as 08:30 or 08:30:10; None where it names none."""
    for form in CLOCKS:
        try:
            at = datetime.strptime(told or "", form).time()
        except ValueError:
            continue
        return datetime.combine(day, at, live.tz())
    return None


def begin_ms(day: date, first_at: datetime) -> int:
    """Where the day begins to play: at the address's moment, else just after the first data."""
    return ms_of(moment(day, st.query_params.get("at")) or first_at + GATHER)


def home(network: Record) -> list[list[float]]:
    """Two corners of the roads, where the map looks while nobody is on it."""
    if not network.get("version"):
        return []
    return [[network["west"], network["south"]], [network["east"], network["north"]]]


def ms_of(at: datetime) -> int:
    """Epoch milliseconds."""
    return round(at.timestamp() * 1000)


def player(day: date, speed: int, follow: str | None) -> None:
    """The picture: it asks for stretches as it plays."""
    known = live.row(live.ask_slowly(replay_queries.day_windows, day, str(live.tz())))
    hours = live.ask_slowly(replay_queries.day_hours, day, str(live.tz()))
    if known is None or hours is None:
        return
    if known["first_at"] is None:
        live.nothing("No window of this day is stored. Choose another day.")
        return
    cut = replay_frames.plan(speed, int(known["vehicles"]), live.settings().jobs.window_s)
    begin, end = bounds(day)
    sheet, mapping = icons.atlas(live.mode())
    state = st.session_state.get(PLAYER) or {}
    keep_moment(state.get("at"), begin, end)
    packed = stretch(state.get("want"), begin, end, cut)
    network = live.row(live.ask_slowly(fleet_queries.road_networks)) or {}
    data = {
        "tone": components.tone(live.mode()),
        "icons": {"sheet": sheet, "mapping": mapping},
        "roads": live.road_address(network),
        "zone": str(live.tz()),
        "day": {"since": ms_of(begin), "until": ms_of(end)},
        "at_ms": begin_ms(day, known["first_at"]),
        "home": home(network),
        "hours": [{"ms": ms_of(row["hour"]), "moving": row["moving"] or 0.0} for row in rows_of(hours)],
        "plan": {"step_ms": cut.step_ms, "stretch_ms": cut.stretch_ms},
        "speed": speed,
        "follow": follow,
        "stretch": packed,
        "away": live.AWAY in st.session_state,
    }
    components.replay()(key=PLAYER, data=data, on_want_change=lambda: None, on_at_change=lambda: None)
    st.html(legends.states(live.mode()))


def keep_moment(at_ms: Any, begin: datetime, end: datetime) -> None:
    """The moment that the reader stopped at goes into the address."""
    if at_ms is not None and ms_of(begin) <= at_ms < ms_of(end):
        at = datetime.fromtimestamp(at_ms / 1000, live.tz())
        st.query_params["at"] = f"{at:%H:%M:%S}"


def stretch(want: Record | None, begin: datetime, end: datetime, cut: replay_frames.Plan) -> Record | None:
    """The stretch that the picture asks for; None where it has been given, or the database is away."""
    if not want or want["id"] == st.session_state.get(ANSWERED):
        return None
    start_ms = replay_frames.start_of(want["start_ms"], cut)
    if not ms_of(begin) - cut.stretch_ms <= start_ms < ms_of(end):
        return None
    since, until = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (start_ms, start_ms + cut.stretch_ms))
    places = past.fetch(replay_queries.places, since, until, cut.step_ms // 1000)
    alerts = past.fetch(replay_queries.alerts_between, since, until)
    before = past.fetch(replay_queries.places_before, since, bool(want["before"]))
    if places is None or alerts is None or before is None:
        return None
    st.session_state[ANSWERED] = want["id"]
    return replay_frames.stretch(places, before, alerts, start_ms, cut)


def comparisons() -> None:
    """What `odograph replay --verify` and `compare` found."""
    st.subheader("Shadow runs against live", anchor=False)
    found = live.ask(replay_queries.verdicts)
    if found is None:
        return
    if found.empty:
        st.caption(
            "No shadow run has been compared with live yet: `odograph replay --day 2026-11-20 --verify`."
        )
        return
    table = replay_tables.runs(found, live.tz())
    st.dataframe(table, hide_index=True, placeholder=text.NONE, key="runs", alt="Shadow runs against live")
    different = found[~found["equal"].astype(bool)]
    for row in different.to_dict("records"):
        st.markdown(f"**{text.plain(row['run_id'])}, {text.plain(row['table_name'])}** differs")
        st.text(replay_tables.difference({str(k): v for k, v in row.items()}))


def wait() -> None:
    """Begin again once the database tells of a day."""
    span = live.row(live.ask(replay_queries.day_span))
    if span is not None and span["last_at"] is not None:
        st.rerun()


live.header("Replay", past=True)
chosen = choose()
if chosen is None:
    st.fragment(wait, run_every=live.every())()
else:
    st.fragment(player, run_every=live.every(live.SLOW_S))(*chosen)
st.fragment(comparisons, run_every=live.every(live.SLOW_S))()
