"""One vehicle: how it is now, where it was, where it is heading, what was found, how good its data are."""

from datetime import UTC, timedelta
from typing import Final

import pandas as pd
import streamlit as st

from dashboard import auth
from dashboard.query_cache import RARE_S, SLOW_S, ask, ask_rarely, ask_slowly, settings
from dashboard.screens.alerts.tables import INCIDENTS
from dashboard.screens.crashes.charts import BY_VERDICT
from dashboard.screens.crashes.queries import crash_list
from dashboard.screens.vehicle import charts, queries
from dashboard.screens.vehicle.queries import FIRST, OWN, SPANS, Span
from dashboard.shared import live, maps, pictures, text
from dashboard.shared import queries as shared_queries
from dashboard.shared.charts import Window
from dashboard.shared.text import Record

MAP_PX: Final = 430
ABREAST: Final = 3  # charts beside each other; as many trends get one, the nearest to their threshold first
TRIP_ROWS: Final = 8
VIEW: Final = "vehicle_view"
QUALITY_HELP: Final = {
    "Gaps": "Times without a window with the ignition on, in the last 7 days of the span",
    "Duplicates": "By whole hours, as the ledger last found them; a dash: none, or not audited yet",
    "Missing": "Frames that nobody has, by whole hours, as the ledger last found them",
    "Clock wrong": "Frames that were quarantined: their clock was never set, or is ahead of the receipt",
    "Restated": "Rows (windows, minutes, hours or days, by the steps) that the batch layer made anew",
}


def _chosen_span() -> str:
    """Streamlit may run a part anew before the page's own run has made its widgets."""
    chosen = st.session_state.get("span") or st.query_params.get("span")
    return chosen if chosen in (*SPANS, OWN) else FIRST


def _spanned(silently: bool = False) -> tuple[str, Span, Record]:
    """The vehicle, the span, and all the time there is of it; else ends, and unless ``silently`` says why."""
    vehicle_id = st.query_params["vehicle"]
    extent = live.row(live.rows(ask_slowly(queries.vehicle_extent, vehicle_id)))
    choice, zone = _chosen_span(), live.tz()
    since, until = (st.session_state.get(name) for name in ("since", "until"))
    window_s = settings().jobs.window_s
    if extent is not None and choice != OWN:
        span = queries.span(choice, extent["first_event"], extent["last_event"], live.now(), window_s)
        return vehicle_id, span, extent
    if extent is not None and since is not None and until is not None:
        start, end = (t.replace(tzinfo=zone).astimezone(UTC) for t in (since, until))
        return vehicle_id, queries.between(start, end, window_s), extent
    if not silently:
        none = f"No window of this vehicle yet. {text.DRIVE}"
        live.nothing(none if extent is None else "Choose from when to when.")
    raise live.NoRowsError


def _history_of(vehicle_id: str, shown: Span) -> tuple[pd.DataFrame, pd.DataFrame, Window]:
    """Its windows or roll-ups in the steps of the span; with gaps in the reader's time, and the span's ends.

    One result for both parts that draw them.
    """
    asked = (*shown.whole(live.tz()), shown.step_s, settings().tz)
    history = live.rows(ask_slowly(queries.history(shown.step_s), vehicle_id, *asked))
    local = charts.with_gaps(text.local(history, live.tz(), "bucket"), shown.step_s)
    return history, local, (text.wall(shown.start, live.tz()), text.wall(shown.end, live.tz()))


def _newest() -> None:
    known = live.rows(ask(shared_queries.vehicle, st.query_params["vehicle"]))
    if known.empty:
        auth.page_not_theirs("a vehicle", st.query_params["vehicle"])
        live.nothing(f"No data of this vehicle. {text.DRIVE}")
    now = live.first(known)
    auth.viewed(now["vehicle_id"])
    place = None if now["lat_deg"] is None else f"at {now['lat_deg']:.5f}, {now['lon_deg']:.5f}"
    st.text(text.joined(now["vehicle_id"], now["model"], now["powertrain"], now["vehicle_class"], place))
    tiles = text.vehicle(now, live.now())
    live.figures("figures", tiles, always={"State", "Last seen", "Speed", "Active alerts"})
    rules = live.rows(ask_rarely(shared_queries.rules))
    found = live.first(ask(queries.signals, now["vehicle_id"], now["event_time"]))
    readings = charts.readings(found, rules, now["vehicle_class"])
    if readings:
        st.subheader("Against its limits", anchor=False)
        st.html(charts.picture(readings))
        words = (
            f"The minute of data up to {text.clock(found['until'], live.tz())} against the alert rules in "
            "force. Limits by model (tyre pressure) have no bar; what is beyond them stands under Alerts."
        )
        st.caption(words if not rules.empty else "No rules are known yet: the jobs have not been started.")


def _past() -> None:
    vehicle_id, shown, extent = _spanned()
    zone = live.tz()
    ends = f"{text.clock(shown.start, zone)} to {text.clock(shown.end, zone)}"
    line = f"{ends}, in steps of {text.duration(shown.step_s)}"
    if shown.past:
        silent = f"This vehicle has been silent since {text.clock(extent['last_event'], zone)}"
        st.info(f"{silent}: the span ends there, not now. Shown: {line}.", icon=":material/history:")
    else:
        st.caption(f"Shown: {line}.")
    history, local, window = _history_of(vehicle_id, shown)
    left, right = st.columns([1.35, 1], gap="medium")
    with left, live.section():
        # Its path, coloured by speed. Where the map looks first is kept while vehicle and span stay the same.
        found = ask(queries.vehicle_trace, vehicle_id, *shown.whole(live.tz()))
        long = shown.end - shown.start > queries.WINDOWS_SPAN
        within = f"the last {queries.WINDOWS_SPAN.days} days of the span" if long else "the span"
        points = live.rows(found, f"No position within {within}.")
        local_time = text.local(points, live.tz(), "window_start")["window_start"]
        layers = [charts.trace(points.assign(local_time=local_time))]
        newest = ask(shared_queries.vehicle, vehicle_id)
        if newest is not None:
            layers.append(maps.vehicles(newest, live.mode()))
        what, size_px = (vehicle_id, _chosen_span()), live.map_size(640, MAP_PX)
        view = live.kept_view(VIEW, what, lambda: maps.view_of(points, size_px))
        live.draw_map(layers, view, MAP_PX, "vehicle_map", "Map of the vehicle's path", points)
        st.html(pictures.speeds())
        if long:
            st.caption(f"Its path within {within}.")
    with right:
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
            live.chart(charts.speed(local, window), "speed")
        else:
            st.caption("No speed within this span.")


def _records() -> None:
    vehicle_id, shown, _ = _spanned(silently=True)
    with live.section("Trips"):
        none = f"No trip began within this span. {text.DRIVE}"
        trips = live.rows(ask_slowly(queries.trips, vehicle_id, *shown.whole(live.tz())), none, st.caption)
        live.leading(trips, charts.TRIPS, "trips", "Trips", "trip_id", most=TRIP_ROWS)
        more = f" The newest {len(trips)}." if len(trips) == queries.TRIP_LIMIT else ""
        st.caption(f"Click a row to open the trip.{more}")
    with live.section("Incidents"):
        none = f"No incident of this vehicle. {text.RAISE}"
        found = live.rows(ask(shared_queries.incidents, vehicle_id), none, st.caption)
        live.leading(found, INCIDENTS, "incidents", "Incidents", "incident_no", tint=text.BY_SEVERITY)
        st.caption("Click a row to open the incident with its alerts.")
    title, codes = "Trouble codes", ask_slowly(queries.codes, vehicle_id)
    live.listed(title, codes, "", charts.CODES, "codes", alt=title, tint=text.BY_SEVERITY)
    crashes = ask(crash_list, vehicle_id, None)
    if crashes is not None and not crashes.empty:
        with live.section("Crash records"):
            live.leading(crashes, charts.CRASHES, "crashes", "Crash records", "record_name", tint=BY_VERDICT)
            st.caption("Click a row to open the record with its curves.")
    with live.section("Where it is heading"):
        _trends(vehicle_id)


def _trends(vehicle_id: str) -> None:
    none, zone = "No trend yet: a line needs hours of at least six hours' span.", live.tz()
    found = live.rows(ask_rarely(queries.trends, vehicle_id), none, st.caption)
    tint, alt = ("Threshold", charts.near(found)), "Trends with days to their thresholds"
    live.table(found, charts.TRENDS, "trends", alt, tint)
    drawable = found["days_to_threshold"].notna() & found["metric"].isin(list(queries.METRICS))
    for column, trend in zip(st.columns(ABREAST), text.rows_of(found[drawable].head(ABREAST)), strict=False):
        metric, as_of = trend["metric"], trend["as_of"]
        since = as_of - timedelta(days=float(trend["span_days"]))
        with column, live.section():
            hours = live.rows(ask_rarely(queries.trend_hours, vehicle_id, metric, since, as_of))
            st.markdown(f"**{queries.METRICS[metric]}: {charts.days(trend['days_to_threshold'])}**")
            line = trend | {"as_of": text.wall(as_of, zone)}
            live.chart(charts.forecast(text.local(hours, zone, "bucket"), line), f"trend_{metric}")


def _health() -> None:
    vehicle_id, shown, extent = _spanned(silently=True)
    history, local, window = _history_of(vehicle_id, shown)
    st.subheader("Health", anchor=False)
    panels = charts.present(history)
    if not panels:
        st.caption("No health signal within this span.")
    for first in range(0, len(panels), ABREAST):
        for column, spec in zip(st.columns(ABREAST), panels[first : first + ABREAST], strict=False):
            with column:
                st.markdown(f"**{spec.title}**")
                live.chart(charts.panel(local, spec, window), f"panel_{spec.title}")
    st.subheader("Data quality", anchor=False)
    counted = live.row(ask_slowly(queries.quality, vehicle_id, *shown.whole(live.tz()))) or {}
    gaps = live.row(ask_slowly(queries.gaps, vehicle_id, *shown.whole(live.tz()))) or {}
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


def _quality_words(counted: Record, gaps: Record) -> list[str]:
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
        unset, ahead = counted["clock_unset"], counted["quarantined"] - counted["clock_unset"]
        words = [f"{text.counted(unset, 'frame')} with a clock never set"] if unset else []
        if ahead:
            by = text.duration(counted["ahead_p50_s"])
            words.append(f"{text.counted(ahead, 'frame')} with a clock ahead, by {by} (median)")
        found.append(f"Clock: {', '.join(words)}.")
    return found or ["Nothing was late, and no clock was wrong, in this span."]


live.header("Vehicle")
vehicle = st.query_params.get("vehicle")
with live.toolbar():
    with st.container(width=300):
        live.search(lambda vehicle_id: st.query_params.update(vehicle=vehicle_id))
    live.choice("Time span", [*SPANS, OWN], "span", FIRST)
    if st.session_state.get("span") == OWN:
        for label, key in (("From", "since"), ("To", "until")):
            st.datetime_input(label, key=key, format="YYYY-MM-DD", bind="query-params", width=210)
    if vehicle is not None:
        live.report_button(vehicle_id=vehicle)
if vehicle is None:
    live.nothing("Find a vehicle here, or click one on the map of the fleet.")
else:
    pace = queries.pace_s(_chosen_span(), SLOW_S, RARE_S)
    live.part(_newest)
    live.part(_past, pace)
    live.part(_records, SLOW_S)
    live.part(_health, pace)
