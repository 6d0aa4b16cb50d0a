"""A day again: the whole map at any moment of it, and what shadow runs of stored days differ in from live."""

from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

import streamlit as st

from dashboard import auth, player
from dashboard.query_cache import SLOW_S, ask, ask_slowly, away, fetch, settings
from dashboard.screens.replay import frames, queries
from dashboard.shared import live, maps, pictures, text
from dashboard.shared import queries as shared_queries
from dashboard.shared.text import Record

SPEEDS: Final = {"1x": 1, "10x": 10, "60x": 60, "300x": 300, "900x": 900}
PLAYER: Final = "player"
ANSWERED: Final = "player_answered"
GATHER: Final = timedelta(minutes=1)  # after a day's first window most vehicles that drive have reported


def _page() -> None:
    span = live.first(ask(queries.day_span))
    if span["last_at"] is None:
        live.nothing(f"No window is stored yet, so there is no day to play again. {text.DRIVE}")
        return
    first, last = (span[name].astimezone(live.tz()).date() for name in ("first_at", "last_at"))
    with live.toolbar():
        day = live.day("Day", last, "day", min_value=first, max_value=last)
        speed = live.choice("Speed", SPEEDS, "speed", "60x")
        hint: Any = {"placeholder": "Nobody; part of an id", "bind": "query-params", "width": 230}
        words = st.text_input("Follow", key="follow", **hint).strip()
    found = ask_slowly(shared_queries.find_vehicles, words) if words else None
    follow = words or None
    if found is not None and not found.empty:
        follow = str(found["vehicle_id"].iloc[0])
        auth.viewed(follow)
    _player(day or last, SPEEDS[speed], follow)


def _moment(day: date, given: str | None) -> datetime | None:
    """The moment that an address names, as 08:30 or 08:30:10; None where it names none."""
    with suppress(ValueError):
        return datetime.combine(day, time.fromisoformat(given or ""), live.tz())
    return None


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def _player(day: date, speed: int, follow: str | None) -> None:
    zone = live.tz()
    known = live.first(ask_slowly(queries.day_windows, day, str(zone)))
    hours = live.rows(ask_slowly(queries.day_hours, day, str(zone)))
    if known["first_at"] is None:
        live.nothing("No window of this day is stored. Choose another day.")
        return
    cut = frames.plan(speed, int(known["vehicles"]), settings().jobs.window_s)
    begin, end = (_ms(datetime.combine(each, time(), zone)) for each in (day, day + timedelta(days=1)))
    state = st.session_state.get(PLAYER) or {}
    if state.get("at") is not None and begin <= state["at"] < end:  # where the reader stopped
        st.query_params["at"] = f"{datetime.fromtimestamp(state['at'] / 1000, zone):%H:%M:%S}"
    sheet, mapping = pictures.atlas(live.mode())
    roads = live.network()
    corners = [[roads[x], roads[y]] for y, x in maps.ENDS if roads.get("version")]
    data = {
        "tone": player.tone(live.mode()),
        "icons": {"sheet": sheet, "mapping": mapping},
        "roads": live.road_address(),
        "ground": live.ground(),
        "zone": str(zone),
        "day": {"since": begin, "until": end},
        "at_ms": _ms(_moment(day, st.query_params.get("at")) or known["first_at"] + GATHER),
        "home": corners,  # where the map looks while nobody is on it
        "hours": [{"ms": _ms(row["hour"]), "moving": row["moving"] or 0.0} for row in text.rows_of(hours)],
        "plan": {"step_ms": cut.step_ms, "stretch_ms": cut.stretch_ms},
        "speed": speed,
        "follow": follow,
        "stretch": _stretch(state.get("want"), begin, end, cut),
        "away": away(),
    }
    player.component("replay")(key=PLAYER, data=data, on_want_change=lambda: None, on_at_change=lambda: None)
    live.name_ground()
    st.html(pictures.states(live.mode()))


def _stretch(want: Any, begin_ms: int, end_ms: int, cut: frames.Plan) -> Record | None:
    """The stretch that the picture asks for; None where it has been given, or the database is away."""
    if not want or want["id"] == st.session_state.get(ANSWERED):
        return None
    start_ms = frames.start_of(want["start_ms"], cut)
    if not begin_ms - cut.stretch_ms <= start_ms < end_ms:
        return None
    since, until = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (start_ms, start_ms + cut.stretch_ms))
    places = fetch(queries.places, since, until, cut.step_ms // 1000, settings().jobs.window_s)
    alerts = fetch(queries.alerts_between, since, until)
    before = fetch(queries.places_before, since, bool(want["before"]))
    if places is None or alerts is None or before is None:
        return None
    st.session_state[ANSWERED] = want["id"]
    return frames.stretch(places, before, alerts, start_ms, cut)


def _comparisons() -> None:
    st.subheader("Shadow runs against live", anchor=False)
    none = "No shadow run has been compared with live yet: `odograph replay --day 2026-11-20 --verify`."
    found = live.rows(ask(queries.verdicts), none, st.caption)
    live.table(found, frames.RUNS, "runs", "Shadow runs against live")
    for row in text.rows_of(found[~found["equal"].astype(bool)]):
        st.markdown(f"**{text.plain(row['run_id'])}, {text.plain(row['table_name'])}** differs")
        st.text(frames.difference(row))


live.header("Replay", past=True)
live.part(_page, SLOW_S)
live.part(_comparisons, SLOW_S)
