"""Heat: coolant, oil, tyres, traction battery. One explicit Euler step each; pure, [n_vehicles] or [4, n]."""

from __future__ import annotations

import numpy as np

from edge_simulator.geo import Floats

STANDARD_KPA = 101.325
THERMOSTAT_C = (84.0, 95.0)
FAN_C = (89.0, 105.0)


def coolant_step(
    t_c: Floats, ambient_c: Floats, fuel_w: Floats, v_mps: Floats, h_s: float, c_kj_k: Floats, ua_w_k: Floats,
    blocked: Floats,
) -> Floats:  # fmt: skip
    """C dT/dt = q Pfuel - UA (T - Ta) - thermostat - fan.

    ``blocked`` 0..1 is the share of the cooling that a fault takes away; lost coolant also leaves less
    mass to warm, so the fault shortens the time constant.
    """
    over = t_c - ambient_c
    share = np.where(v_mps > 2, 0.30, 0.45)
    opening = np.clip((t_c - THERMOSTAT_C[0]) / (THERMOSTAT_C[1] - THERMOSTAT_C[0]), 0, 1)
    fan = np.clip((t_c - FAN_C[0]) / (FAN_C[1] - FAN_C[0]), 0, 1)
    radiator = ua_w_k * opening * (4.0 + 1.2 * np.minimum(v_mps, 30.0)) + ua_w_k * 12 * fan
    heat = share * fuel_w - (ua_w_k + radiator) * (1 - blocked) * over
    capacity = 1000 * c_kj_k * (1 - 0.82 * blocked)
    warmed: Floats = t_c + np.clip(h_s * heat / capacity, -3.0 * h_s, 3.0 * h_s)
    return np.minimum(warmed, 148.0)


def towards(value: Floats, target: Floats, h_s: float, tau_s: float) -> Floats:
    """First-order lag."""
    moved: Floats = value + (target - value) * (1 - np.exp(-h_s / tau_s))
    return moved


def oil_pressure_kpa(rpm: Floats, oil_c: Floats) -> Floats:
    """Oil pressure: rises with engine speed up to the relief valve, falls as the oil thins."""
    thin = np.clip(1.35 - 0.0042 * oil_c, 0.75, 1.4)
    return np.where(rpm > 0, np.minimum((70 + 0.115 * rpm) * thin, 480.0), 0.0)


def tyre_kpa(mass: Floats, cold_kpa: Floats, air_c: Floats) -> Floats:
    """Gauge pressure by the ideal gas law; ``cold_kpa`` at 20 C with the air ``mass`` 1."""
    kpa: Floats = mass * (cold_kpa + STANDARD_KPA) * (air_c + 273.15) / 293.15 - STANDARD_KPA
    return np.maximum(kpa, 0.0)


def rest_voltage(soc_12v: Floats) -> Floats:
    """A 12 V battery at rest, V."""
    volts: Floats = 12.0 + 0.7 * soc_12v
    return volts
