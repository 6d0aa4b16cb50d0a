"""Parts of the vehicle's page about a span of time: where it was, how it drove."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import pandas as pd
import streamlit as st

from dashboard import charts, fleet_queries, legends, live, maps, text, trace, vehicle_queries
from dashboard.drawing import Window
from dashboard.spans import FIRST, OWN, SPANS, Span, pace_s

MAP_PX: Final = 430
MAP_WIDE: Final = 640


def when(shown: Span) -> tuple[datetime, datetime, int]:
    """The span as the history query takes it, on whole steps: the same question within a step."""
    return whole(shown.start, shown.step_s), whole(shown.end, shown.step_s, up=True), shown.step_s


def whole(at: datetime, step_s: int, up: bool = False) -> datetime:
    """The time cut to whole steps."""
    seconds = at.timestamp() // step_s * step_s + (step_s if up else 0)
    return datetime.fromtimestamp(seconds, UTC)


def spell_out(shown: Span, extent: dict[str, Any]) -> None:
    """Which time is shown, and that it is not now where it is not."""
    zone = live.tz()
    ends = f"{text.clock(shown.start, zone)} to {text.clock(shown.end, zone)}"
    line = f"{ends}, in steps of {text.duration(shown.step_s)}"
    if shown.past:
        st.info(
            f"This vehicle has been silent since {text.clock(extent['last_event'], zone)}: "
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


def choice() -> str:
    """Which span is chosen. Streamlit may run a part anew before the page's own run has made its widgets."""
    chosen = st.session_state.get("span") or st.query_params.get("span")
    return chosen if chosen in (*SPANS, OWN) else FIRST


def refresh_s() -> float:
    """How often the span is drawn anew, s."""
    return pace_s(choice(), live.SLOW_S, live.RARE_S)


def view(vehicle_id: str, points: pd.DataFrame) -> maps.View:
    """Where the map looks first: at the way. Kept while vehicle and span stay the same."""
    key = (vehicle_id, choice())
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
        live.chart(charts.speed(timed(history, shown), "bucket", window(shown)), "speed")
    else:
        st.caption("No speed within this span.")


def timed(history: pd.DataFrame, shown: Span) -> pd.DataFrame:
    """The history in the reader's time, with its gaps."""
    return charts.with_gaps(text.local(history, live.tz(), "bucket"), "bucket", shown.step_s)


def window(shown: Span) -> Window:
    """The span in the reader's time."""
    ends = text.local(pd.DataFrame({"t": [shown.start, shown.end]}), live.tz(), "t")["t"]
    return ends[0], ends[1]
