"""Crash records: the vault. The list, one record opened below, and its bundle as evidence."""

from typing import Any, Final

import pandas as pd
import streamlit as st

from dashboard import auth, routes
from dashboard.query_cache import SLOW_S, ask
from dashboard.screens.crashes import charts, queries
from dashboard.screens.crashes.queries import Key
from dashboard.shared import live, maps, text
from dashboard.shared.text import Record
from dashboard.shared.theme import SEVERITIES, TONES, rgba
from infra.contract.legal_basis import BASES, LAW, REFERENCE_MOST

RECORD: Final = "record"  # in the address: VEHICLE/BOOT/CRASH_ID, as `odograph crash` names a record


def _chosen() -> Key | None:
    parts = st.query_params.get(RECORD, "").split("/", 2)
    if len(parts) != 3 or not parts[1].isdecimal() or len(parts[1]) > 18:
        return None
    return parts[0], int(parts[1]), parts[2]


def _listing() -> None:
    live.renew()
    state = st.session_state
    wanted = ((state.get("vehicle") or "").strip() or None, state.get("verdict"))
    none = "No crash record matches. A simulated vehicle makes one: `odograph simulate --fault crash=1`."
    found = live.rows(ask(queries.crash_list, *wanted), none)
    keys = tuple(found["record_name"])
    key = f"crashes_{hash(keys)}"  # another list is another table: no mark on the wrong row
    live.say_listed(found, "record", queries.RECORD_LIMIT)

    def choose(place: int) -> None:
        st.query_params[RECORD] = keys[place]

    look: Any = {"tint": charts.BY_VERDICT, "most": 6 if _chosen() else 16}
    live.open_list(found, charts.RECORDS, key, "Crash records", choose, **look)


def _opened() -> None:
    key = _chosen()
    if key is None:
        if st.query_params.get(RECORD):
            st.warning("This address names no record.", icon=":material/link_off:")
        return
    found = live.linked(queries.crash, "a crash record", "There is no such crash record.", *key)
    auth.viewed(found["vehicle_id"])
    content = found["record"] if isinstance(found["record"], dict) else {}  # a vehicle may send anything
    numbers = {name: float(value) for name, value in content.items() if type(value) in (int, float)}
    st.divider()
    st.subheader(f"Crash of {found['vehicle_id']}", anchor=False)
    st.text(f"{charts.verdict(found['verdict'])} · record {found['crash_id']} · {found['profile']}")
    belt = content.get("belt_on")
    tiles = {
        "Time zero": text.clock(found["event_time"], live.tz(), live.now()),
        "Delta-V, largest": text.number(found["delta_v_max_kmh"], "km/h"),
        "Air bag": charts.BAGS.get(found["airbag_deployed"], text.NONE),
        "Belt": charts.ON.get(belt, text.NONE) if isinstance(belt, bool) else text.NONE,
        "Events": text.number(numbers.get("multi_event")),
        "Seal": "matches" if found["hash_ok"] else "BROKEN",
    }
    live.figures("figures_crash", tiles)
    live.vehicle_button("Open vehicle", found["vehicle_id"], key="to_vehicle")
    left, right = st.columns([1.35, 1], gap="large")
    with left:
        with live.section("Change of velocity after time zero"):
            curve = live.rows(ask(queries.delta_v, *key)).dropna(subset=["t_ms"])
            known = curve.dropna(subset=["delta_v_kmh", "delta_v_lat_kmh"], how="all")
            live.rows(known, "The record holds no delta-V curve.")
            marks = {"air bag": numbers.get("airbag_ms"), "largest": numbers.get("delta_v_max_ms")}
            live.chart(charts.delta_v(curve, marks), "delta_v")
        with live.section():
            _before(key)
    with right:
        st.subheader("Verdict", anchor=False)
        final = "" if found["final"] is None else " · final" if found["final"] else " · not final yet"
        st.text(f"{charts.verdict(found['verdict'])}{final}")
        reasons = "\n".join(f"- {reason}" for reason in found["reasons"])
        st.text(reasons or "No verdict yet: it waits for telemetry.")
        if found["defects"]:
            live.table(pd.DataFrame(found["defects"]), charts.DEFECTS, "defects")
        with live.section("Place"):
            _place(found)
        st.subheader("Integrity", anchor=False)
        live.table(charts.integrity(found, live.tz()), None, "integrity")
        live.part(_custody, SLOW_S, key)
        live.part(_bundle, None, key, still=True)


def _before(key: Key) -> None:
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


def _place(found: Record) -> None:
    lat, lon = found["lat_deg"], found["lon_deg"]
    if lat is None or lon is None:
        live.nothing("The record holds no position.")
        return
    fill, rim = (list(rgba(c)) for c in (SEVERITIES["CRITICAL"], TONES[live.mode()]["outline"]))
    look: Any = {"get_radius": 9, "get_fill_color": fill, "get_line_color": rim, "pickable": True}
    spot = maps.dot([{"lon": lon, "lat": lat, "tip": f"{lat:.5f}, {lon:.5f}"}], "spot", **look)
    live.draw_map([spot], maps.View(lat, lon, 15.0), 300, "crash_map", "Map of the place")
    st.caption(f"{lat:.5f}, {lon:.5f} (WGS 84)")


def _custody(key: Key) -> None:
    entries = live.rows(ask(queries.custody, *key))
    st.markdown("**Custody log**")
    live.table(entries, charts.CUSTODY, "custody")
    st.caption("Each entry holds the hash of the one before. The whole log: odograph crash verify")


def _bundle(key: Key) -> None:
    st.subheader("Bundle", anchor=False)
    who = auth.reader()
    if not who.may("evidence"):
        st.caption(auth.why_not(who, "evidence"))
        return
    parts = "the record as received, tables, verdict, custody log and hashes"
    st.caption(f"One zip with {parts}; see its README.txt.")
    name = auth.name_field(who, "bundle_name")
    kind = st.selectbox(
        "Legal basis",
        list(BASES),
        index=None,
        format_func=lambda word: f"{word}: {BASES[word]}",
        key="bundle_basis",
        help=f"{LAW}. It goes into the custody log and the bundle.",
    )
    reference = st.text_input(
        "Reference",
        key="bundle_reference",
        max_chars=REFERENCE_MOST,
        placeholder="docket number, where the consent is kept",
    ).strip()
    named = bool(name and kind and reference)
    st.link_button(
        "Download the bundle",
        routes.bundle_address(key, name, f"{kind}: {reference}"),
        icon=":material/download:",
        disabled=not named,
        help=None if named else "First who takes it and by which right: the custody log notes both.",
        key="bundle",
    )


live.header("Crashes")
with live.toolbar():
    st.pills("Verdict", list(charts.VERDICT_SIGNS), key="verdict", bind="query-params")
    st.text_input("Vehicle", key="vehicle", bind="query-params", placeholder="all, or a whole id", width=200)
live.part(_listing)
with live.section():
    _opened()
