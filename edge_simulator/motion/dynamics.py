"""How a driver moves a vehicle: following, stopping, steering. Pure functions over [n_vehicles] arrays.

Following is the intelligent driver model (Treiber, Hennecke and Helbing, 2000) in the form IDM+ (Schakel,
2010: the lesser of the free and the following term), under a speed from which one can stop behind the vehicle
ahead (Krauss, 1998), so that no step length leads to an overlap. Steering is pure pursuit of a point ahead.
"""

import numpy as np

from edge_simulator.geo import Floats

STANDSTILL_GAP_M = 2.0
JERK_UP_MPS3 = 2.5
JERK_DOWN_MPS3 = 5.0
JERK_EMERGENCY_MPS3 = 14.0
LEADER_BRAKES_MPS2 = 7.0  # what a vehicle ahead is expected to do at worst
WIDEST_OFF = 0.9975  # sine of the largest angle to the aim point that is steered for
G = 9.81
AIR_KG_M3 = 1.2


def wanted_accel(v: Floats, v_wanted: Floats, accel: Floats, brake: Floats) -> Floats:
    """Acceleration on a free road: towards the wanted speed, m/s2."""
    ratio = v / np.maximum(v_wanted, 0.3)
    ratio *= ratio
    ratio *= ratio
    free = accel - accel * ratio
    over = np.maximum((v_wanted - v) * 1.25, -1.3 * brake)
    return np.where(v > v_wanted, over, free)


def interaction(
    v: Floats, closing: Floats, gap: Floats, accel: Floats, time_s: Floats, per_closing: Floats
) -> Floats:
    """Deceleration that an obstacle asks for, m/s2, >= 0. ``closing``: own speed less the obstacle's."""
    wanted = closing * per_closing
    wanted += time_s
    wanted *= v
    np.maximum(wanted, 0.0, out=wanted)
    wanted += STANDSTILL_GAP_M
    wanted /= np.maximum(gap, 0.5)
    wanted *= wanted
    wanted *= accel
    return np.minimum(wanted, 0.7 * v + accel + 0.5)


def safe_speed(gap: Floats, leader_v: Floats, hardest: Floats, h_s: float) -> Floats:
    """From which one can still stop behind the leader, m/s: v h + v^2 / 2b <= gap + u^2 / 2c, h the step."""
    reserve = leader_v * leader_v
    reserve *= hardest / LEADER_BRAKES_MPS2
    reserve += 2 * hardest * np.maximum(gap - 0.5, 0.0)
    reach = hardest * h_s
    reserve += reach * reach
    return np.sqrt(reserve) - reach


def pursuit(dx_m: Floats, dy_m: Floats, east: Floats, north: Floats, v: Floats) -> Floats:
    """Curvature (1/m, right positive) towards a point; ``east``, ``north``: the heading as a vector."""
    distance = np.maximum(np.sqrt(dx_m * dx_m + dy_m * dy_m), 1.0)
    sine = (dx_m * north - dy_m * east) / distance
    ahead = dx_m * east + dy_m * north > 0.0707 * distance
    sine = np.where(ahead, sine, np.copysign(WIDEST_OFF, sine))
    bent = np.maximum(v, 1.0)
    bent *= bent
    most = np.minimum(0.17, 4.5 / bent)
    curvature = 2 * sine / distance
    return np.minimum(np.maximum(curvature, -most), most)


def sine_cosine(angle: Floats) -> tuple[Floats, Floats]:
    """Sine and cosine of small angles (series, 1e-9 at 0.25 rad)."""
    square = angle * angle
    cosine = 1 - square * (0.5 - square * (1 / 24 - square * (1 / 720 - square / 40320)))
    return angle * (1 - square * (1 / 6 - square * (1 / 120 - square / 5040))), cosine


def road_power_w(v: Floats, a: Floats, slope: Floats, mass: Floats, drag: Floats, rolling: Floats) -> Floats:
    """Power at the wheels, W: P = v (1.03 m a + m g Crr + m g sin(grade) + 0.5 rho Cd A v^2)."""
    return v * (1.03 * mass * a + mass * G * (rolling + slope) + 0.5 * AIR_KG_M3 * drag * v * v)
