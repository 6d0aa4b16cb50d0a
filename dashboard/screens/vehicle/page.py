"""One vehicle: how it is now, where it was, where it is heading, what was found, how good its data are."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pandas as pd
import streamlit as st

from dashboard.query_cache import RARE_S, SLOW_S, ask, ask_rarely, ask_slowly, away, settings
from dashboard.screens.vehicle import charts, gauges, queries, tables
from dashboard.screens.vehicle.queries import FIRST, OWN, SPANS, Span
from dashboard.shared import live, maps, pictures, text
from dashboard.shared import queries as shared_queries
from dashboard.shared.charts import Window
from dashboard.shared.text import tinted

MAP_PX: Final = 430
MAP_WIDE: Final = 640
ABREAST: Final = 3  # charts beside each other; as many trends get one, the nearest to their threshold first
TRIP_ROWS: Final = 8
ONE: Final = "%.1f"
VIEW: Final = "vehicle_view"
QUALITY_HELP: Final = {
    "Gaps": f"Times without a window with the ignition on, in the last {queries.GAPS_DAYS} days of the span",
    "Duplicates": "By whole hours, as the ledger last found them; a dash: none, or not audited yet",
    "Missing": "Frames that nobody has, by whole hours, as the ledger last found them",
    "Clock wrong": "Frames that were quarantined: their clock was never set, or is ahead of the receipt",
    "Restated": "Rows (windows, minutes, hours or days, by the steps) that the batch layer made anew",
}

Row = Mapping[str, Any]


def _choose() -> str | None:
    """The vehicle and the span of time, kept in the address."""
    chosen = st.query_params.get("vehicle")
    with live.toolbar():
        with st.container(width=300):
            live.search(_pick)
        live.choice("Time span", [*SPANS, OWN], "span", FIRST)
        if st.session_state.get("span") == OWN:
            for label, key in (("From", "since"), ("To", "until")):
                st.datetime_input(label, key=key, format="YYYY-MM-DD", bind="query-params", width=210)
    return chosen


def _pick(vehicle_id: str) -> None:
    st.query_params["vehicle"] = vehicle_id


def _chosen_span() -> str:
    """Streamlit may run a part anew before the page's own run has made its widgets."""
    chosen = st.session_state.get("span") or st.query_params.get("span")
    return chosen if chosen in (*SPANS, OWN) else FIRST


def _spanned(silently: bool = False) -> tuple[str, Span, dict[str, Any]] | None:
    """The vehicle, the span, and all the time there is of it; None, and unless ``silently`` why."""
    vehicle_id = st.query_params["vehicle"]
    extent = live.row(ask_slowly(queries.vehicle_extent, vehicle_id))
    choice, zone = _chosen_span(), live.tz()
    since, until = st.session_state.get("since"), st.session_state.get("until")
    if extent is not None and choice != OWN:
        return (
            vehicle_id,
            queries.span(choice, extent["first_event"], extent["last_event"], datetime.now(UTC)),
            extent,
        )
    if extent is not None and since is not None and until is not None:
        ends = (t.replace(tzinfo=zone).astimezone(UTC) for t in (since, until))
        return vehicle_id, queries.between(*ends), extent
    if extent is not None and not silently:
        live.nothing("Choose from when to when.")
    elif not away() and not silently:
        live.nothing("No window of this vehicle yet.")
    return None


def _history_of(vehicle_id: str, shown: Span) -> pd.DataFrame | None:
    """Its windows or roll-ups in the steps of the span: one result for both parts that draw them."""
    return ask_slowly(queries.vehicle_history, vehicle_id, *shown.whole(), shown.step_s, settings().tz)


def _timed(history: pd.DataFrame, shown: Span) -> tuple[pd.DataFrame, str, Window]:
    """The history in the reader's time with its gaps, its column of time, and the ends of the span."""
    local = charts.with_gaps(text.local(history, live.tz(), "bucket"), "bucket", shown.step_s)
    ends = text.local(pd.DataFrame({"t": [shown.start, shown.end]}), live.tz(), "t")["t"]
    return local, "bucket", (ends[0], ends[1])


def _newest() -> None:
    """The vehicle as it is now: who it is, its figures, its signals against their limits."""
    now = live.row(ask(shared_queries.vehicle, st.query_params["vehicle"]))
    if now is None:
        if not away():
            live.nothing("No data of this vehicle.")
        return
    place = None if now["lat_deg"] is None else f"at {now['lat_deg']:.5f}, {now['lon_deg']:.5f}"
    words = [now["vehicle_id"], now["model"], now["powertrain"], now["vehicle_class"], place]
    st.text(" · ".join(str(word) for word in words if word))
    # a gauge pressure made comparable (20 °C) is a little below none in a tyre that is flat and warm
    tyre_kpa = None if now["tyre_min_kpa20"] is None else max(0.0, now["tyre_min_kpa20"])
    tiles = {
        "State": now["state"],
        "Last seen": f"{text.duration((live.now() - now['event_time']).total_seconds())} ago",
        "Speed": text.number(now["speed_kmh"], "km/h"),
        "Limit": text.number(now["speed_limit_kmh"], "km/h"),
        "Odometer": text.number(None if now["odometer_m"] is None else now["odometer_m"] / 1000, "km"),
        "Coolant": text.number(now["coolant_c"], "°C", 1),
        "12 V system": text.number(now["battery_v"], "V", 2),
        "Lowest tyre": text.number(tyre_kpa, "kPa"),
        "Fuel": text.number(now["fuel_level_pct"], "%"),
        "Charge": text.number(now["soc_pct"], "%", 1),
        "Active alerts": text.number(now["alerts"]),
    }
    live.figures("figures", tiles, always={"State", "Last seen", "Speed", "Active alerts"})
    _against_limits(now)


def _against_limits(now: Row) -> None:
    """The last minute's signals against the limits of the rules in force."""
    rules = ask_rarely(queries.rules)
    found = live.row(ask(queries.signals, now["vehicle_id"], now["event_time"]))
    if rules is None or found is None:
        return
    readings = gauges.readings(found, rules, now["vehicle_class"])
    if not readings:
        return
    st.subheader("Against its limits", anchor=False)
    st.html(gauges.picture(readings))
    words = (
        f"The minute of data up to {text.clock(found['until'], live.tz())} against the alert rules in force. "
        "Limits by model (tyre pressure) have no bar; what is beyond them stands under Alerts."
    )
    st.caption(words if not rules.empty else "No rules are known yet: the jobs have not been started.")


def _past() -> None:
    """Where it was over the chosen span, and how it drove."""
    found = _spanned()
    if found is None:
        return
    vehicle_id, shown, extent = found
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
    history = _history_of(vehicle_id, shown)
    if history is None:
        return
    left, right = st.columns([1.35, 1], gap="medium")
    with left:
        _trace(vehicle_id, shown)
    with right:
        _driving(history, shown)


def _trace(vehicle_id: str, shown: Span) -> None:
    """Its path, coloured by speed. Where the map looks first is kept while vehicle and span stay the same."""
    points = ask(queries.vehicle_trace, vehicle_id, *shown.whole())
    if points is None:
        return
    if points.empty:
        live.nothing("No position within this span.")
        return
    layers = [
        charts.trace(points.assign(local_time=text.local(points, live.tz(), "window_start")["window_start"]))
    ]
    newest = ask(shared_queries.vehicle, vehicle_id)
    if newest is not None:
        layers.append(maps.vehicles(newest, live.mode()))
    key = (vehicle_id, _chosen_span())
    if st.session_state.get(VIEW, (None,))[0] != key:
        places = list(points["lat_deg"]), list(points["lon_deg"])
        st.session_state[VIEW] = (key, maps.view_of(*places, *live.map_size(MAP_WIDE, MAP_PX)))
    live.draw_map(layers, st.session_state[VIEW][1], MAP_PX, "vehicle_map", "Map of the vehicle's path")
    st.html(pictures.speeds())


def _driving(history: pd.DataFrame, shown: Span) -> None:
    """Speed over time, and sums of the span."""
    st.subheader("Driving", anchor=False)
    sums = history.sum(numeric_only=True, min_count=1)
    tiles = {
        "Distance": text.number(sums.get("distance_m", float("nan")) / 1000, "km", 1),
        "Moving": text.duration(sums.get("moving_s")),
        "Idling": text.duration(sums.get("idle_s")),
        "Over the limit": text.duration(sums.get("speeding_s")),
    }
    live.figures("figures_driving", tiles, border=False)
    if history["speed_mean_kmh"].notna().any():
        live.chart(charts.speed(*_timed(history, shown)), "speed")
    else:
        st.caption("No speed within this span.")


def _records() -> None:
    """Its trips of the span; what was found of it, and where it is heading, whenever that was."""
    found = _spanned(silently=True)
    if found is None:
        return
    vehicle_id, shown, _ = found
    _trips(vehicle_id, shown)
    _alerts(vehicle_id)
    codes = ask_slowly(queries.codes, vehicle_id)
    if codes is not None and not codes.empty:
        live.listed("Trouble codes", codes, "", tables.CODES, "codes", tinted, alt="Trouble codes")
    crashes = ask(queries.crash_records, vehicle_id)
    if crashes is not None and not crashes.empty:
        st.subheader("Crash records", anchor=False)
        for record in maps.rows_of(crashes):
            _crash(record)
    _trends(vehicle_id)


def _trips(vehicle_id: str, shown: Span) -> None:
    found = ask_slowly(queries.trips, vehicle_id, *shown.whole())
    cell = live.listed(
        "Trips",
        found,
        "No trip began within this span.",
        tables.trips,
        "trips",
        alt="Trips",
        formats={ONE: ("km", "Mean km/h", "Top km/h", "l/100 km", "kWh/100 km")},
        height="auto" if found is None else live.height(len(found), TRIP_ROWS, 36 * (TRIP_ROWS + 1)),
        on_select="rerun",
    )
    if found is None or found.empty:
        return
    more = f" The newest {len(found)}." if len(found) == queries.TRIP_LIMIT else ""
    st.caption(f"Click a row to open the trip.{more}")
    if cell is not None:
        live.open_page("trips", trip=str(found["trip_id"].iloc[cell[0]]))


def _alerts(vehicle_id: str) -> None:
    """Its alerts, active first."""
    st.subheader("Alerts", anchor=False)
    found = ask(shared_queries.alerts, vehicle_id)
    if found is None or found.empty:
        st.caption("No alert of this vehicle.")
        return
    table = tables.alerts(found, live.tz(), live.now())
    cell = live.table(
        tinted(table), "alerts", "Alerts", {ONE: ("Value", "Worst", "Limit")}, on_select="rerun"
    )
    st.caption("Click a row to open the alert with its evidence.")
    if cell is not None:
        live.open_page("alerts", alert=str(found["alert_no"].iloc[cell[0]]))


def _crash(found: Row) -> None:
    """One record in words: what record and telemetry together say, why, whether it is whole and locked."""
    words = [
        text.clock(found["event_time"], live.tz()),
        f"delta-V {text.number(found['delta_v_max_kmh'], 'km/h', 1)}",
        f"air bag { {True: 'deployed', False: 'not deployed'}.get(found['airbag_deployed'], 'not known') }",
        "complete" if found["complete"] else "incomplete",
        "hash matches" if found["hash_ok"] else "HASH DOES NOT MATCH",
        found["profile"],
    ]
    st.text(" · ".join(words))
    defects = found["defects"]
    sound = (
        f"{len(defects)} defects" if defects else "not checked" if defects is None else "whole and plausible"
    )
    locked = "open" if found["locked_at"] is None else f"locked by {found['locked_by']}"
    st.text(f"{found['verdict']} · {sound} · {locked}")
    reasons = [*found["reasons"], *(f"{d['element']}: {d['fault']}: {d['detail']}" for d in defects or [])]
    if reasons:
        with st.expander("Why"):
            st.text("\n".join(reasons))
    key = "/".join(str(found[name]) for name in ("vehicle_id", "boot_id", "crash_id"))
    if st.button("Open the record with its curves", key=f"crash_{key}", icon=":material/car_crash:"):
        live.open_page("crashes", record=key)


def _trends(vehicle_id: str) -> None:
    """Where slow quantities are heading, with the days to their thresholds."""
    found = ask_rarely(queries.trends, vehicle_id)
    st.subheader("Where it is heading", anchor=False)
    if found is None:
        return
    if found.empty:
        st.caption("No trend yet: a line needs hours of at least six hours' span.")
        return
    table = tables.tinted(tables.trends(found, live.tz()))
    live.table(table, "trends", "Trends with days to their thresholds")
    near = found[found["days_to_threshold"].notna()].head(ABREAST)
    for column, trend in zip(st.columns(ABREAST), maps.rows_of(near), strict=False):
        with column:
            _forecast(vehicle_id, trend)


def _forecast(vehicle_id: str, trend: dict[str, Any]) -> None:
    """One trend: its hours, its line and the line's continuation."""
    since = trend["as_of"] - timedelta(days=float(trend["span_days"]))
    hours = ask_rarely(queries.trend_hours, vehicle_id, trend["metric"], since, trend["as_of"])
    if hours is None:
        return
    name, local = tables.NAMES.get(trend["metric"], trend["metric"]), text.local(hours, live.tz(), "bucket")
    as_of = text.local(pd.DataFrame({"t": [trend["as_of"]]}), live.tz(), "t")["t"][0]
    st.markdown(f"**{name}: {tables.days(trend['days_to_threshold'])}**")
    live.chart(charts.forecast(local, trend | {"as_of": as_of}), f"trend_{trend['metric']}")


def _health() -> None:
    """Its signals over the span, only those that it has, and how good its data were."""
    found = _spanned(silently=True)
    if found is None:
        return
    vehicle_id, shown, extent = found
    history = _history_of(vehicle_id, shown)
    if history is None:
        return
    st.subheader("Health", anchor=False)
    panels = charts.present(history)
    if not panels:
        st.caption("No health signal within this span.")
    local, time, window = _timed(history, shown)
    for first in range(0, len(panels), ABREAST):
        for column, spec in zip(st.columns(ABREAST), panels[first : first + ABREAST], strict=False):
            with column:
                st.markdown(f"**{spec.title}**")
                live.chart(charts.panel(local, spec, time, window), f"panel_{spec.title}")
    _quality(vehicle_id, history, shown, extent)


def _quality(vehicle_id: str, history: pd.DataFrame, shown: Span, extent: Row) -> None:
    """How good its data is, in the span and in all."""
    st.subheader("Data quality", anchor=False)
    counted = live.row(ask_slowly(queries.quality, vehicle_id, *shown.whole())) or {}
    gaps = live.row(ask_slowly(queries.gaps, vehicle_id, *shown.whole())) or {}
    sums = history.sum(numeric_only=True, min_count=1)
    counts = {
        "Samples": sums.get("samples"),
        "Frames": sums.get("frames"),
        "Gaps": gaps.get("gaps"),
        "Late frames": counted.get("late"),
        "Late, repaired": sums.get("frames_late"),
        "Duplicates": counted.get("duplicate"),
        "Missing": counted.get("missing"),
        "Clock wrong": counted.get("quarantined"),
        "Dead letters": counted.get("dead"),
        "Restated": sums.get("windows_restated"),
        "Out of range": sums.get("out_of_range"),
    }
    tiles = {label: text.number(count) for label, count in counts.items()}
    live.figures("figures_quality", tiles, helps=QUALITY_HELP)
    st.text("\n".join(_quality_words(counted, gaps)))
    st.caption(
        f"In the span above. In all, as far as days are summed up: {text.number(extent['frames'])} frames "
        f"and {text.number(extent['distance_km'], 'km', 1)} "
        f"since {text.clock(extent['first_event'], live.tz())}."
    )


def _quality_words(counted: Row, gaps: Row) -> list[str]:
    """What the counts mean, where there is something to say."""
    found = []
    if gaps.get("gaps"):
        found.append(
            f"Gaps with the ignition on: {text.duration(gaps['gap_s'])} in all, "
            f"the longest {text.duration(gaps['longest_s'])}."
        )
    if counted.get("late"):
        found.append(
            f"Late frames came {text.duration(counted['delay_p50_s'])} after their last sample (median), "
            f"{text.duration(counted['delay_max_s'])} at most; {counted['late_open']} are not repaired yet."
        )
    if counted.get("quarantined"):
        ahead = counted.get("ahead_p50_s")
        clock = "" if ahead is None or ahead <= 0 else f", ahead by {text.duration(ahead)} (median)"
        found.append(f"Clock: {counted['clock_unset']} frames with a clock never set{clock}.")
    return found or ["Nothing was late, and no clock was wrong, in this span."]


live.header("Vehicle")
if _choose() is None:
    live.nothing("Find a vehicle here, or click one on the map of the fleet.")
else:
    pace = queries.pace_s(_chosen_span(), SLOW_S, RARE_S)
    live.part(_newest)
    live.part(_past, pace)
    live.part(_records, SLOW_S)
    live.part(_health, pace)
