"""How a driver moves a vehicle: following, stopping, turning. Pure functions over [n_vehicles] arrays.

Following is the intelligent driver model (Treiber, Hennecke and Helbing, 2000); steering is pure pursuit of a
point ahead on the route, so that position, heading and yaw rate come from one motion.
"""

from __future__ import annotations

import numpy as np

from edge_simulator.geo import Floats, metres_per_degree, wrap_pi

STANDSTILL_GAP_M = 2.0
JERK_UP_MPS3 = 2.0
JERK_DOWN_MPS3 = 5.0
G = 9.81
AIR_KG_M3 = 1.2


def wanted_accel(v: Floats, v_wanted: Floats, accel: Floats, brake: Floats) -> Floats:
    """Acceleration on a free road: towards the wanted speed, m/s2."""
    ratio = v / np.maximum(v_wanted, 0.3)
    free = accel * (1 - np.minimum(ratio, 1.0) ** 4)
    over = np.maximum((v_wanted - v) / 0.8, -brake * 1.3)
    return np.where(v > v_wanted, over, free)


def interaction(
    v: Floats, closing: Floats, gap: Floats, accel: Floats, brake: Floats, time_s: Floats
) -> Floats:
    """Deceleration that an obstacle asks for, m/s2 (>= 0). ``closing`` is own speed less the obstacle's.

    A crawling driver does not brake hard, however near the next bumper is.
    """
    wanted = STANDSTILL_GAP_M + np.maximum(v * time_s + v * closing / (2 * np.sqrt(accel * brake)), 0.0)
    term: Floats = accel * (wanted / np.maximum(gap, 0.5)) ** 2
    return np.minimum(term, accel + 0.5 + 0.7 * v)


def limit_accel(
    command: Floats, last: Floats, v: Floats, h_s: float, power_w: Floats, mass: Floats, floor: Floats
) -> Floats:
    """The command within what driver and machine can do: jerk, engine power, hardest normal braking."""
    strongest = 0.85 * power_w / (np.maximum(v, 2.0) * mass)
    bounded = np.clip(command, floor, strongest)
    return np.clip(bounded, last - JERK_DOWN_MPS3 * h_s, np.maximum(last, 0.0) + JERK_UP_MPS3 * h_s)


def turn_speed(angle_rad: Floats, heavy: Floats) -> Floats:
    """Speed for a turn at a junction, m/s: none below about 15 degrees, a walking pace beyond 120."""
    sharp = np.clip((np.abs(angle_rad) - 0.26) / 1.3, 0.0, 1.6)
    speed = np.where(sharp <= 0, 70.0, np.maximum(3.0, 12.5 - 7.5 * sharp))
    return np.where((sharp > 0) & (heavy > 0), np.maximum(2.5, 0.75 * speed), speed)


def steer(
    lat: Floats, lon: Floats, heading: Floats, v: Floats, aim_lat: Floats, aim_lon: Floats
) -> tuple[Floats, Floats]:
    """Curvature towards the aim point by pure pursuit, and the distance to it; 1/m, right positive."""
    north, east = metres_per_degree(lat)
    dx, dy = (aim_lon - lon) * east, (aim_lat - lat) * north
    distance = np.maximum(np.hypot(dx, dy), 1.0)
    off = np.clip(wrap_pi(np.arctan2(dx, dy) - heading), -1.5, 1.5)
    most = np.minimum(0.17, 4.5 / np.maximum(v, 1.0) ** 2)
    return np.clip(2 * np.sin(off) / distance, -most, most), distance


def aim_distance(v: Floats) -> Floats:
    """How far ahead the driver aims, m."""
    return np.clip(5.0 + 0.9 * v, 6.0, 38.0)


def move(
    lat: Floats, lon: Floats, heading: Floats, yaw: Floats, step_m: Floats
) -> tuple[Floats, Floats, Floats]:
    """Position after ``step_m`` along an arc that turns by ``yaw`` (rad), and the new heading."""
    middle = heading + yaw / 2
    north, east = metres_per_degree(lat)
    return (
        lat + step_m * np.cos(middle) / north,
        lon + step_m * np.sin(middle) / east,
        np.remainder(heading + yaw, 2 * np.pi),
    )


def road_power_w(
    v: Floats, a: Floats, slope: Floats, mass: Floats, drag_m2: Floats, rolling: Floats
) -> Floats:
    """Power at the wheels, W: P = v (1.03 m a + m g Crr + m g sin(grade) + 0.5 rho Cd A v^2)."""
    power: Floats = v * (1.03 * mass * a + mass * G * (rolling + slope) + 0.5 * AIR_KG_M3 * drag_m2 * v * v)
    return power
