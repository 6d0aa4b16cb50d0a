"""What the pages share on the screen: the header line, live parts, figures, tables, search, maps, links."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date, datetime
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Final
from urllib.parse import urlencode, urlsplit
from zoneinfo import ZoneInfo

import pandas as pd
import pydeck as pdk
import streamlit as st

from dashboard import auth, basemap, query_cache
from dashboard.db import P, Query
from dashboard.query_cache import PAUSED, VIEWED, ask, ask_rarely, away, outages, paused, settings
from dashboard.shared import downloads, maps, pictures, queries, text
from dashboard.shared.charts import Drawing
from dashboard.shared.text import Columns, Record
from dashboard.shared.theme import Mode
from infra.contract.errors import ServiceError
from stream_jobs.replay.runs import watched

Tint = tuple[str, Mapping[str, str]]  # a table's column whose cells have the colours of their words

PHONE_PX: Final = 360
REPORT_PATH: Final = "/report"
PICKED: Final = "row_picked"  # what chooses the row that was clicked
LEAVING: Final = "leaving_for"
LEAVE_S: Final = 20.0  # a browser that has not left by then was brought back by its reader
ROW_PX: Final = 36
ADDRESS: Final = {
    "trip_id": ("trips", "trip"), "alert_no": ("alerts", "alert"), "incident_no": ("alerts", "incident"),
    "record_name": ("crashes", "record"),
}  # fmt: skip
"""The page of a thing and what names it in the address, by the column that holds it."""
FOUND: Final[Columns] = {
    "Vehicle": "vehicle_id",
    "Model": ("model", text.known),
    "State": "state",
    "Severity": ("severity", text.severity),
}


class NoRowsError(Exception):
    """There is nothing to go on with: the section, else the live part, ends here."""


def tz() -> ZoneInfo:
    """The zone that times are shown in."""
    return ZoneInfo(settings().tz)


def now() -> pd.Timestamp:
    """This moment, UTC; of a replay its newest event time."""
    fresh = row(ask(queries.freshness)) if replayed() else None
    return pd.Timestamp.now(tz="UTC") if fresh is None else pd.Timestamp(fresh["now"])


def replayed() -> str | None:
    """The replay whose dashboard this is; None: that of the live jobs."""
    home = settings().paths.home
    return home.name if home.parent.name == "replays" else None


def mode() -> Mode:
    """The reader's theme."""
    return "dark" if st.context.theme.type == "dark" else "light"


def nothing(message: str) -> None:
    """Say that there is no data, which is not the same as zero."""
    st.info(message, icon=":material/hourglass_empty:")


def rows(found: pd.DataFrame | None, empty: str = "", say: Callable[[str], Any] = nothing) -> pd.DataFrame:
    """The rows of a query. Unknown ones end the section; so do none where ``empty`` is to say so."""
    if found is None:
        raise NoRowsError
    if empty and found.empty:
        say(empty)
        raise NoRowsError
    return found


def row(found: pd.DataFrame | None) -> Record | None:
    """The first row, None for a missing value; None where there is no row."""
    return None if found is None or found.empty else text.rows_of(found.head(1))[0]


def first(found: pd.DataFrame | None) -> Record:
    """The first row; none ends the section."""
    one = row(found)
    if one is None:
        raise NoRowsError
    return one


@contextmanager
def section(title: str = "") -> Iterator[None]:
    """A piece of a part under its title: what follows it is drawn though it ends early."""
    if title:
        st.subheader(title, anchor=False)
    try:
        yield
    except NoRowsError:
        return


def part(body: Callable[..., None], seconds: float | None = None, *args: Any, still: bool = False) -> None:
    """Draw a live part, now and again every ``seconds`` (a refresh at least); how long it took is measured.

    ``args`` are the body's. ``still``: what it draws does not change any more, so only a click draws it anew.
    """
    file = Path(body.__code__.co_filename)
    body_name = body.__name__.strip("_")
    name = f"{file.parent.name if file.stem == 'page' else file.stem}.{body_name}"
    every_s = None if still or paused() else max(seconds or 0.0, settings().dashboard.refresh_s)

    def timed() -> None:
        if _left():
            return
        if auth.ended():
            _leave("window.location.reload()")
            _left()
            st.stop()
        with query_cache.measures().part_s.labels(name).time(), section():
            body(*args)

    timed.__qualname__ = timed.__name__ = body_name  # Streamlit tells fragments apart by their names
    st.fragment(timed, run_every=every_s)()


def header(title: str, past: bool = False) -> None:
    """Title, how new the data is, and the pause switch. ``past``: the page plays a day again."""
    st.session_state.pop(VIEWED, None)
    st.session_state.pop(query_cache.TOO_SLOW, None)  # what other pages asked
    if st.query_params.pop(PAUSED, None) is not None:  # taken over from the page that led here
        st.session_state[PAUSED] = True
    spread: Any = {"horizontal_alignment": "distribute", "vertical_alignment": "center"}
    with st.container(horizontal=True, key="headline", **spread):
        st.header(title, anchor=False, width="content")
        hint = "Hold all figures still; nothing is lost."
        st.toggle("Pause", key=PAUSED, persist_state="session", help=hint)

    def status() -> None:
        fresh, runs = row(ask(queries.freshness)), ask(queries.promoted_runs)
        # LIVE is green only while somebody has reported within the time that makes a vehicle silent
        as_of = None if fresh is None else fresh["data_as_of"]
        quiet = fresh is not None and (as_of is None or fresh["now"] - as_of > queries.QUIET)
        states: list[tuple[bool, str, str, Any]] = [
            (away(), "DATABASE AWAY", "cloud_off", "red"),
            (past, "REPLAY", "replay", "violet"),
            (paused(), "PAUSED", "pause", "orange"),
            (replayed() is not None, f"REPLAY {replayed()}", "replay", "violet"),
            (fresh is None, "NOT KNOWN", "help", "gray"),
            (quiet, "LIVE, NO NEW DATA", "sensors_off", "orange"),
            (True, "LIVE", "sensors", "green"),
        ]
        _, words, icon, colour = next(state for state in states if state[0])
        with st.container(horizontal=True, vertical_alignment="center", gap="small", key="status"):
            st.badge(words, icon=f":material/{icon}:", color=colour)
            if runs is not None and not runs.empty:
                words = promoted_words(text.rows_of(runs), tz())
                st.badge(f"REPLAY {words}", icon=":material/replay:", color="violet")
            for run_id, address in watched(settings()).items():
                st.markdown(f":violet-badge[:material/replay: [REPLAY {run_id} is running]({address})]")
            st.caption(status_line(fresh, tz()))
        if away():
            shown = "Shown is what was known before." if fresh else "Nothing to show yet."
            message = text.plain(st.session_state[query_cache.AWAY])
            st.warning(f"{message}. {shown} Trying again.", icon=":material/cloud_off:")
        elif slow := sorted(query_cache.too_slow()):
            words = f"Took too long: {', '.join(slow)}. Shown is what was known before, where anything was."
            st.warning(f"{words} Trying again within half a minute.", icon=":material/hourglass_empty:")

    part(status)


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
        return "How new the data is is not known yet"
    if fresh["data_as_of"] is None:
        return "No data yet"
    at: datetime = fresh["now"]
    age, behind = (
        None if fresh[name] is None else text.duration((at - fresh[name]).total_seconds())
        for name in ("data_as_of", "watermark")
    )
    return text.joined(
        f"Data as of **{text.clock(fresh['data_as_of'], zone, at)}** ({age} ago)",
        f"watermark {behind} behind" if behind else "no watermark",
        f"late frames {fresh['late_frames']:,} in 24 h, {fresh['late_open']:,} not repaired",
        f"times in {zone.key}",
    )


def toolbar() -> Any:
    """The row of a page's filters."""
    return st.container(horizontal=True, vertical_alignment="bottom", gap="medium", key="toolbar")


def choice(label: str, options: Iterable[str], key: str, default: str | None = None, **more: Any) -> str:
    """One of several, the first or ``default`` unless the address says another; kept in the address."""
    listed = list(options)
    more |= {"default": default or listed[0], "required": True, "bind": "query-params"}
    return str(st.segmented_control(label, listed, key=key, **more))


def day(label: str, default: date | None, key: str, **more: Any) -> date | None:
    """A day, kept in the address; None: none is chosen."""
    picked = st.date_input(label, value=default, key=key, bind="query-params", width=160, **more)
    return picked if isinstance(picked, date) else None


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
    found: pd.DataFrame,
    columns: Columns | None,
    key: str,
    alt: str | None = None,
    tint: Tint | None = None,
    looks: Mapping[str, Any] | None = None,
    data: downloads.Rows | None = None,
    most: int | None = None,
    **options: Any,
) -> None:
    """Rows in these columns (None: as they are), in the reader's zone.

    ``looks``: columns' number formats, or what Streamlit takes for them, besides those that ``columns`` has.
    ``data``: what is downloaded, where it is not ``found``. ``most``: so many rows high; fewer need no more.
    """
    if most is not None:
        options["height"] = "content" if len(found) <= most else ROW_PX * (most + 1)
    drawn, shown = dict(looks or {}), found
    if columns is not None:
        shown = text.table(found, columns, tz(), now())
        drawn |= {name: of[2] for name, of in columns.items() if isinstance(of, tuple) and len(of) == 3}
    st.dataframe(
        shown if tint is None else text.tinted(shown, *tint),
        hide_index=True,
        placeholder=text.NONE,
        key=key,
        alt=alt,
        column_config={
            name: st.column_config.NumberColumn(format=look) if isinstance(look, str) else look
            for name, look in drawn.items()
        },
        **options,
    )
    st.html(downloads.links(key, alt or key, found if data is None else data))


def listed(
    title: str, found: pd.DataFrame | None, empty: str, columns: Columns | None, key: str, **options: Any
) -> None:
    """A table under its title; the words ``empty``, if any, in its place; nothing while it is not known."""
    if found is not None and (empty or not found.empty):
        with section(title):
            table(rows(found, empty, st.caption), columns, key, **options)


def linked(query: Query[P], what: str, gone: str, *args: P.args, **kwargs: P.kwargs) -> Record:
    """The row that the address names, for a piece of a page that is no live part; else ends, and says why.

    ``what`` it is: so the log has it, where it is not the reader's to see.
    """
    found = ask(query, *args, **kwargs)

    def again() -> None:
        if ask(query, *args, **kwargs) is not None:
            st.rerun()

    if found is None:
        st.fragment(again, run_every=settings().dashboard.refresh_s)()
    elif found.empty:
        st.warning(gone, icon=":material/link_off:")
        auth.page_not_theirs(what, (args, kwargs))
    return first(found)


def open_list(
    found: pd.DataFrame,
    columns: Columns,
    key: str,
    alt: str,
    choose: Callable[[int], None],
    anew: bool = True,
    **options: Any,
) -> None:
    """A table; a row, as drawn, chosen by mouse or arrow keys goes to ``choose``.

    ``anew``: the whole page is drawn then.
    """

    def taken() -> None:
        cells = st.session_state[key]["selection"]["cells"]
        if cells and cells[0][0] < len(found):
            choose(cells[0][0])
            if anew:
                st.session_state[PICKED] = partial(choose, cells[0][0])

    table(found, columns, key, alt, on_select=taken, selection_mode="single-cell", **options)


def say_listed(found: pd.DataFrame, what: str, most: int) -> None:
    """Say above a list how many there are, and how one is opened."""
    more = f"; the first {len(found)} are shown" if len(found) == most else ""
    how = "Click a row, or move with the arrow keys, to open it below."
    st.caption(f"{text.counted(len(found), what)}{more}. {how}")


def leading(found: pd.DataFrame, columns: Columns, key: str, alt: str, named: str, **options: Any) -> None:
    """A table whose rows lead to a page by the value of the column ``named``, one of ADDRESS."""
    page, word = ADDRESS[named]

    def lead(place: int) -> None:
        _lead(page, **{word: str(found[named].iloc[place])})

    open_list(found, columns, key, alt, lead, anew=False, **options)


def renew() -> None:
    """At the begin of a part: the whole page anew, where a row was chosen or somebody asked for it."""
    if _choose():
        st.rerun()


def _choose() -> bool:
    """Make a choice once more, if there was one since the page was drawn.

    Another part's timer may have brought it first, and what runs now may come from a browser that knew
    nothing yet of the address that the choice led to.
    """
    choose = st.session_state.pop(PICKED, None)
    if choose is not None:
        choose()
    return choose is not None


def search(pick: Callable[[str], None]) -> None:
    """Vehicles by a part of their id or model; a click on one picks it."""
    _choose()  # the whole page is being drawn
    hint: Any = {"placeholder": "Part of its id or model", "bind": "query-params"}
    words = st.text_input("Find a vehicle", key="find", **hint).strip()
    if not words:
        return
    with section():
        found = rows(ask(queries.find_vehicles, words), "No vehicle has this in its id or model.", st.caption)
        clickable(found, FOUND, "found", "Vehicles found", pick, most=5)
        say_more(found)


def say_more(found: pd.DataFrame) -> None:
    """Say so where more vehicles than these may have the words."""
    if len(found) == queries.FOUND_LIMIT:
        st.caption(f"The first {len(found)}: say more of it.")


def clickable(
    found: pd.DataFrame,
    columns: Columns,
    key: str,
    alt: str,
    pick: Callable[[str], None],
    **options: Any,
) -> None:
    """A table of vehicles; a click on a cell picks the vehicle of its row."""
    options |= {"tint": text.BY_SEVERITY}
    open_list(found, columns, key, alt, lambda place: pick(str(found["vehicle_id"].iloc[place])), **options)


def chart(drawing: Drawing, key: str) -> None:
    """Draw it over the width there is."""
    st.vega_lite_chart(drawing.rows, drawing.spec, key=key, alt=drawing.alt)
    zone = tz()
    st.html(downloads.links(key, drawing.alt, lambda: downloads.of_chart(drawing, zone)))


def network() -> Record:
    """The road network's extent and version; empty: not known."""
    return row(ask_rarely(queries.road_networks)) or {}


def road_address() -> str | None:
    """Where the browser has the road rows from and may keep them: another one when they have changed, and
    after an outage, when it may have failed.
    """
    version = network().get("version")
    return f"{maps.ROADS_PATH}?{urlencode({'v': f'{version}-{outages()}'})}" if version else None


def map_size(wide_px: int, high_px: int) -> tuple[int, int]:
    """Width that a map probably has, and height to give it, px: a phone says that it is one."""
    phone = "Mobile" in st.context.headers.get("User-Agent", "")
    return (PHONE_PX, min(high_px, PHONE_PX)) if phone else (wide_px, high_px)


def draw_map(
    layers: Sequence[pdk.Layer], view: maps.View, high_px: int, key: str, alt: str,
    data: pd.DataFrame | None = None, **options: Any,
) -> Any:  # fmt: skip
    """A map of these layers over the roads, with its rows as files; the event of what is chosen on it."""
    address = road_address()
    roads = [] if address is None else [maps.roads(address, mode())]
    deck = maps.deck([*roads, *layers], view, basemap.address(ground()))
    chosen = st.pydeck_chart(deck, height=map_size(0, high_px)[1], key=key, alt=alt, **options)
    name_ground()
    if data is not None:
        st.html(downloads.links(key, alt, data))
    return chosen


def judged(found: pd.DataFrame) -> pd.DataFrame:
    """Cells or edges of traffic with what each speed is judged by, free flow where that is known."""
    known: maps.Limits = {}
    if "cell" in found and bool(found["free_flow_kmh"].isna().any()):
        with suppress(ServiceError):  # known with a later drawing
            known = limits(network().get("version"))
    return maps.judged(found, known)


@st.cache_resource(max_entries=2, show_spinner=False)
def limits(version: str | None) -> maps.Limits:  # noqa: ARG001  what they are kept by
    """By place, of a version of the road network, for all readers. Raises ServiceError: that is not kept."""
    return maps.limits_of(query_cache.ask_for_all(queries.road_edges, query_cache.RARE_S))


def bands(found: pd.DataFrame, first_at: datetime | None = None) -> None:
    """The legend of judged traffic: by what; with the begin of all traffic, how much free flow is missing."""
    bases = [basis for basis in maps.BASES if (found["basis"] == basis).any()] or [maps.FREE]
    st.html(pictures.congestion(bases, "too few vehicles to tell"))
    learning = "" if first_at is None else maps.learning(found, first_at, settings().roads, now())
    if learning:
        st.caption(learning)


def ground() -> str | Record:
    """The style of what maps stand on, in the reader's theme."""
    here = urlsplit(st.context.url or "")
    return basemap.style(basemap.current(), mode(), f"{here.scheme}://{here.netloc}")


def name_ground() -> None:
    """Under a map: whose basemap it is, or why that of the settings is not shown."""
    base = basemap.current()
    if base.problem:
        st.warning(text.plain(base.problem), icon=":material/map:")
    elif base.attribution:
        st.caption(text.plain(base.attribution))


def kept_view(key: str, what: Any, find: Callable[[], maps.View | None]) -> maps.View:
    """Where a map looks first: found once for ``what`` it shows, then kept: a reader's place stays."""
    kept: tuple[Any, maps.View | None] = st.session_state.get(key, (None, None))
    view = kept[1] if kept[0] == what else None
    if view is None:
        view = find()
        if view is None:
            return maps.WORLD
        st.session_state[key] = (what, view)
    return view


def open_page(name: str, **wanted: str) -> None:
    """Go to a page with these words in its address as a link would: the browser leaves all it has drawn.

    The pause goes along in the address.
    """
    _lead(name, **wanted)
    _left()


def _lead(name: str, **wanted: str) -> None:
    address = f"{name}?" + urlencode(wanted | ({PAUSED: "1"} if paused() else {}))
    _leave(f"window.location.assign({json.dumps(address)})")


def _leave(javascript: str) -> None:
    """Have the browser leave the page by this, from the next drawing on.

    Streamlit's own way to a page of other parts lets late drawings of the old page's live parts reach the new
    one, which a busy machine turns into a white page. Until the browser has left, all that is drawn says so
    again: a slow one never sees what the next drawing takes away.
    """
    st.session_state[LEAVING] = f"<script>{javascript}</script>", monotonic() + LEAVE_S


def _left() -> bool:
    """Say to the browser where to go, if it is about to leave."""
    script, until_s = st.session_state.get(LEAVING, ("", 0.0))
    leaves: bool = monotonic() < until_s
    if leaves:
        st.html(script, unsafe_allow_javascript=True)
    return leaves


def vehicle_button(label: str, vehicle_id: str, **options: Any) -> None:
    """A button that leads to the page of one vehicle."""
    if st.button(label, **({"icon": ":material/directions_car:"} | options)):
        open_page("vehicle", vehicle=vehicle_id)


def report_button(day: date | None = None, vehicle_id: str | None = None) -> None:
    """A button that opens the report of a day (today) of the fleet or one vehicle, in a tab of its own."""
    whose = {"vehicle": vehicle_id} if vehicle_id else {}
    asked = urlencode({"day": str(day or now().tz_convert(tz()).date())} | whose)
    st.link_button("Day's report", f"{REPORT_PATH}?{asked}", icon=":material/description:")
