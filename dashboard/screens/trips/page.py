"""Trips: the list with its filters, and one trip with path and speed under one cursor, and its events."""

from typing import Any, Final

import pandas as pd
import streamlit as st

from dashboard import auth, player
from dashboard.query_cache import SLOW_S, ask, ask_large, ask_slowly, later
from dashboard.screens.trips import path, queries
from dashboard.shared import downloads, live, pictures, text
from dashboard.shared import queries as shared_queries
from dashboard.shared.text import Record
from dashboard.shared.theme import CONGESTION

SPANS_H: Final = {"24 h": 24, "7 days": 168, "30 days": 720, "1 year": 8784}


def _filters() -> tuple[Any, ...]:
    """What ``queries.trips`` takes, kept in the address; no vehicles: all."""
    with live.toolbar():
        hint: Any = {"placeholder": "All; part of an id or model", "bind": "query-params", "width": 230}
        words = st.text_input("Vehicle", key="vehicle", **hint).strip()
        span = live.choice("Begun within", SPANS_H, "span")
        day = live.day("or on the day", None, "day")
        kinds = "Braking, acceleration, cornering"
        harsh = st.toggle("Harsh events only", key="harsh", bind="query-params", help=kinds)
        live.report_button(day)
    found = ask_slowly(shared_queries.find_vehicles, words) if words else None
    ids = () if found is None else tuple(str(v) for v in found["vehicle_id"])
    meant = (words,) if words in ids or not ids else ids
    if found is not None and meant == ids:
        live.say_more(found)
    return meant if words else None, SPANS_H[span], day, str(live.tz()), bool(harsh)


def _several() -> None:
    wanted = _filters()
    none = f"No trip matches: choose a longer span or another day. {text.DRIVE}"
    found = live.rows(ask(queries.trips, *wanted), none)
    sums = live.row(ask_slowly(queries.trip_sums, *wanted))
    if sums is not None and sums["trips"]:
        tiles = {
            "Trips": text.number(sums["trips"]),
            "Vehicles": text.number(sums["vehicles"]),
            "Distance": text.number(sums["distance_km"], "km"),
            "Time": text.duration(sums["duration_s"]),
            "Idle share": text.number(sums["idle_pct"], "%", 1),
            "Litres/100 km": text.number(sums["fuel_l_per_100km"], digits=1),
            "kWh/100 km": text.number(sums["energy_kwh_per_100km"], digits=1),
            "Harsh/100 km": text.number(sums["harsh_per_100km"], digits=1),
        }
        live.figures("figures_trips", tiles, always=())
    more = f"The newest {len(found)} are listed. " if len(found) == queries.TRIP_LIMIT else ""
    st.caption(f"{more}Click a row to open the trip.")
    every = later(queries.trips, *wanted, most=downloads.ROWS_MOST)
    live.leading(found, path.TRIPS, "trips", "Trips", "trip_id", data=every, most=17)


def _back() -> None:
    if st.button("All trips", icon=":material/arrow_back:", type="tertiary"):
        live.open_page("trips")


def _one() -> None:
    """The trip of the address; under way, it grows."""
    known = live.rows(ask(queries.trip, st.query_params["trip"]))
    if known.empty:
        auth.page_not_theirs("a trip", st.query_params["trip"])
        live.nothing("No trip has this number: a restated trip that begins at another time has another one.")
        _back()
    found = live.first(known)
    during = (found["vehicle_id"], found["started_at"], found["ended_at"])
    points = ask_large(queries.trip_points, *during, queries.POINTS_MOST)
    _title(found, stored=points is None or not points.empty)
    co2_g, unseen_m, known_share = found["co2_g"], found["unseen_m"], found["known_share"]
    tiles = {
        "Distance": text.number(found["distance_m"] / 1000, "km", 1),
        "Took": text.duration(found["duration_s"]),
        "Mean speed": text.number(found["speed_mean_kmh"], "km/h"),
        "Top speed": text.number(found["speed_max_kmh"], "km/h"),
        "Idle": text.duration(found["idle_s"]),
        "Over the limit": text.duration(found["speeding_s"]),
        "Harsh events": text.number(path.harsh_events(found)),
        "Litres/100 km": text.number(found["fuel_l_per_100km"], digits=1),
        "kWh/100 km": text.number(found["energy_kwh_per_100km"], digits=1),
        "CO₂": text.number(co2_g / 1000 if co2_g else None, "kg", 1),
        "Place known": text.number(known_share and 100 * known_share, "%"),
        "Unseen": text.number(unseen_m / 1000 if unseen_m else None, "km", 1),
    }
    live.figures("figures_trip", tiles, always=())
    _events(found, live.rows(points))


def _title(found: Record, stored: bool) -> None:
    """``stored``: its windows are, so the day can be played again."""
    zone = live.tz()
    phase = {"open": "under way, up to", "provisional": "silent since"}.get(found["phase"], "to")
    often = {0: "", 1: "once"}.get(found["revision"], f"{found['revision']} times")
    restated = f" · restated {often} by the batch layer" if often else ""
    began, ended = (text.clock(found[name], zone) for name in ("started_at", "ended_at"))
    start = found["started_at"].astimezone(zone)
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        _back()
        with st.container(gap=None, width="stretch", key="words"):
            auth.viewed(found["vehicle_id"])
            st.text(text.joined(found["vehicle_id"], found["model"], found["powertrain"]))
            st.caption(f"{began} {phase} {ended}{restated}")
        live.vehicle_button("Open the vehicle", found["vehicle_id"])
        if stored and st.button("Replay it", icon=":material/replay:"):
            at = {"day": f"{start:%Y-%m-%d}", "at": f"{start:%H:%M:%S}"}
            live.open_page("replay", **at, follow=found["vehicle_id"])


def _events(found: Record, points: pd.DataFrame) -> None:
    during = (found["vehicle_id"], found["started_at"], found["ended_at"])
    harsh = live.rows(ask(queries.harsh_events, *during))
    idle = live.rows(ask(queries.idle_episodes, *during))
    alerts = live.rows(ask(queries.trip_alerts, *during))
    stops = live.rows(ask(queries.stops_around, *during))
    happened, pieces = path.happenings(idle, harsh, alerts), path.pieces(points)
    if len(pieces):
        speeds = [row["speed_kmh"] for row in text.rows_of(pieces[["speed_kmh"]])]
        ratios = ask_large(queries.speed_ratio, pieces["cell"].tolist(), pieces["sector"].tolist(), speeds)
        data = {
            "id": found["trip_id"],
            "tone": player.tone(live.mode()),
            "bands": dict(CONGESTION),
            "zone": str(live.tz()),
            "roads": live.road_address(),
            "ground": live.ground(),
            "path": path.path(pieces, pd.DataFrame() if ratios is None else ratios),
            "marks": path.marks(path.halts(points), happened),
        }
        player.component("trip")(key="trip", data=data)
        live.name_ground()
        st.html(pictures.trip())
        whole = later(queries.trip_points, *during, queries.WAY_MOST)
        forms = tuple(downloads.FORMS)
        st.html(downloads.links("track", "The trip's way", lambda: path.track(found, whole()), forms))
    else:
        live.nothing("No position of this trip is stored: its windows have gone, or had no place.")
    none = "No harsh event, no idling, no alert, and no stop beside it."
    live.listed(
        "On the way", path.events(happened, stops), none, path.EVENTS, "events", alt="Events of the trip"
    )


live.header("Trips")
live.part(_one if "trip" in st.query_params else _several, SLOW_S)
