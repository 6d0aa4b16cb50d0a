"""Crash records: the vault. The list, one record opened below, and its bundle as evidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import streamlit as st

from dashboard import auth, routes
from dashboard.query_cache import SLOW_S, ask, until_answered
from dashboard.screens.crashes import charts, queries
from dashboard.screens.crashes.queries import Key
from dashboard.shared import live, maps, text
from dashboard.shared.text import tinted
from dashboard.shared.theme import SEVERITIES, TONES, rgba

LISTED, PICKED = "crash_list", "crash_picked"
RECORD: Final = "record"  # in the address: VEHICLE/BOOT/CRASH_ID, as `odograph crash` names a record
BESIDE_PX: Final = 240
FULL_PX: Final = 600
MAP_PX: Final = 300
ZOOM: Final = 15.0
SPOT_PX: Final = 9

Row = Mapping[str, Any]


def _chosen() -> Key | None:
    """The record of the address."""
    parts = st.query_params.get(RECORD, "").split("/", 2)
    if len(parts) != 3 or not parts[1].isdecimal() or len(parts[1]) > 18:
        return None
    return parts[0], int(parts[1]), parts[2]


def _filters() -> None:
    with live.toolbar():
        st.pills("Verdict", list(charts.VERDICT_SIGNS), key="verdict", bind="query-params")
        st.text_input("Vehicle", key="vehicle", bind="query-params", placeholder="all", width=200)


def _listing() -> None:
    """The records, the newest first; a row chosen is opened below."""
    if st.session_state.pop(PICKED, False):
        st.rerun()
    vehicle = (st.session_state.get("vehicle") or "").strip() or None
    found = ask(queries.crash_list, vehicle, st.session_state.get("verdict"))
    if found is None:
        return
    if found.empty:
        live.nothing("No crash record matches.")
        return
    keys = list(zip(found["vehicle_id"], found["boot_id"], found["crash_id"], strict=True))
    table_key = f"crashes_{hash(tuple(keys))}"  # another list is another table: no mark on the wrong row
    st.session_state[LISTED] = keys
    more = f"; the first {len(found)} are shown" if len(found) == queries.RECORD_LIMIT else ""
    many = "1 record" if len(found) == 1 else f"{len(found)} records"
    st.caption(f"{many}{more}. Click a row, or move with the arrow keys, to open it below.")
    table = live.made(charts.RECORDS, found)
    live.table(
        tinted(table, "Verdict", charts.VERDICT_COLOURS),
        table_key,
        "Crash records",
        {"%.0f": ("Delta-V, km/h",)},
        height=live.height(len(table), 6, BESIDE_PX if _chosen() else FULL_PX),
        on_select=lambda: _pick(table_key),
    )


def _pick(table_key: str) -> None:
    """A cell was chosen: its record goes into the address."""
    cell = live.clicked(st.session_state[table_key])
    keys: list[Key] = st.session_state[LISTED]
    if cell is not None and cell[0] < len(keys):
        st.query_params[RECORD] = "/".join(str(part) for part in keys[cell[0]])
        st.session_state[PICKED] = True


def _opened() -> None:
    """The record of the address, below the list: what matters most first."""
    key = _chosen()
    if key is None:
        if st.query_params.get(RECORD):
            st.warning("This address names no record.", icon=":material/link_off:")
        return
    rows = ask(queries.crash, *key)
    if rows is None:
        until_answered(queries.crash, *key)
        return
    if rows.empty:
        st.warning("There is no such crash record.", icon=":material/link_off:")
        return
    st.divider()
    found = maps.rows_of(rows)[0]
    _head(found)
    left, right = st.columns([1.35, 1], gap="large")
    with left:
        _after(key, found)
        _before(key)
    with right:
        _why(found)
        _place(found)
        st.subheader("Integrity", anchor=False)
        live.table(charts.integrity(found, live.tz()), "integrity")
        live.part(_custody, SLOW_S, key)
        _bundle(key)


def _head(found: Row) -> None:
    """What happened, in words and figures."""
    st.subheader(f"Crash of {found['vehicle_id']}", anchor=False)
    st.text(f"{charts.verdict(found['verdict'])} · record {found['crash_id']} · {found['profile']}")
    tiles = {
        "Time zero": text.clock(found["event_time"], live.tz(), live.now()),
        "Delta-V, largest": text.number(found["delta_v_max_kmh"], "km/h"),
        "Air bag": charts.BAGS.get(found["airbag_deployed"], text.NONE),
        "Belt": charts.ON.get(_content(found, "belt_on"), text.NONE),
        "Events": text.number(_number(found, "multi_event")),
        "Seal": "matches" if found["hash_ok"] else "BROKEN",
    }
    live.figures("figures_crash", tiles)
    if st.button("Open vehicle", icon=":material/directions_car:", key="to_vehicle"):
        live.open_vehicle(found["vehicle_id"])


def _content(found: Row, name: str) -> Any:
    """A word of the record as the vehicle sent it."""
    return found["record"].get(name) if isinstance(found["record"], dict) else None


def _number(found: Row, name: str) -> float | None:
    """A number of the record, else None: a vehicle may send anything."""
    value = _content(found, name)
    return float(value) if type(value) in (int, float) else None


def _after(key: Key, found: Row) -> None:
    """The delta-V curve, with when the air bag fired and when the largest change was reached."""
    st.subheader("Change of velocity after time zero", anchor=False)
    curve = ask(queries.delta_v, *key)
    if curve is None:
        return
    drawn = curve.dropna(subset=["t_ms"])
    if drawn[["delta_v_kmh", "delta_v_lat_kmh"]].notna().to_numpy().any():
        marks = {"air bag": _number(found, "airbag_ms"), "largest": _number(found, "delta_v_max_ms")}
        st.altair_chart(charts.delta_v(drawn, marks), key="delta_v")
    else:
        live.nothing("The record holds no delta-V curve.")


def _before(key: Key) -> None:
    """The seconds before time zero as charts and as a table."""
    samples = ask(queries.pre_crash, *key)
    if samples is None:
        return
    known = samples.dropna(subset=["t_ms"])
    if known.empty:
        st.subheader("Before time zero", anchor=False)
        live.nothing("The record holds no samples before time zero.")
        return
    seconds = -float(known["t_ms"].min()) / 1000
    st.subheader(f"The {seconds:.0f} s before time zero", anchor=False)
    for title, chart in charts.panels(known):
        st.markdown(f"**{title.capitalize()}**")
        st.altair_chart(chart, key=f"pre_{title}")
    with st.expander(f"All {len(known)} samples"):
        live.table(live.made(charts.PRE_CRASH, known), "pre_crash")


def _why(found: Row) -> None:
    """The verdict's reasons, and what is wrong with the record."""
    st.subheader("Verdict", anchor=False)
    final = "" if found["final"] is None else " · final" if found["final"] else " · not final yet"
    st.text(f"{charts.verdict(found['verdict'])}{final}")
    reasons = "\n".join(f"- {reason}" for reason in found["reasons"])
    st.text(reasons or "No verdict yet: it waits for telemetry.")
    if found["defects"]:
        live.table(charts.defects(found), "defects")


def _place(found: Row) -> None:
    """Where it happened: a ringed dot on the map."""
    st.subheader("Place", anchor=False)
    lat, lon = found["lat_deg"], found["lon_deg"]
    if lat is None or lon is None:
        live.nothing("The record holds no position.")
        return
    spot = maps.dot(
        [{"lon": lon, "lat": lat, "tip": f"{lat:.5f}, {lon:.5f}"}],
        "spot",
        get_radius=SPOT_PX,
        get_fill_color=list(rgba(SEVERITIES["CRITICAL"])),
        get_line_color=list(rgba(TONES[live.mode()].outline)),
        pickable=True,
    )
    live.draw_map([spot], maps.View(lat, lon, ZOOM), MAP_PX, "crash_map", "Map of the place")
    st.caption(f"{lat:.5f}, {lon:.5f} (WGS 84)")


def _custody(key: Key) -> None:
    """What was done with it, renewed: a bundle that leaves is an entry."""
    entries = ask(queries.custody, *key)
    if entries is None:
        return
    st.markdown("**Custody log**")
    live.table(live.made(charts.CUSTODY, entries), "custody")
    st.caption("Each entry holds the hash of the one before. The whole log: odograph crash verify")


def _bundle(key: Key) -> None:
    """The bundle, made when it is asked for; the custody log notes who took it."""
    st.subheader("Bundle", anchor=False)
    who = auth.reader()
    if not who.may("evidence"):
        st.caption(auth.why_not(who, "evidence"))
        return
    st.caption(
        "One zip with the record as received, tables, verdict, custody log and hashes; see its README.txt."
    )
    name = auth.name_field(who, "bundle_name")
    st.link_button(
        "Download the bundle",
        routes.bundle_address(key, name),
        icon=":material/download:",
        disabled=not name,
        help=None if name else "Give your name first: the custody log notes who takes a bundle.",
        key="bundle",
    )


live.header("Crashes")
_filters()
live.part(_listing)
_opened()
