"""The motion as arrays, drivers and how each moves a vehicle: following, stopping, steering; [n_vehicles].

Following is the intelligent driver model (Treiber, Hennecke and Helbing, 2000) in the form IDM+ (Schakel,
2010: the lesser of the free and the following term), under a speed from which one can stop behind the vehicle
ahead (Krauss, 1998), so that no step length leads to an overlap. Steering is pure pursuit of a point ahead.
"""

import numpy as np

from edge_simulator.geo import G_MPS2, Bools, Floats, Ints
from edge_simulator.motion.agenda import Start
from edge_simulator.town.roads import RoadNetwork
from edge_simulator.vehicle.vehicles import Specs

STANDSTILL_GAP_M = 2.0
JERK_UP_MPS3 = 2.5
JERK_DOWN_MPS3 = 5.0
JERK_EMERGENCY_MPS3 = 14.0
LEADER_BRAKES_MPS2 = 7.0  # what a vehicle ahead is expected to do at worst
WIDEST_OFF = 0.9975  # sine of the largest angle to the aim point that is steered for
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
    return v * (1.03 * mass * a + mass * G_MPS2 * (rolling + slope) + 0.5 * AIR_KG_M3 * drag * v * v)


class State:
    """The motion, each [n_vehicles], from where the agenda has it. Times are ``Fleet.t_s``; inf is never."""

    def __init__(self, net: RoadNetwork, begin: Start, rng: np.random.Generator) -> None:
        n, parked = len(begin.edge), begin.parked.copy()
        self.edge, self.s = begin.edge.copy(), begin.s.copy()  # s: distance along the edge, m
        point, share = net.locate(self.edge, self.s)
        self.lane: Ints = np.zeros(n, dtype=np.int64)  # 0 except where the edge has two
        self.next_edge = self.edge.copy()
        self.goal, self.goal_s = begin.goal.copy(), begin.goal_s.copy()  # edge on whose street the trip ends
        self.purpose = begin.purpose.copy()  # of the trip, or of the next one: index of agenda.PURPOSES
        self.park_at = np.full(n, np.inf)  # where on the present edge the trip ends, inf where it goes on
        self.turn_v = np.zeros(n)
        self.lat, self.lon = net.position(self.edge, self.s)
        self.east, self.north = net.part_east[point], net.part_north[point]  # the heading as a unit vector
        self.heading: Floats = np.arctan2(self.east, self.north) % (2 * np.pi)
        self.odometer_m = np.round(rng.uniform(5e6, 1.8e8, n))
        self.v: Floats = np.where(parked, 0.0, 0.5 * net.limit_kmh[self.edge] / 3.6)
        self.a: Floats = np.zeros(n)
        self.yaw_rps, self.curvature = np.zeros(n), np.zeros(n)  # right positive, as headings grow
        self.slope: Floats = net.part_slope[point]
        self.altitude = net.point_alt[point] + share * net.part_dalt[point]
        self.on_road = ~parked  # in the lane: neither at the kerb nor a wreck that others have begun to pass
        self.parked = parked
        self.idling = begin.idling & parked  # parked with the ignition on
        self.at_base = begin.base & parked  # parked at home or at the depot
        self.parked_since_s = np.where(parked, -begin.parked_for_s, np.inf)
        self.wake_s = begin.wake_s.copy()
        self.started_s = np.full(n, -900.0)  # when the ignition last went on
        self.through = np.zeros(n, dtype=np.bool_)  # cannot or need not stop before the junction any more
        self.waited_s = np.zeros(n)  # time spent standing at a junction, not for a red signal
        self.emergency_until, self.emergency_mps2 = np.full(n, -1.0), np.zeros(n)
        self.crashed: Bools = np.zeros(n, dtype=np.bool_)
        self.impact_mps = np.zeros(n)  # speed to take off in the next step: a collision
        self.broken = np.zeros(n, dtype=np.bool_)  # cannot go on: crashed or broken down

    def renew(self) -> None:
        """Copies in the place of the arrays that a step writes: who holds the old ones keeps that moment."""
        for name in ("edge", "s", "v", "a", "lat", "lon", "heading", "odometer_m", "yaw_rps", "parked"):
            setattr(self, name, getattr(self, name).copy())


SPREAD = 0.2  # log-normal spread of one driver's habits around the style's (eng.)
COMFORT_FLOOR_MPS2 = np.array([-3.5, -3.0, -2.4])  # of a car, a van, a heavy vehicle
HARDEST_MPS2 = np.array([8.5, 7.5, 6.0])  # what tyres and brakes give in an emergency


STYLES = {
    "share": (0.27, 0.50, 0.16, 0.07),
    "accel": (0.80, 1.00, 1.25, 1.60),
    "brake": (0.85, 1.00, 1.20, 1.55),
    "headway": (1.20, 0.95, 0.85, 0.70),
    "limit_factor": (0.93, 0.98, 1.04, 1.13),  # wanted speed as a share of the limit
    "corner": (0.92, 1.00, 1.08, 1.20),  # speed in bends and turns, as a share of the usual one
    "startles_per_h": (0.12, 0.30, 0.90, 3.00),  # somebody brakes hard: what happens ahead was seen late
    "sprints_per_h": (0.0, 0.0, 1.5, 12.0),  # hard acceleration that nothing asks for
}
"""Calm, normal, brisk, aggressive: factors of the vehicle model's figures; rates per hour at the wheel."""


class Drivers:
    """A driver for every vehicle, each [n_vehicles]: a style by the shares, and a spread of one's own."""

    def __init__(self, specs: Specs, rng: np.random.Generator) -> None:
        n = len(specs.model)
        self._style: Ints = rng.choice(len(STYLES["share"]), n, p=STYLES["share"])
        spread = np.exp(np.clip(rng.normal(0.0, SPREAD, (3, n)), -2 * SPREAD, 2 * SPREAD))
        mass, kind, corner = specs("mass_kg"), specs.kind, self.of_style("corner")
        self.accel: Floats = specs("accel_mps2") * spread[0] * self.of_style("accel")
        self.brake: Floats = specs("brake_mps2") * spread[1] * self.of_style("brake")
        self.headway_s: Floats = specs("headway_s") * spread[2] * self.of_style("headway")
        self.per_closing = 0.5 / np.sqrt(self.accel * self.brake)
        drawn = rng.normal(0.0, 0.04, n)
        self.limit_factor = np.clip(drawn + self.of_style("limit_factor"), 0.82, 1.3)
        self.corner2 = np.where(kind == 2, np.minimum(corner, 1.0), corner) ** 2  # squared factor
        self.approach = np.minimum(0.8 * self.brake, 1.6)  # deceleration for a turn that is seen coming, m/s2
        rash = np.where(self.of_style("brake") > 1.5, 1.4, 1.0)
        self.floor = COMFORT_FLOOR_MPS2[kind] * rash  # the hardest braking outside an emergency (negative)
        self.hardest = HARDEST_MPS2[kind]
        self.top_mps = specs("top_kmh") / 3.6
        self.pull = 850 * specs("power_kw") / mass  # usable power over mass, W/kg
        self.length_m, self.heavy = specs("length_m"), (mass > 10_000).astype(np.float64)

    def of_style(self, name: str) -> Floats:
        """A figure of STYLES for each driver."""
        return np.array(STYLES[name])[self._style]


class Moods:
    """When drivers brake hard or sprint: drawn for the whole fleet at once, then dealt out by their rates."""

    def __init__(self, who: Drivers, rng: np.random.Generator) -> None:
        self._startles, self._rng = np.cumsum(who.of_style("startles_per_h") / 3600), rng
        self._sprints = np.cumsum(np.where(who.heavy > 0, 0.0, who.of_style("sprints_per_h") / 3600))

    def strike(self, st: State, t_s: float, h_s: float) -> None:
        """Startle some of the drivers, let others sprint, as chance has it in ``h_s``."""
        rows = self._draw(self._startles, h_s)
        if len(rows):
            rows = rows[st.v[rows] > 7.0]
            st.emergency_until[rows] = t_s + self._rng.uniform(0.9, 1.9, len(rows))
            st.emergency_mps2[rows] = -self._rng.uniform(3.6, 6.8, len(rows))
        rows = self._draw(self._sprints, h_s)
        if len(rows):
            rows = rows[(st.v[rows] > 2.0) & (st.emergency_until[rows] < t_s)]
            st.emergency_until[rows] = t_s + self._rng.uniform(1.2, 2.6, len(rows))
            st.emergency_mps2[rows] = self._rng.uniform(3.2, 4.6, len(rows))

    def _draw(self, rates: Floats, h_s: float) -> Ints:
        """Vehicles whom it meets in a step; ``rates`` is the running sum of 1/s."""
        count = self._rng.poisson(rates[-1] * h_s)
        found: Ints = np.searchsorted(rates, self._rng.random(count) * rates[-1], side="right")
        return found
