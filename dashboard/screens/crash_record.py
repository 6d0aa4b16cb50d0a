"""One crash record: verdict and why, curves, place, integrity, and the bundle."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import pandas as pd
import streamlit as st

from dashboard import (
    bundles,
    crash_charts,
    crash_maps,
    crash_queries,
    crash_tables,
    fleet_queries,
    live,
    maps,
    signin,
    text,
)
from dashboard.crash_queries import Key

MAP_PX: Final = 300
MAP_WIDE: Final = 520
ZOOM: Final = 15.0

Row = Mapping[str, Any]


def record(key: Key, found: Row) -> None:
    """All of a record, what matters most first."""
    head(found)
    left, right = st.columns([1.35, 1], gap="large")
    with left:
        after(key, found)
        before(key)
    with right:
        why(found)
        place(found)
        integrity(key, found)
        evidence(key)


def head(found: Row) -> None:
    """What happened, in words and figures."""
    st.subheader(f"Crash of {found['vehicle_id']}", anchor=False)
    st.text(f"{crash_tables.verdict(found['verdict'])} · record {found['crash_id']} · {found['profile']}")
    tiles = {
        "Time zero": text.clock(found["event_time"], live.tz(), datetime.now(UTC)),
        "Delta-V, largest": text.number(found["delta_v_max_kmh"], "km/h"),
        "Air bag": crash_tables.BAGS.get(found["airbag_deployed"], text.NONE),
        "Belt": {True: "on", False: "off"}.get(content(found, "belt_on"), text.NONE),
        "Events": text.number(number(found, "multi_event")),
        "Seal": "matches" if found["hash_ok"] else "BROKEN",
    }
    with st.container(key="figures_crash"):
        for label, value in tiles.items():
            st.metric(label, value, border=True)
    if st.button("Open vehicle", icon=":material/directions_car:", key="to_vehicle"):
        live.open_vehicle(found["vehicle_id"])


def content(found: Row, name: str) -> Any:
    """A word of the record as the vehicle sent it."""
    return found["record"].get(name) if isinstance(found["record"], dict) else None


def number(found: Row, name: str) -> float | None:
    """A number of the record, else None: a vehicle may send anything."""
    value = content(found, name)
    return float(value) if type(value) in (int, float) else None


def after(key: Key, found: Row) -> None:
    """The delta-V curve, with when the air bag fired and when the largest change was reached."""
    st.subheader("Change of velocity after time zero", anchor=False)
    curve = live.ask(crash_queries.delta_v, key)
    if curve is None:
        return
    drawn = curve.dropna(subset=["t_ms"])
    if drawn[["delta_v_kmh", "delta_v_lat_kmh"]].notna().to_numpy().any():
        marks = {"air bag": number(found, "airbag_ms"), "largest": number(found, "delta_v_max_ms")}
        st.altair_chart(crash_charts.delta_v(drawn, marks), key="delta_v")
    else:
        live.nothing("The record holds no delta-V curve.")


def before(key: Key) -> None:
    """The seconds before time zero as charts and as a table."""
    samples = live.ask(crash_queries.pre_crash, key)
    if samples is None:
        return
    known = samples.dropna(subset=["t_ms"])
    if known.empty:
        st.subheader("Before time zero", anchor=False)
        live.nothing("The record holds no samples before time zero.")
        return
    seconds = -float(known["t_ms"].min()) / 1000
    st.subheader(f"The {seconds:.0f} s before time zero", anchor=False)
    for title, chart in crash_charts.panels(known):
        st.markdown(f"**{title.capitalize()}**")
        st.altair_chart(chart, key=f"pre_{title}")
    with st.expander(f"All {len(known)} samples"):
        st.dataframe(crash_tables.pre_crash(known), hide_index=True, placeholder=text.NONE, key="pre_crash")


def why(found: Row) -> None:
    """The verdict's reasons, and what is wrong with the record."""
    st.subheader("Verdict", anchor=False)
    final = "" if found["final"] is None else " · final" if found["final"] else " · not final yet"
    st.text(f"{crash_tables.verdict(found['verdict'])}{final}")
    st.text(
        "\n".join(f"- {reason}" for reason in found["reasons"]) or "No verdict yet: it waits for telemetry."
    )
    if found["defects"]:
        st.dataframe(crash_tables.defects(found), hide_index=True, key="defects")


def place(found: Row) -> None:
    """Where it happened."""
    st.subheader("Place", anchor=False)
    if found["lat_deg"] is None or found["lon_deg"] is None:
        live.nothing("The record holds no position.")
        return
    mode = live.mode()
    network = live.row(live.ask(fleet_queries.road_networks)) or {}
    here = maps.View(found["lat_deg"], found["lon_deg"], ZOOM)
    st.pydeck_chart(
        maps.deck(
            [*live.roads(network), crash_maps.spot(found["lat_deg"], found["lon_deg"], mode)], here, mode
        ),
        height=live.map_size(MAP_WIDE, MAP_PX)[1],
        key="crash_map",
        alt="Map of the place",
    )
    st.caption(f"{found['lat_deg']:.5f}, {found['lon_deg']:.5f} (WGS 84)")


def integrity(key: Key, found: Row) -> None:
    """Whether it still is what the vehicle sent, and what was done with it."""
    st.subheader("Integrity", anchor=False)
    st.dataframe(crash_tables.integrity(found, live.tz()), hide_index=True, key="integrity")
    live.part(custody, live.SLOW_S, key)


def custody(key: Key) -> None:
    """What was done with it, renewed: a bundle that leaves is an entry."""
    entries = live.ask(crash_queries.custody, key)
    if entries is None:
        return
    st.markdown("**Custody log**")
    shown = crash_tables.custody(entries, live.tz(), pd.Timestamp.now(tz="UTC"))
    st.dataframe(shown, hide_index=True, key="custody")
    st.caption("Each entry holds the hash of the one before. The whole log: odograph crash verify")


def evidence(key: Key) -> None:
    """The bundle, made when it is asked for; the custody log notes who took it."""
    st.subheader("Bundle", anchor=False)
    who = signin.reader(live.known_roles())
    if not who.may("evidence"):
        st.caption(signin.why_not(who, "evidence"))
        return
    st.caption(
        "One zip with the record as received, tables, verdict, custody log and hashes; see its README.txt."
    )
    name = signin.name_field(who, "bundle_name")
    st.link_button(
        "Download the bundle",
        bundles.address(key, name),
        icon=":material/download:",
        disabled=not name,
        help=None if name else "Give your name first: the custody log notes who takes a bundle.",
        key="bundle",
    )
