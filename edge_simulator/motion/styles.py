"""How drivers differ: styles as data, and one driver for every vehicle drawn from them."""

import numpy as np

from edge_simulator.geo import Floats, Ints
from edge_simulator.motion.dynamics import State
from edge_simulator.vehicle.vehicles import Specs

SPREAD = 0.2  # log-normal spread of one driver's habits around the style's (domain.md, section 5)
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
