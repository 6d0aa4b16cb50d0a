"""What the pages share: the database, pause, the header line, and answers that survive an outage."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Concatenate, Final, ParamSpec, cast
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import pandas as pd
import streamlit as st

from dashboard import fleet_queries, maps, roles, text
from dashboard.palette import Mode
from dashboard.queries import Connection, Database
from infra.contract import settings as contract
from infra.contract.errors import ServiceError

P = ParamSpec("P")
Query = Callable[Concatenate[Connection, P], pd.DataFrame]

HELD: Final = "held"
ASKED: Final = "asked"
AWAY: Final = "away"
OUTAGES: Final = "outages"
PAUSED: Final = "paused"
HELD_MOST: Final = 64
PHONE_PX: Final = 360
SLOW_S: Final = 10.0
"""Refresh of the parts that read an hour of windows, s."""


@st.cache_resource(show_spinner=False)
def settings() -> contract.Settings:
    """The settings in force when the server started."""
    return contract.load()


@st.cache_resource(show_spinner=False)
def known_roles() -> roles.Roles | None:
    """Who may do what, where signing in is set up."""
    file = settings().dashboard.oidc
    return None if file is None else roles.load_roles(file)


@st.cache_resource(show_spinner=False)
def database() -> Database:
    """One set of connections for all readers."""
    return Database(lambda: contract.endpoints(settings()).db_dashboard_url)


def tz() -> ZoneInfo:
    """The zone that times are shown in."""
    return ZoneInfo(settings().tz)


def mode() -> Mode:
    """The reader's theme."""
    return "dark" if st.context.theme.type == "dark" else "light"


def map_size(wide_px: int, high_px: int) -> tuple[int, int]:
    """Width that a map probably has, and height to give it, px: a phone says that it is one."""
    phone = "Mobile" in st.context.headers.get("User-Agent", "")
    return (PHONE_PX, min(high_px, PHONE_PX)) if phone else (wide_px, high_px)


def paused() -> bool:
    """Whether the reader holds the page still."""
    return bool(st.session_state.get(PAUSED, False))


def every(seconds: float | None = None) -> float | None:
    """Interval of a live part, s; none while paused."""
    return None if paused() else max(seconds or 0.0, settings().dashboard.refresh_s)


def outages() -> int:
    """How often this reader's session lost the database and found it again."""
    return int(st.session_state.get(OUTAGES, 0))


def roads(network: dict[str, Any]) -> list[Any]:
    """The road layer, where there are roads. Asked for anew after an outage: it may have failed."""
    if not network.get("version"):
        return []
    return [maps.roads(maps.road_address(f"{network['version']}-{outages()}"), mode())]


def ask(query: Query[P], *args: P.args, **kwargs: P.kwargs) -> pd.DataFrame | None:
    """The database's answer; the last one known while paused or while it is away; else None."""
    held: dict[str, pd.DataFrame] = st.session_state.setdefault(HELD, {})
    key = _key(query.__name__, args, kwargs)
    if paused() and key in held:
        return held[key]
    try:
        with database().connection() as connection:
            answer = query(connection, *args, **kwargs)
    except ServiceError as error:
        st.session_state[AWAY] = str(error)
        return held.get(key)
    if st.session_state.pop(AWAY, None) is not None:
        st.session_state[OUTAGES] = outages() + 1
    held.pop(key, None)
    held[key] = answer
    while len(held) > HELD_MOST:
        held.pop(next(iter(held)))
    return answer


def ask_slowly(query: Query[P], *args: P.args, **kwargs: P.kwargs) -> pd.DataFrame | None:
    """As ``ask``, but an answer is good for SLOW_S: for what reads an hour of windows."""
    asked: dict[str, float] = st.session_state.setdefault(ASKED, {})
    key = _key(query.__name__, args, kwargs)
    known = st.session_state.get(HELD, {}).get(key)
    if known is not None and time.monotonic() - asked.get(key, 0.0) < SLOW_S:
        return cast(pd.DataFrame, known)
    asked[key] = time.monotonic()
    return ask(query, *args, **kwargs)


def until_answered(query: Query[P], *args: P.args, **kwargs: P.kwargs) -> None:
    """Draw the page anew once the database answers this: for a part that is no live one."""

    def again() -> None:
        if ask(query, *args, **kwargs) is not None:
            st.rerun()

    if AWAY in st.session_state:
        st.fragment(again, run_every=settings().dashboard.refresh_s)()


def forget(*queries: Callable[..., pd.DataFrame]) -> None:
    """Let the answers of these queries be asked for anew, also while paused: something was done."""
    names = tuple(f"{query.__name__}(" for query in queries)
    held: dict[str, pd.DataFrame] = st.session_state.setdefault(HELD, {})
    for key in [key for key in held if key.startswith(names)]:
        del held[key]


def _key(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    return f"{name}{args}{sorted(kwargs.items())}"


def row(frame: pd.DataFrame | None) -> dict[str, Any] | None:
    """The first row, None for a missing value; None where there is no row."""
    if frame is None or frame.empty:
        return None
    first = frame.head(1).to_dict("records")[0]
    return {str(name): (None if text.missing(value) else value) for name, value in first.items()}


def header(title: str) -> None:
    """Title, how new the data is, and the pause switch."""
    _arrive()
    with st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center", key="headline"
    ):
        st.header(title, anchor=False, width="content")
        st.toggle(
            "Pause", key=PAUSED, persist_state="session", help="Hold all figures still; nothing is lost."
        )
    st.fragment(_status, run_every=every())()


def _status() -> None:
    """The line that every page has."""
    fresh = row(ask(fleet_queries.freshness))
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="status"):
        _badge()
        st.caption(status_line(fresh, tz()))
    if AWAY in st.session_state:
        shown = "Shown is what was known before." if fresh else "Nothing to show yet."
        message = text.plain(st.session_state[AWAY])
        st.warning(f"{message}. {shown} Trying again.", icon=":material/cloud_off:")


def _badge() -> None:
    if AWAY in st.session_state:
        st.badge("DATABASE AWAY", icon=":material/cloud_off:", color="red")
    elif paused():
        st.badge("PAUSED", icon=":material/pause:", color="orange")
    else:
        st.badge("LIVE", icon=":material/sensors:", color="green")
    runs = ask(fleet_queries.reading)
    if runs is not None and not runs.empty:
        words = reading_words(runs.to_dict("records"), tz())  # type: ignore[arg-type]
        st.badge(f"REPLAY {words}", icon=":material/replay:", color="violet")


def reading_words(runs: Sequence[dict[str, Any]], zone: ZoneInfo) -> str:
    """Which runs are read, and when; elsewhere the figures are those of the live jobs."""
    told = []
    for run in runs:
        since, until = (run[name].astimezone(zone) for name in ("since", "until"))
        whose = "" if run["vehicles"] is None else f", {len(run['vehicles'])} vehicles"
        told.append(f"{run['run_id']}: {since:%d %b %H:%M} to {until:%d %b %H:%M}{whose}")
    return "; ".join(told)


def status_line(fresh: dict[str, Any] | None, zone: ZoneInfo) -> str:
    """How new the data is, in words; plain text without device text."""
    if fresh is None:
        return "No connection to the database yet"
    if fresh["data_as_of"] is None:
        return "No data yet"
    now: datetime = fresh["now"]
    age = text.duration((now - fresh["data_as_of"]).total_seconds())
    mark = fresh["watermark"]
    behind = (
        "no watermark" if mark is None else f"watermark {text.duration((now - mark).total_seconds())} behind"
    )
    late = f"late frames {fresh['late_open']:,} open of {fresh['late_frames']:,}"
    return f"Data as of **{text.clock(fresh['data_as_of'], zone, now)}** ({age} ago) · {behind} · {late}"


def open_vehicle(vehicle_id: str) -> None:
    """Go to the page of one vehicle as a link would: the browser leaves this page and all it has drawn.

    Streamlit's own change of page lets late drawings of the old page's live parts reach the new one, which a
    busy machine turns into a white page. The pause goes along in the address.
    """
    open_page("vehicle", vehicle=vehicle_id)


def open_page(page: str, **parts: str) -> None:
    """Go to a page as ``open_vehicle`` does; ``parts`` are its filters."""
    address = f"{page}?" + urlencode(parts | ({PAUSED: "1"} if paused() else {}))
    st.html(f"<script>window.location.assign({json.dumps(address)})</script>", unsafe_allow_javascript=True)


def _arrive() -> None:
    """Take over the pause from the page that led here."""
    if st.query_params.pop(PAUSED, None) is not None:
        st.session_state[PAUSED] = True


def nothing(message: str) -> None:
    """Say that there is no data, which is not the same as zero."""
    st.info(message, icon=":material/hourglass_empty:")
