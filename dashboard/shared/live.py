"""What the pages share on the screen: the header line, live parts, figures, tables, search, maps, links."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import pandas as pd
import pydeck as pdk
import streamlit as st
from pandas.io.formats.style import Styler

from dashboard.query_cache import AWAY, PAUSED, ask, ask_rarely, away, measures, outages, paused, settings
from dashboard.shared import maps, queries, text
from dashboard.shared.charts import Drawing
from dashboard.shared.theme import Mode

Make = text.Columns | Callable[[pd.DataFrame, ZoneInfo, pd.Timestamp], pd.DataFrame]
Pick = Callable[[str], None]
Cell = tuple[int, str]
"""Row and column that were clicked."""
Height = int | Literal["content", "auto"]

PHONE_PX: Final = 360
TAKEN: Final = "cells_taken"
FOUND_ROWS: Final = 5
ROW_PX: Final = 36


def tz() -> ZoneInfo:
    """The zone that times are shown in."""
    return ZoneInfo(settings().tz)


def now() -> pd.Timestamp:
    """This moment, UTC."""
    return pd.Timestamp.now(tz="UTC")


def mode() -> Mode:
    """The reader's theme."""
    return "dark" if st.context.theme.type == "dark" else "light"


def row(frame: pd.DataFrame | None) -> dict[str, Any] | None:
    """The first row, None for a missing value; None where there is no row."""
    return None if frame is None or frame.empty else maps.rows_of(frame.head(1))[0]


def part(body: Callable[..., None], seconds: float | None = None, *args: Any, still: bool = False) -> None:
    """Draw a live part, now and again every ``seconds`` (a refresh at least); how long it took is measured.

    ``args`` are the body's. ``still``: what it draws does not change any more, so only a click draws it anew.
    """
    file = Path(body.__code__.co_filename)
    body_name = body.__name__.strip("_")
    name = f"{file.parent.name if file.stem == 'page' else file.stem}.{body_name}"
    every_s = None if still or paused() else max(seconds or 0.0, settings().dashboard.refresh_s)

    def timed() -> None:
        with measures().part_s.labels(name).time():
            body(*args)

    timed.__qualname__ = timed.__name__ = body_name  # Streamlit tells fragments apart by their names
    st.fragment(timed, run_every=every_s)()


def header(title: str, past: bool = False) -> None:
    """Title, how new the data is, and the pause switch. ``past``: the page plays a day again."""
    if st.query_params.pop(PAUSED, None) is not None:  # taken over from the page that led here
        st.session_state[PAUSED] = True
    with st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center", key="headline"
    ):
        st.header(title, anchor=False, width="content")
        st.toggle(
            "Pause", key=PAUSED, persist_state="session", help="Hold all figures still; nothing is lost."
        )

    def status() -> None:
        fresh = row(ask(queries.freshness))
        with st.container(horizontal=True, vertical_alignment="center", gap="small", key="status"):
            _badge(past, fresh)
            st.caption(status_line(fresh, tz()))
        if away():
            shown = "Shown is what was known before." if fresh else "Nothing to show yet."
            message = text.plain(st.session_state[AWAY])
            st.warning(f"{message}. {shown} Trying again.", icon=":material/cloud_off:")

    part(status)


def _badge(past: bool, fresh: dict[str, Any] | None) -> None:
    """LIVE is green only while somebody has reported within the time that makes a vehicle silent."""
    as_of = None if fresh is None else fresh["data_as_of"]
    if away():
        st.badge("DATABASE AWAY", icon=":material/cloud_off:", color="red")
    elif past:
        st.badge("REPLAY", icon=":material/replay:", color="violet")
    elif paused():
        st.badge("PAUSED", icon=":material/pause:", color="orange")
    elif fresh is None or as_of is None or fresh["now"] - as_of > queries.QUIET:
        st.badge("LIVE, NO NEW DATA", icon=":material/sensors_off:", color="orange")
    else:
        st.badge("LIVE", icon=":material/sensors:", color="green")
    runs = ask(queries.promoted_runs)
    if runs is not None and not runs.empty:
        words = promoted_words(maps.rows_of(runs), tz())
        st.badge(f"REPLAY {words}", icon=":material/replay:", color="violet")


def promoted_words(runs: Sequence[Mapping[str, Any]], zone: ZoneInfo) -> str:
    """Which runs are read, and when; elsewhere the figures are those of the live jobs."""
    words = []
    for run in runs:
        since, until = (run[name].astimezone(zone) for name in ("since", "until"))
        whose = "" if run["vehicles"] is None else f", {len(run['vehicles'])} vehicles"
        words.append(f"{run['run_id']}: {since:%d %b %H:%M} to {until:%d %b %H:%M}{whose}")
    return "; ".join(words)


def status_line(fresh: dict[str, Any] | None, zone: ZoneInfo) -> str:
    """How new the data is, in words; plain text without device text."""
    if fresh is None:
        return "No connection to the database yet"
    if fresh["data_as_of"] is None:
        return "No data yet"
    at: datetime = fresh["now"]
    age = text.duration((at - fresh["data_as_of"]).total_seconds())
    mark = fresh["watermark"]
    behind = (
        "no watermark" if mark is None else f"watermark {text.duration((at - mark).total_seconds())} behind"
    )
    late = f"late frames {fresh['late_open']:,} open of {fresh['late_frames']:,}"
    as_of = f"Data as of **{text.clock(fresh['data_as_of'], zone, at)}** ({age} ago)"
    return f"{as_of} · {behind} · {late} · times in {zone.key}"


def toolbar() -> Any:
    """The row of a page's filters."""
    return st.container(horizontal=True, vertical_alignment="bottom", gap="medium", key="toolbar")


def choice(label: str, options: Iterable[str], key: str, first: str | None = None, **more: Any) -> str:
    """One of several, the first or ``first`` unless the address says another; kept in the address."""
    listed = list(options)
    chosen = st.segmented_control(
        label, listed, default=first or listed[0], required=True, key=key, bind="query-params", **more
    )
    return str(chosen)


def figures(
    key: str,
    tiles: Mapping[str, str],
    always: Collection[str] | None = None,
    border: bool = True,
    helps: Mapping[str, str] | None = None,
) -> None:
    """Figures in a grid; of those not named in ``always`` (None: all are) only the ones with a value."""
    with st.container(key=key):
        for label, value in tiles.items():
            if always is None or label in always or value != text.NONE:
                st.metric(label, value, border=border, help=(helps or {}).get(label))


def table(
    rows: pd.DataFrame | Styler,
    key: str,
    alt: str | None = None,
    formats: Mapping[str, Iterable[str]] | None = None,
    columns: Mapping[str, Any] | None = None,
    **options: Any,
) -> Cell | None:
    """A table; ``formats``: number formats with their columns. With ``on_select``: the clicked cell."""
    numbers = {
        name: st.column_config.NumberColumn(format=form)
        for form, names in (formats or {}).items()
        for name in names
    }
    if "on_select" in options:
        options["selection_mode"] = "single-cell"
    event = st.dataframe(
        rows,
        hide_index=True,
        placeholder=text.NONE,
        key=key,
        alt=alt,
        column_config=numbers | dict(columns or {}),
        **options,
    )
    return clicked(event) if "on_select" in options else None


def listed(
    title: str,
    found: pd.DataFrame | None,
    empty: str,
    make: Make,
    key: str,
    tint: Callable[[pd.DataFrame], Styler] | None = None,
    **options: Any,
) -> Cell | None:
    """A table under its title, made of rows for the reader's zone; the words ``empty`` in its place."""
    if found is None:
        return None
    st.subheader(title, anchor=False)
    if found.empty:
        st.caption(empty)
        return None
    rows = made(make, found)
    return table(rows if tint is None else tint(rows), key, **options)


def made(make: Make, found: pd.DataFrame) -> pd.DataFrame:
    """Rows as a table's columns, or its function, have them, in the reader's zone."""
    return make(found, tz(), now()) if callable(make) else text.table(found, make, tz(), now())


def clicked(event: Any) -> Cell | None:
    """The cell that is chosen in a table's event or state."""
    cells = event["selection"]["cells"]
    return tuple(cells[0]) if cells else None


def height(rows: int, most: int, high_px: int) -> Height:
    """Of a table: its content's, up to ``most`` rows."""
    return "content" if rows <= most else high_px


def search(pick: Pick) -> None:
    """Vehicles by a part of their id or model; a click on one picks it."""
    words = st.text_input(
        "Find a vehicle", key="find", placeholder="Part of its id or model", bind="query-params"
    ).strip()
    found = ask(queries.find_vehicles, words) if words else None
    if found is None:
        return
    if found.empty:
        st.caption("No vehicle has this in its id or model.")
        return
    columns = {
        "Vehicle": found["vehicle_id"],
        "Model": found["model"].fillna(text.NONE),
        "State": found["state"],
        "Severity": found["severity"].map(text.severity),
    }
    clickable(pd.DataFrame(columns), "found", FOUND_ROWS, "Vehicles found", pick)
    if len(found) == queries.FOUND_LIMIT:
        st.caption(f"The first {len(found)}: say more of it.")


def clickable(found: pd.DataFrame, key: str, rows: int, alt: str, pick: Pick) -> None:
    """A table with a column Vehicle; a click on a cell picks the vehicle of its row, once."""
    high = height(len(found), rows, ROW_PX * (rows + 1))
    cell = table(text.tinted(found), key, alt, height=high, on_select="rerun")
    taken: dict[str, Cell | None] = st.session_state.setdefault(TAKEN, {})
    if cell == taken.get(key):
        return
    taken[key] = cell
    if cell is not None:
        pick(str(found["Vehicle"].iloc[cell[0]]))
        st.rerun()


def chart(drawing: Drawing, key: str) -> None:
    """Draw it over the width there is."""
    st.vega_lite_chart(drawing.rows, drawing.spec, key=key, alt=drawing.alt)


def network() -> dict[str, Any]:
    """The road network's extent and version; empty: not known."""
    return row(ask_rarely(queries.road_networks)) or {}


def road_address(roads: Mapping[str, Any]) -> str | None:
    """Where the browser has the road rows from; another one after an outage, when it may have failed."""
    return maps.road_address(f"{roads['version']}-{outages()}") if roads.get("version") else None


def map_size(wide_px: int, high_px: int) -> tuple[int, int]:
    """Width that a map probably has, and height to give it, px: a phone says that it is one."""
    phone = "Mobile" in st.context.headers.get("User-Agent", "")
    return (PHONE_PX, min(high_px, PHONE_PX)) if phone else (wide_px, high_px)


def draw_map(
    layers: Sequence[pdk.Layer], view: maps.View, high_px: int, key: str, alt: str, **options: Any
) -> Any:
    """A map of these layers over the roads; the event of what is chosen on it."""
    address = road_address(network())
    roads = [] if address is None else [maps.roads(address, mode())]
    deck = maps.deck([*roads, *layers], view, mode())
    return st.pydeck_chart(deck, height=map_size(0, high_px)[1], key=key, alt=alt, **options)


def open_page(name: str, **wanted: str) -> None:
    """Go to a page with these words in its address as a link would: the browser leaves all it has drawn.

    Streamlit's own change of page lets late drawings of the old page's live parts reach the new one, which a
    busy machine turns into a white page. The pause goes along in the address.
    """
    address = f"{name}?" + urlencode(wanted | ({PAUSED: "1"} if paused() else {}))
    st.html(f"<script>window.location.assign({json.dumps(address)})</script>", unsafe_allow_javascript=True)


def open_vehicle(vehicle_id: str) -> None:
    """Go to the page of one vehicle."""
    open_page("vehicle", vehicle=vehicle_id)


def nothing(message: str) -> None:
    """Say that there is no data, which is not the same as zero."""
    st.info(message, icon=":material/hourglass_empty:")
