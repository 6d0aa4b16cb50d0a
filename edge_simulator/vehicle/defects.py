"""What is broken in each vehicle: the only thing that faults change and the physics reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edge_simulator.geo import Floats


@dataclass(slots=True)
class Defects:
    """Each [n_vehicles], by wheel [4, n_vehicles] in the order of infra.contract.signals.WHEELS.

    All zero is healthy; ``coolant_held_c`` alone is NaN where the sensor is sound.
    """

    cooling_blocked: Floats
    """Share of the cooling that is gone, 0..1."""
    thermostat_open: Floats
    """How far the thermostat sticks open, 0..1."""
    oil_lost: Floats
    """Share of the oil pressure that is gone, 0..1."""
    battery_weak: Floats
    """Share of the 12 V battery's capacity that is gone, 0..1."""
    charge_lost: Floats
    """Share of the alternator's output that is gone, 0..1."""
    overcharge_v: Floats
    """What the regulator gives too much, V."""
    clutch_slip: Floats
    """Engine speed over what the gear makes of the road speed, less 1, under load."""
    mixture_pct: Floats
    """What the fuel trims have to add (lean) or take away (rich), %."""
    soot_to_pct: Floats
    """Soot that a filter which cannot regenerate fills up to, %; 0 is sound."""
    cell_apart_v: Floats
    """How far the weakest cell is below the others, V."""
    cell_heating_k_s: Floats
    """Self-heating of a failing cell, K/s."""
    cells_dead: Floats
    """Share of the pack's voltage that failing cells take away, 0..1."""
    leak_per_s: Floats
    """Share of a tyre's air lost each second, [4, n]."""
    rim_c: Floats
    """Temperature of a rim that a fault heats while the ignition is on, [4, n]; 0 is sound."""
    brake_drag_n: Floats
    """Force of a brake that does not let go, at the wheel's rim, N, [4, n]."""
    coolant_held_c: Floats
    """Reading that a stuck coolant sensor holds, NaN where it is sound."""

    @classmethod
    def none(cls, n: int) -> Defects:
        """A healthy fleet of ``n``."""
        by_wheel = {name: np.zeros((4, n)) for name in ("leak_per_s", "rim_c", "brake_drag_n")}
        names = [f for f in cls.__dataclass_fields__ if f not in by_wheel and f != "coolant_held_c"]
        return cls(**{f: np.zeros(n) for f in names}, **by_wheel, coolant_held_c=np.full(n, np.nan))
