"""Crash records: the vault. The list, one record opened below, and its bundle as evidence."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd
import streamlit as st

from dashboard import auth, routes
from dashboard.query_cache import SLOW_S, ask, until_answered
from dashboard.screens.crashes import charts, queries
from dashboard.screens.crashes.queries import Key
from dashboard.shared import live, maps, text
from dashboard.shared.text import Record
from dashboard.shared.theme import SEVERITIES, TONES, rgba

LISTED, PICKED = "crash_list", "crash_picked"
RECORD: Final = "record"  # in the address: VEHICLE/BOOT/CRASH_ID, as `odograph crash` names a record
BESIDE_PX: Final = 240
FULL_PX: Final = 600
MAP_PX: Final = 300
ZOOM: Final = 15.0
SPOT_PX: Final = 9


def _chosen() -> Key | None:
    """The record of the address."""
    parts = st.query_params.get(RECORD, "").split("/", 2)
    if len(parts) != 3 or not parts[1].isdecimal() or len(parts[1]) > 18:
        return None
    return parts[0], int(parts[1]), parts[2]


def _listing() -> None:
    """The records, the newest first; a row chosen is opened below."""
    state = st.session_state
    if state.pop(PICKED, False):
        st.rerun()
    wanted = ((state.get("vehicle") or "").strip() or None, state.get("verdict"))
    found = live.rows(ask(queries.crash_list, *wanted), "No crash record matches.")
    keys = list(zip(found["vehicle_id"], found["boot_id"], found["crash_id"], strict=True))
    table_key = f"crashes_{hash(tuple(keys))}"  # another list is another table: no mark on the wrong row
    state[LISTED] = keys
    more = f"; the first {len(found)} are shown" if len(found) == queries.RECORD_LIMIT else ""
    many = "1 record" if len(found) == 1 else f"{len(found)} records"
    st.caption(f"{many}{more}. Click a row, or move with the arrow keys, to open it below.")
    high = live.height(len(found), 6, BESIDE_PX if _chosen() else FULL_PX)
    look: Any = {"height": high, "on_select": lambda: _pick(table_key)}
    live.table(found, charts.RECORDS, table_key, "Crash records", charts.BY_VERDICT, **look)


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
    found = live.first(rows)
    _head(found)
    left, right = st.columns([1.35, 1], gap="large")
    with left:
        with live.section("Change of velocity after time zero"):
            _after(key, found)
        with live.section():
            _before(key)
    with right:
        _why(found)
        with live.section("Place"):
            _place(found)
        st.subheader("Integrity", anchor=False)
        live.table(charts.integrity(found, live.tz()), None, "integrity")
        live.part(_custody, SLOW_S, key)
        _bundle(key)


def _head(found: Record) -> None:
    """What happened, in words and figures."""
    st.subheader(f"Crash of {found['vehicle_id']}", anchor=False)
    st.text(f"{charts.verdict(found['verdict'])} · record {found['crash_id']} · {found['profile']}")
    belt = found["record"].get("belt_on") if isinstance(found["record"], dict) else None
    tiles = {
        "Time zero": text.clock(found["event_time"], live.tz(), live.now()),
        "Delta-V, largest": text.number(found["delta_v_max_kmh"], "km/h"),
        "Air bag": charts.BAGS.get(found["airbag_deployed"], text.NONE),
        "Belt": charts.ON.get(belt, text.NONE) if isinstance(belt, bool) else text.NONE,
        "Events": text.number(_number(found, "multi_event")),
        "Seal": "matches" if found["hash_ok"] else "BROKEN",
    }
    live.figures("figures_crash", tiles)
    live.vehicle_button("Open vehicle", found["vehicle_id"], key="to_vehicle")


def _number(found: Record, name: str) -> float | None:
    """A number of the record as the vehicle sent it, else None: it may send anything."""
    value = found["record"].get(name) if isinstance(found["record"], dict) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _after(key: Key, found: Record) -> None:
    """The delta-V curve, with when the air bag fired and when the largest change was reached."""
    curve = live.rows(ask(queries.delta_v, *key)).dropna(subset=["t_ms"])
    if curve[["delta_v_kmh", "delta_v_lat_kmh"]].notna().to_numpy().any():
        marks = {"air bag": _number(found, "airbag_ms"), "largest": _number(found, "delta_v_max_ms")}
        live.chart(charts.delta_v(curve, marks), "delta_v")
    else:
        live.nothing("The record holds no delta-V curve.")


def _before(key: Key) -> None:
    """The seconds before time zero as charts and as a table."""
    known = live.rows(ask(queries.pre_crash, *key)).dropna(subset=["t_ms"])
    if known.empty:
        st.subheader("Before time zero", anchor=False)
        live.nothing("The record holds no samples before time zero.")
        return
    seconds = -float(known["t_ms"].min()) / 1000
    st.subheader(f"The {seconds:.0f} s before time zero", anchor=False)
    for title, drawn in charts.panels(known):
        st.markdown(f"**{title.capitalize()}**")
        live.chart(drawn, f"pre_{title}")
    with st.expander(f"All {len(known)} samples"):
        live.table(known, charts.PRE_CRASH, "pre_crash")


def _why(found: Record) -> None:
    """The verdict's reasons, and what is wrong with the record."""
    st.subheader("Verdict", anchor=False)
    final = "" if found["final"] is None else " · final" if found["final"] else " · not final yet"
    st.text(f"{charts.verdict(found['verdict'])}{final}")
    reasons = "\n".join(f"- {reason}" for reason in found["reasons"])
    st.text(reasons or "No verdict yet: it waits for telemetry.")
    if found["defects"]:
        live.table(pd.DataFrame(found["defects"]), charts.DEFECTS, "defects")


def _place(found: Record) -> None:
    """Where it happened: a ringed dot on the map."""
    lat, lon = found["lat_deg"], found["lon_deg"]
    if lat is None or lon is None:
        live.nothing("The record holds no position.")
        return
    fill, rim = (list(rgba(c)) for c in (SEVERITIES["CRITICAL"], TONES[live.mode()].outline))
    look: Any = {"get_radius": SPOT_PX, "get_fill_color": fill, "get_line_color": rim, "pickable": True}
    spot = maps.dot([{"lon": lon, "lat": lat, "tip": f"{lat:.5f}, {lon:.5f}"}], "spot", **look)
    live.draw_map([spot], maps.View(lat, lon, ZOOM), MAP_PX, "crash_map", "Map of the place")
    st.caption(f"{lat:.5f}, {lon:.5f} (WGS 84)")


def _custody(key: Key) -> None:
    """What was done with it, renewed: a bundle that leaves is an entry."""
    entries = live.rows(ask(queries.custody, *key))
    st.markdown("**Custody log**")
    live.table(entries, charts.CUSTODY, "custody")
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
with live.toolbar():
    st.pills("Verdict", list(charts.VERDICT_SIGNS), key="verdict", bind="query-params")
    st.text_input("Vehicle", key="vehicle", bind="query-params", placeholder="all", width=200)
live.part(_listing)
_opened()
