"""The sections of what is made out of driving: journeys, roads, crashes."""

from __future__ import annotations

from pydantic import Field

from infra.settings.sections import Section

HOURS = r"^(\d{1,2}-\d{1,2})(,\d{1,2}-\d{1,2})*$"
"""Spans of hours, as 9-16,19-22: from the first hour to the begin of the last."""


class Journeys(Section):
    """Trips, stops, idling and harsh driving: engineering defaults."""

    brake_g: tuple[float, float, float] = Field(
        (0.40, 0.35, 0.30), description="harsh braking from so many g on: car, van, heavy"
    )
    accelerate_g: tuple[float, float, float] = Field(
        (0.35, 0.30, 0.25), description="harsh acceleration from so many g on: car, van, heavy"
    )
    corner_g: tuple[float, float, float] = Field(
        (0.40, 0.35, 0.30), description="harsh cornering from so many g on: car, van, heavy"
    )
    harsh_gate_kmh: float = Field(10.0, ge=0, description="no harsh braking or acceleration up to this, km/h")
    corner_gate_kmh: float = Field(30.0, ge=0, description="no harsh cornering up to this speed, km/h")
    harsh_least_ms: int = Field(300, ge=0, description="a harsh event lasts at least so long, ms")
    harsh_merge_ms: int = Field(3000, ge=0, description="harsh events so close to each other are one, ms")
    harsh_grades: tuple[float, float] = Field(
        (1.25, 1.5), description="grade 2 and grade 3 of a harsh event from so many times its threshold on"
    )
    radius_m: float = Field(200.0, gt=0, description="a trip starts beyond it, a stop is within it, m")
    end_s: int = Field(180, ge=1, description="standing for so long within the radius ends a trip, s")
    split_s: int = Field(3600, ge=1, description="a longer time without data splits a trip, s")
    ignition_off_s: int = Field(
        30, ge=1, description="standing with the ignition off for so long ends a trip, s; shorter is a toggle"
    )
    least_move_m: float = Field(5.0, ge=0, description="a shorter move from standstill does not count, m")
    halt_s: int = Field(5, ge=1, description="a standstill within a trip that counts as a halt, s")
    idle_s: int = Field(120, ge=1, description="standing with the ignition on for so long is idling, s")
    report_s: int = Field(60, ge=1, description="a trip under way is told again after so long, s")
    consumption_from_m: float = Field(1000.0, gt=0, description="no consumption per 100 km below this, m")
    noise_m: float = Field(
        25.0, ge=0, description="a displacement below it is noise, where only positions tell, m"
    )
    top_kmh: float = Field(250.0, gt=0, description="no vehicle moves faster: beyond it a position jumped")
    co2_g_per_l: tuple[float, float] = Field((2348.0, 2689.0), description="CO2 of petrol and of diesel, g/l")


class Roads(Section):
    """Traffic by road cell and edge."""

    edges: bool = Field(True, description="windows by edge too, where a road network is loaded")
    network: str = Field("", description="name of the road network in use; empty: the one loaded last")
    match_radius_m: float = Field(
        40.0, gt=0, description="an edge further than this is none of a sample's, m"
    )
    match_angle_deg: float = Field(
        60.0, gt=0, lt=90, description="an edge that turns more than this from the course is none, deg"
    )
    match_sigma_m: float = Field(8.0, gt=0, description="distance that counts as much as match_sigma_deg, m")
    match_sigma_deg: float = Field(20.0, gt=0, description="angle that counts as much as match_sigma_m, deg")
    match_margin: float = Field(
        0.1, ge=0, description="a sample is matched when the next edge costs so much more, in squared sigmas"
    )
    min_vehicles: int = Field(
        3, ge=1, description="vehicles in 5 min that make a live speed; with fewer the profile tells"
    )
    off_peak_weekday: str = Field(
        "9-16,19-22", pattern=HOURS, description="hours of free flow, Monday to Friday, local time"
    )
    off_peak_weekend: str = Field(
        "6-22", pattern=HOURS, description="hours of free flow, Saturday and Sunday, local time"
    )
    history_days: int = Field(28, ge=1, description="days that free flow and the profile look back")
    history_s: float = Field(600.0, gt=0, description="free flow and profile are computed anew every s")
    free_flow_intervals: int = Field(
        12, ge=1, description="5-minute intervals that a free-flow speed needs at least"
    )
    small_count: int = Field(
        5, ge=1, description="flows and stops of fewer vehicles are not shown, counts are rounded to it"
    )
    eta_s: float = Field(60.0, gt=0, description="open requests for arrival times are predicted anew every s")
    eta_few: float = Field(
        3.0, ge=0, description="so many vehicles seen on an edge weigh as much as what is usual there"
    )
    eta_half_life_s: float = Field(
        900.0, gt=0, description="what was seen loses half its weight in so long, s"
    )
    eta_limit_share: float = Field(
        0.7, gt=0, le=1, description="share of the limit that is driven where no speed is known"
    )
    eta_hours: float = Field(6.0, gt=0, description="a request is given up after so long, h")
    arrival_m: float = Field(100.0, gt=0, description="so near its destination a vehicle has arrived, m")
    trip_end_m: float = Field(250.0, gt=0, description="a trip that ends so near has led there, m")


class Crash(Section):
    """Crash records corroborated by the telemetry around them."""

    pulse_ms: float = Field(
        20, ge=0, description="a collision takes at least so long from 0.1 to 0.9 of its delta-V, ms (eng.)"
    )
    kept_share: float = Field(
        0.5, ge=0, le=1, description="of a collision's delta-V at least this share is left at the end (eng.)"
    )
    driving_kmh: float = Field(
        10, ge=0, description="from this speed on before the event a collapse can be seen"
    )
    collapse_share: float = Field(
        0.3, ge=0, le=1, description="speed collapsed to this share or less of the speed before (eng.)"
    )
    still_from_s: int = Field(
        30, ge=0, description="begin of the time in which it must stand, after the event, s"
    )
    still_to_s: int = Field(60, ge=10, description="end of it, s; only then is there a verdict")
    still_m: float = Field(
        5, ge=0, description="it stands when it moves no more than this in that time, m (eng.)"
    )
    near_m: float = Field(200, gt=0, description="other vehicles within this of the place are asked, m")
    others: int = Field(3, ge=1, description="fewer other vehicles before or after say nothing")
    slowed_share: float = Field(
        0.7, ge=0, le=1, description="they slowed down to this share or less of their speed before (eng.)"
    )
    settle_s: float = Field(5, gt=0, description="pause between two looks for records without a verdict, s")
