"""The inner state of the vehicles, and how it begins: warm from the road, or cold after standing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edge_simulator.geo import Floats, Ints
from edge_simulator.vehicle import thermal
from edge_simulator.vehicle.hybrid import LOW_SOC
from edge_simulator.vehicle.vehicles import Specs

MATES_APART = 0.003
"""Half the most that healthy tyres of an axle differ by, as a share of their air: 6 kPa for a truck."""


@dataclass(slots=True)
class MachineState:
    """The quantities that change, each [n_vehicles] unless said; powers in W are means over the last step."""

    gear: Ints
    rpm: Floats
    wheel_w: Floats
    engine_w: Floats
    """Shaft power of the engine, or what the gearbox asks for where there is none."""
    brake_w: Floats
    """Power into the friction brakes, at the wheels, >= 0."""
    fuel_w: Floats
    fuel_j: Floats
    """Fuel burnt since heat was last worked out."""
    load_pct: Floats
    fuel_l: Floats
    coolant_c: Floats
    oil_c: Floats
    disc_c: Floats
    """Brake discs, [4, n_vehicles]. No signal carries them."""
    tyre_mass: Floats
    """Air in the tyre relative to the placard's, [4, n_vehicles]; so are the next two."""
    tyre_air_c: Floats
    pad_wear: Floats
    soot_pct: Floats
    soc: Floats
    pack_a: Floats
    pack_v: Floats
    cell_c: Floats
    motor_c: Floats
    soc_12v: Floats
    trim_short: Floats
    crank_v: Floats
    """Lowest voltage of a start that the next report still has to tell, inf when none."""


def initial(
    specs: Specs, rng: np.random.Generator, ambient_c: float, soak_s: Floats | None = None
) -> MachineState:
    """The state after ``soak_s`` seconds of standing, [n_vehicles]; none: on the road for a while."""
    state = _warm(specs, rng, ambient_c)
    if soak_s is not None:
        _cool(state, specs, ambient_c, soak_s)
    return state


def _warm(specs: Specs, rng: np.random.Generator, ambient_c: float) -> MachineState:
    """A fleet that has been on the road for a while."""
    n = len(specs.model)
    coolant = np.where(specs("engine_l") > 0, rng.uniform(82, 89, n), ambient_c)
    air = ambient_c + rng.uniform(4, 16, (4, n))
    state = MachineState(
        gear=np.zeros(n, dtype=np.int64), rpm=np.zeros(n), wheel_w=np.zeros(n), engine_w=np.zeros(n),
        brake_w=np.zeros(n), fuel_w=np.zeros(n), fuel_j=np.zeros(n), load_pct=np.zeros(n),
        fuel_l=specs("tank_l") * rng.uniform(0.25, 0.98, n), coolant_c=coolant,
        oil_c=coolant + rng.uniform(-4, 5, n), disc_c=np.full((4, n), ambient_c + 30.0),
        tyre_mass=_inflated(rng, n), tyre_air_c=air,
        pad_wear=rng.uniform(5, 70, n)[None, :] + rng.uniform(-3, 3, (4, n)), soot_pct=rng.uniform(8, 70, n),
        soc=rng.uniform(0.35, 0.95, n), pack_a=np.zeros(n), pack_v=specs("pack_v").copy(),
        cell_c=ambient_c + rng.uniform(2, 9, n), motor_c=ambient_c + rng.uniform(10, 30, n),
        soc_12v=rng.uniform(0.75, 0.95, n), trim_short=rng.normal(0, 1.5, n), crank_v=np.full(n, np.inf),
    )  # fmt: skip
    hybrid = (specs("engine_l") > 0) & (specs("motor_kw") > 0)
    state.soc = np.where(hybrid, LOW_SOC + 0.3 * (state.soc - 0.35), state.soc)
    return state


def _inflated(rng: np.random.Generator, n: int) -> Floats:
    """Air in the tyres, [4, n]: axles are off by a few kPa, the two wheels of an axle hardly differ."""
    drawn = rng.normal(0.0, 0.012, (4, n))
    axle = (drawn[0::2] + drawn[1::2]) / 2
    apart = np.clip(0.15 * (drawn[0::2] - drawn[1::2]), -MATES_APART, MATES_APART)
    return 1 + np.stack([axle[0] + apart[0], axle[0] - apart[0], axle[1] + apart[1], axle[1] - apart[1]])


def _cool(state: MachineState, specs: Specs, ambient_c: float, soak_s: Floats) -> None:
    """Let everything warm approach the ambient temperature, each with its own time constant."""
    engine_s = thermal.standing_tau_s(specs("thermal_kj_k"), specs("cooling_w_k"))
    for name, tau_s in (
        ("coolant_c", engine_s),
        ("oil_c", engine_s),
        ("disc_c", thermal.DISC_STANDING_S),
        ("tyre_air_c", thermal.TYRE_S),
        ("cell_c", thermal.cell_j_k(specs("pack_kwh")) / thermal.CELL_W_K),
        ("motor_c", thermal.MOTOR_S),
    ):
        warm = getattr(state, name)
        setattr(state, name, ambient_c + (warm - ambient_c) * np.exp(-soak_s / tau_s))
