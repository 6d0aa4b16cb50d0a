"""How drivers differ: styles as data, and one driver for every vehicle drawn from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edge_simulator.geo import Floats, Ints
from edge_simulator.motion.fleet_state import State
from edge_simulator.vehicle.vehicles import Specs

SPREAD = 0.2  # log-normal spread of one driver's habits around the style's (domain.md, section 5)
COMFORT_FLOOR_MPS2 = {"car": -3.5, "van": -3.0, "heavy": -2.4}
HARDEST_MPS2 = {"car": 8.5, "van": 7.5, "heavy": 6.0}  # what tyres and brakes give in an emergency


@dataclass(frozen=True, slots=True)
class Style:
    """A way to drive. Factors apply to the vehicle model's figures; rates are per hour at the wheel."""

    name: str
    share: float
    accel: float
    brake: float
    headway: float
    limit_factor: float  # wanted speed as a share of the limit
    corner: float  # speed in bends and turns, as a share of the usual one
    startles_per_h: float  # somebody has to brake hard: what happens ahead was seen late
    sprints_per_h: float  # hard acceleration that nothing asks for


STYLES = (
    Style("calm", 0.27, 0.80, 0.85, 1.20, 0.93, 0.92, 0.12, 0.0),
    Style("normal", 0.50, 1.00, 1.00, 0.95, 0.98, 1.00, 0.30, 0.0),
    Style("brisk", 0.16, 1.25, 1.20, 0.85, 1.04, 1.08, 0.90, 1.5),
    Style("aggressive", 0.07, 1.60, 1.55, 0.70, 1.13, 1.20, 3.00, 12.0),
)


@dataclass(frozen=True, slots=True)
class Drivers:
    """What makes drivers differ; each [n_vehicles]."""

    style: Ints
    accel: Floats
    brake: Floats
    headway_s: Floats
    per_closing: Floats  # 1 / (2 sqrt(accel brake)), s^2/m: how the following model weighs the closing speed
    limit_factor: Floats
    corner2: Floats  # square of the corner factor
    approach: Floats  # deceleration for a turn that is seen coming, m/s2
    floor: Floats  # the hardest braking outside an emergency, m/s2 (negative)
    hardest: Floats  # the hardest braking of all, m/s2
    top_mps: Floats
    pull: Floats  # usable power over mass, W/kg
    length_m: Floats
    heavy: Floats


def drivers(specs: Specs, rng: np.random.Generator) -> Drivers:
    """A driver for every vehicle: a style by the shares, and a spread of one's own."""
    n = len(specs.model)
    style = rng.choice(len(STYLES), n, p=[s.share for s in STYLES])
    spread = np.exp(np.clip(rng.normal(0.0, SPREAD, (3, n)), -2 * SPREAD, 2 * SPREAD))

    def of_style(name: str) -> Floats:
        return np.array([getattr(s, name) for s in STYLES])[style]

    mass, kind = specs("mass_kg"), specs.kind
    accel = specs("accel_mps2") * spread[0] * of_style("accel")
    brake = specs("brake_mps2") * spread[1] * of_style("brake")
    rash = of_style("brake") > 1.5
    return Drivers(
        style=style, accel=accel, brake=brake,
        headway_s=specs("headway_s") * spread[2] * of_style("headway"),
        per_closing=0.5 / np.sqrt(accel * brake),
        limit_factor=np.clip(rng.normal(0.0, 0.04, n) + of_style("limit_factor"), 0.82, 1.3),
        corner2=np.where(kind == 2, np.minimum(of_style("corner"), 1.0), of_style("corner")) ** 2,
        approach=np.minimum(0.8 * brake, 1.6),
        floor=np.array(list(COMFORT_FLOOR_MPS2.values()))[kind] * np.where(rash, 1.4, 1.0),
        hardest=np.array(list(HARDEST_MPS2.values()))[kind],
        top_mps=specs("top_kmh") / 3.6, pull=850 * specs("power_kw") / mass, length_m=specs("length_m"),
        heavy=(mass > 10_000).astype(np.float64),
    )  # fmt: skip


class Moods:
    """When drivers brake hard or sprint: drawn for the whole fleet at once, then dealt out by their rates."""

    def __init__(self, who: Drivers, rng: np.random.Generator) -> None:
        startles = np.array([s.startles_per_h for s in STYLES])[who.style] / 3600
        sprints = np.array([s.sprints_per_h for s in STYLES])[who.style] / 3600
        self._startles = np.cumsum(startles)
        self._sprints = np.cumsum(np.where(who.heavy > 0, 0.0, sprints))
        self._rng = rng

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
