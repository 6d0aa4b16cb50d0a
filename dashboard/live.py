"""What the pages share: the database, pause, the header line, and answers that survive an outage."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import pandas as pd
import streamlit as st

from dashboard import fleet_queries, maps, roles, text
from dashboard.asking import (
    AWAY,
    PAUSED,
    RARE_S,
    SLOW_S,
    ask,
    ask_rarely,
    ask_slowly,
    every,
    forget,
    measures,
    outages,
    part,
    paused,
    settings,
    until_answered,
)
from dashboard.drawing import Drawing
from dashboard.palette import Mode
from dashboard.spans import QUIET

__all__ = [
    "AWAY",
    "PAUSED",
    "RARE_S",
    "SLOW_S",
    "ask",
    "ask_rarely",
    "ask_slowly",
    "every",
    "forget",
    "measures",
    "part",
    "paused",
    "settings",
    "until_answered",
]

PHONE_PX: Final = 360


@st.cache_resource(show_spinner=False)
def known_roles() -> roles.Roles | None:
    """Who may do what, where signing in is set up."""
    file = settings().dashboard.oidc
    return None if file is None else roles.load_roles(file)


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


def roads(network: dict[str, Any]) -> list[Any]:
    """The road layer, where there are roads. Asked for anew after an outage: it may have failed."""
    address = road_address(network)
    return [] if address is None else [maps.roads(address, mode())]


def road_address(network: dict[str, Any]) -> str | None:
    """Where the browser has the road rows from; another one after an outage."""
    return maps.road_address(f"{network['version']}-{outages()}") if network.get("version") else None


def row(frame: pd.DataFrame | None) -> dict[str, Any] | None:
    """The first row, None for a missing value; None where there is no row."""
    if frame is None or frame.empty:
        return None
    first = frame.head(1).to_dict("records")[0]
    return {str(name): (None if text.missing(value) else value) for name, value in first.items()}


def header(title: str, past: bool = False) -> None:
    """Title, how new the data is, and the pause switch. ``past``: the page plays a day again."""
    _arrive()
    with st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center", key="headline"
    ):
        st.header(title, anchor=False, width="content")
        st.toggle(
            "Pause", key=PAUSED, persist_state="session", help="Hold all figures still; nothing is lost."
        )

    def status() -> None:
        _status(past)

    part(status)


def _status(past: bool) -> None:
    """The line that every page has."""
    fresh = row(ask(fleet_queries.freshness))
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="status"):
        _badge(past, fresh)
        st.caption(status_line(fresh, tz()))
    if AWAY in st.session_state:
        shown = "Shown is what was known before." if fresh else "Nothing to show yet."
        message = text.plain(st.session_state[AWAY])
        st.warning(f"{message}. {shown} Trying again.", icon=":material/cloud_off:")


def _badge(past: bool, fresh: dict[str, Any] | None) -> None:
    if AWAY in st.session_state:
        st.badge("DATABASE AWAY", icon=":material/cloud_off:", color="red")
    elif past:
        st.badge("REPLAY", icon=":material/replay:", color="violet")
    elif paused():
        st.badge("PAUSED", icon=":material/pause:", color="orange")
    elif quiet(fresh):
        st.badge("LIVE, NO NEW DATA", icon=":material/sensors_off:", color="orange")
    else:
        st.badge("LIVE", icon=":material/sensors:", color="green")
    runs = ask(fleet_queries.reading)
    if runs is not None and not runs.empty:
        words = reading_words(runs.to_dict("records"), tz())  # type: ignore[arg-type]
        st.badge(f"REPLAY {words}", icon=":material/replay:", color="violet")


def quiet(fresh: dict[str, Any] | None) -> bool:
    """Whether nobody has reported for as long as makes a vehicle a silent one: green would say too much."""
    if fresh is None or fresh["data_as_of"] is None:
        return True
    return bool(fresh["now"] - fresh["data_as_of"] > QUIET)


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
    as_of = f"Data as of **{text.clock(fresh['data_as_of'], zone, now)}** ({age} ago)"
    return f"{as_of} · {behind} · {late} · times in {zone.key}"


def chart(drawing: Drawing, key: str) -> None:
    """Draw it over the width there is."""
    st.vega_lite_chart(drawing.rows, drawing.spec, key=key, alt=drawing.told)


def open_vehicle(vehicle_id: str) -> None:
    """Go to the page of one vehicle as a link would: the browser leaves this page and all it has drawn.

    Streamlit's own change of page lets late drawings of the old page's live parts reach the new one, which a
    busy machine turns into a white page. The pause goes along in the address.
    """
    open_page("vehicle", vehicle=vehicle_id)


def open_page(name: str, **wanted: str) -> None:
    """Go to a page with these words in its address, as ``open_vehicle`` does."""
    address = f"{name}?" + urlencode(wanted | ({PAUSED: "1"} if paused() else {}))
    st.html(f"<script>window.location.assign({json.dumps(address)})</script>", unsafe_allow_javascript=True)


def _arrive() -> None:
    """Take over the pause from the page that led here."""
    if st.query_params.pop(PAUSED, None) is not None:
        st.session_state[PAUSED] = True


def nothing(message: str) -> None:
    """Say that there is no data, which is not the same as zero."""
    st.info(message, icon=":material/hourglass_empty:")
