"""One vehicle: where it was, how it is, what was found."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import charts, fleet_queries, legends, live, maps, text, trace, vehicle_queries
from dashboard.screens import vehicle_records
from dashboard.spans import SPANS, Span, span

MAP_PX = 430
MAP_WIDE = 640
ABREAST = 3


def choose() -> str | None:
    """The vehicle and the span of time, kept in the address."""
    known = live.ask(fleet_queries.vehicle_ids)
    ids = [] if known is None else list(known["vehicle_id"])
    wanted = st.query_params.get("vehicle")
    if wanted and wanted not in ids:
        ids.insert(0, wanted)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium", key="toolbar"):
        chosen = st.selectbox(
            "Vehicle",
            ids,
            index=ids.index(wanted) if wanted else None,
            placeholder="Choose a vehicle",
            width=260,
        )
        st.segmented_control(
            "Time span", list(SPANS), default="1 h", required=True, key="span", bind="query-params"
        )
    if chosen and chosen != wanted:
        st.query_params["vehicle"] = chosen
    return chosen


def newest(vehicle_id: str) -> None:
    """The vehicle as it is now."""
    now = live.row(live.ask(vehicle_queries.vehicle, vehicle_id))
    if now is not None:
        state(now)
    elif live.AWAY not in st.session_state:
        live.nothing("No data of this vehicle.")


def past(vehicle_id: str) -> None:
    """The vehicle over the chosen span: windows are ten seconds long, so this has time."""
    summary = live.row(live.ask(vehicle_queries.vehicle_summary, vehicle_id))
    if summary is None:
        if live.AWAY not in st.session_state:
            live.nothing("No window of this vehicle yet.")
        return
    shown = span(st.session_state["span"], summary["first_event"], summary["last_event"], datetime.now(UTC))
    history = live.ask(vehicle_queries.vehicle_history, vehicle_id, *when(shown))
    if history is None:
        return
    spell_out(shown, summary)
    left, right = st.columns([1.35, 1], gap="medium")
    with left:
        draw(vehicle_id, shown)
    with right:
        driving(history, shown)
    health(history, shown)
    vehicle_records.findings(vehicle_id)
    vehicle_records.crashes(vehicle_id)
    vehicle_records.quality(history, summary)


def when(shown: Span) -> tuple[datetime, datetime, int]:
    """The span as the history query takes it, on whole steps: the same question within a step."""
    return whole(shown.start, shown.step_s), whole(shown.end, shown.step_s, up=True), shown.step_s


def whole(at: datetime, step_s: int, up: bool = False) -> datetime:
    """The time cut to whole steps."""
    seconds = at.timestamp() // step_s * step_s + (step_s if up else 0)
    return datetime.fromtimestamp(seconds, UTC)


def state(now: dict[str, Any]) -> None:
    """Who it is and how it is now."""
    words = [now["vehicle_id"], now["model"], now["powertrain"], now["vehicle_class"]]
    st.text(" · ".join(str(word) for word in words if word))
    seen = (pd.Timestamp.now(tz="UTC") - now["event_time"]).total_seconds()
    tiles = {
        "State": now["state"],
        "Last seen": f"{text.duration(seen)} ago",
        "Speed": text.number(now["speed_kmh"], "km/h"),
        "Odometer": text.number(None if now["odometer_m"] is None else now["odometer_m"] / 1000, "km"),
        "Coolant": text.number(now["coolant_c"], "°C", 1),
        "12 V system": text.number(now["battery_v"], "V", 2),
        "Lowest tyre": text.number(now["tyre_min_kpa20"], "kPa"),
        "Fuel": text.number(now["fuel_level_pct"], "%"),
        "Charge": text.number(now["soc_pct"], "%", 1),
        "Active alerts": text.number(now["alerts"]),
    }
    always = {"State", "Last seen", "Speed", "Active alerts"}
    with st.container(key="figures"):
        for label, value in tiles.items():
            if label in always or value != text.NONE:
                st.metric(label, value, border=True)


def spell_out(shown: Span, summary: dict[str, Any]) -> None:
    """Which time is shown, and that it is not now where it is not."""
    zone = live.tz()
    ends = f"{text.clock(shown.start, zone)} to {text.clock(shown.end, zone)}"
    line = f"{ends}, in steps of {text.duration(shown.step_s)}"
    if shown.past:
        st.info(
            f"This vehicle has been silent since {text.clock(summary['last_event'], zone)}: "
            f"the span ends there, not now. Shown: {line}.",
            icon=":material/history:",
        )
    else:
        st.caption(f"Shown: {line}.")


def draw(vehicle_id: str, shown: Span) -> None:
    """The way it took, coloured by speed."""
    start, end, _ = when(shown)
    points = live.ask(vehicle_queries.vehicle_trace, vehicle_id, start, end)
    if points is None:
        return
    if points.empty:
        live.nothing("No position within this span.")
        return
    mode = live.mode()
    network = live.row(live.ask(fleet_queries.road_networks)) or {}
    layers = live.roads(network)
    local = points.assign(local_time=text.local(points, live.tz(), "window_start")["window_start"])
    layers.append(trace.layer(local))
    newest = live.ask(vehicle_queries.vehicle, vehicle_id)
    if newest is not None:
        layers.append(maps.vehicles(newest, mode))
    st.pydeck_chart(
        maps.deck(layers, view(vehicle_id, points), mode),
        height=live.map_size(MAP_WIDE, MAP_PX)[1],
        key="vehicle_map",
        alt="Map of the vehicle's way",
    )
    st.html(legends.speeds())


def view(vehicle_id: str, points: pd.DataFrame) -> maps.View:
    """Where the map looks first: at the way. Kept while vehicle and span stay the same."""
    key = (vehicle_id, st.session_state["span"])
    kept = st.session_state.get("vehicle_view")
    if kept is None or kept[0] != key:
        found = maps.view_of(
            list(points["lat_deg"]), list(points["lon_deg"]), *live.map_size(MAP_WIDE, MAP_PX)
        )
        kept = st.session_state["vehicle_view"] = (key, found)
    found_view: maps.View = kept[1]
    return found_view


def driving(history: pd.DataFrame, shown: Span) -> None:
    """Speed over time, and sums of the span."""
    st.subheader("Driving", anchor=False)
    sums = history.sum(numeric_only=True, min_count=1)
    tiles = {
        "Distance": text.number(sums.get("distance_m", float("nan")) / 1000, "km", 1),
        "Moving": text.duration(sums.get("moving_s")),
        "Idling": text.duration(sums.get("idle_s")),
        "Over the limit": text.duration(sums.get("speeding_s")),
    }
    with st.container(key="figures_driving"):
        for label, value in tiles.items():
            st.metric(label, value)
    if history["speed_mean_kmh"].notna().any():
        st.altair_chart(charts.speed(timed(history, shown), "bucket", window(shown)), key="speed")
    else:
        st.caption("No speed within this span.")


def timed(history: pd.DataFrame, shown: Span) -> pd.DataFrame:
    """The history in the reader's time, with its gaps."""
    return charts.with_gaps(text.local(history, live.tz(), "bucket"), "bucket", shown.step_s)


def window(shown: Span) -> charts.Window:
    """The span in the reader's time."""
    ends = text.local(pd.DataFrame({"t": [shown.start, shown.end]}), live.tz(), "t")["t"]
    return ends[0], ends[1]


def health(history: pd.DataFrame, shown: Span) -> None:
    """Mechanical health over time: only what this vehicle has."""
    st.subheader("Health", anchor=False)
    panels = charts.present(history)
    if not panels:
        st.caption("No health signal within this span.")
        return
    local, frame = timed(history, shown), window(shown)
    for first in range(0, len(panels), ABREAST):
        for column, spec in zip(st.columns(ABREAST), panels[first : first + ABREAST], strict=False):
            with column:
                st.markdown(f"**{spec.title}**")
                st.altair_chart(charts.panel(local, spec, "bucket", frame), key=f"panel_{spec.title}")


live.header("Vehicle")
selected = choose()
if selected is None:
    live.nothing("Choose a vehicle, or click one on the map of the fleet.")
else:
    st.fragment(newest, run_every=live.every())(selected)
    st.fragment(past, run_every=live.every(live.SLOW_S))(selected)
