"""The movement of one step: along an arc towards a point ahead on the route, and the way along the route."""

from __future__ import annotations

import numpy as np

from edge_simulator.geo import Floats
from edge_simulator.motion import dynamics
from edge_simulator.motion.fleet_state import State
from edge_simulator.motion.lane import Lane
from edge_simulator.town.network import RoadNetwork

STEERING_PER_M_S = 0.35
"""Fastest change of curvature, 1/m per s."""


def drive(net: RoadNetwork, st: State, lane: Lane, next_v: Floats, h_s: float) -> None:
    """Move the vehicles of ``lane`` by one step at the mean of old and new speed."""
    rows = lane.rows
    v_mean = 0.5 * (lane.v + next_v)
    lat, lon, x, y = st.lat[rows], st.lon[rows], st.east[rows], st.north[rows]
    per_lat, per_lon = net.metric.metres(lat)
    aim_lat, aim_lon = _aim(net, lane, v_mean)
    wanted = dynamics.pursuit((aim_lon - lon) * per_lon, (aim_lat - lat) * per_lat, x, y, v_mean)
    turn = np.minimum(v_mean * (STEERING_PER_M_S * h_s / 1.5), STEERING_PER_M_S * h_s)
    curvature = st.curvature[rows]
    wanted -= curvature
    np.minimum(wanted, turn, out=wanted)
    np.maximum(wanted, -turn, out=wanted)
    curvature += wanted
    step_m = v_mean * h_s
    yaw = curvature * step_m
    sine, cosine = dynamics.sine_cosine(0.5 * yaw)
    x, y = x * cosine + y * sine, y * cosine - x * sine
    lat += step_m * y / per_lat
    lon += step_m * x / per_lon
    x, y = x * cosine + y * sine, y * cosine - x * sine
    st.curvature[rows] = curvature
    st.lat[rows], st.lon[rows], st.east[rows], st.north[rows] = lat, lon, x, y
    st.heading[rows] = _turned(st.heading[rows], yaw)
    st.yaw_rps[rows] = yaw / h_s
    st.odometer_m[rows] += step_m
    st.a[rows] = (next_v - lane.v) / h_s
    st.v[rows] = next_v
    st.s[rows] = lane.s + _progress(net, st, lane, lat, lon, (per_lat, per_lon), step_m)


def _aim(net: RoadNetwork, lane: Lane, v_mean: Floats) -> tuple[Floats, Floats]:
    """The point ahead on the route that is steered for."""
    ahead = dynamics.aim_distance(v_mean)
    ahead -= lane.to_end
    over = ahead > 0
    edge = np.where(over, lane.next_edge, lane.edge)
    return net.position(edge, np.where(over, ahead, ahead + (lane.to_end + lane.s)))


def _turned(heading: Floats, yaw: Floats) -> Floats:
    """The heading after a turn by less than a circle, 0..2 pi."""
    circle = 2 * np.pi
    heading += yaw
    heading -= circle * np.floor(heading / circle)
    np.copyto(heading, 0.0, where=heading >= circle)
    return heading


def _progress(
    net: RoadNetwork, st: State, lane: Lane, lat: Floats, lon: Floats, per_deg: tuple[Floats, Floats],
    step_m: Floats,
) -> Floats:  # fmt: skip
    """Distance along the route: the position's projection, at 0.6 to 2 times the way driven.

    Never beyond the bumper ahead: the way along the route may run ahead of the way driven.
    """
    point, parts = lane.point, net.parts
    st.slope[lane.rows] = parts.slope[point]
    st.altitude[lane.rows] = net.point_alt[point] + lane.share * parts.dalt[point]
    along = (lon - net.point_lon[point]) * per_deg[1] * parts.east[point]
    along += (lat - net.point_lat[point]) * per_deg[0] * parts.north[point]
    along -= lane.s - net.point_s[point]
    np.minimum(along, 2.0 * step_m, out=along)
    np.maximum(along, 0.6 * step_m, out=along)
    return np.minimum(along, np.maximum(lane.gap, 0.0))
