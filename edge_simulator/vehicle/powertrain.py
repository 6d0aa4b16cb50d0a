"""Engine, gearbox and traction battery. Pure functions over arrays, powers in W."""

from __future__ import annotations

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints

COUPLED_RPM = 1100.0  # below it the clutch is open while braking, so the wheels drive no engine
MOTOR = 0.92  # efficiency of motor and inverter, either way
REGEN_SHARE = 0.9
"""Share of braking that the motor takes as long as motor and battery can; the rest stays with the brakes."""
REGEN_FADE_MPS = 3.0  # below it the motor's share falls to nothing at standstill
FULL_SOC = 0.98  # A battery takes no braking energy from here on; 4 points below it takes all


def slip(worn: Floats, gear: Ints, load: Floats) -> Floats:
    """Slip of the gearbox, share of engine speed: all of ``worn`` above 40 % load, none below 25 %."""
    return np.where(gear > 0, worn * np.clip((load - 25.0) / 15.0, 0.0, 1.0), 0.0)


def friction_w(rpm: Floats, fmep_kpa: Floats, engine_l: Floats) -> Floats:
    """Engine friction: P = fmep Vd rpm / 120."""
    return fmep_kpa * engine_l * rpm / 120.0


def shaft_w(wheel_w: Floats, driveline: Floats) -> Floats:
    """Power at the gearbox's input for a power at the wheels; the driveline's loss is there either way."""
    return np.maximum(wheel_w / driveline, wheel_w * driveline)


def engine_w(shaft: Floats, coupled: Bools, belt_w: Floats, friction: Floats) -> Floats:
    """Indicated power that a running engine is asked for: shaft, belt and friction; negative in overrun.

    A negative ``shaft`` reaches only an engine that is coupled to the wheels.
    """
    return np.maximum(shaft, shaft * coupled) + belt_w + friction


def fuel_w(indicated_w: Floats, efficiency: Floats) -> Floats:
    """Fuel power by Willans' line; none in overrun, when the wheels cover friction and belt."""
    return np.maximum(indicated_w, 0.0) / efficiency


def brakes_w(wheel_w: Floats, indicated_w: Floats, coupled: Bools, driveline: Floats) -> Floats:
    """What is left of a deceleration for the friction brakes, at the wheels, >= 0."""
    return np.maximum(-np.where(coupled, indicated_w / driveline, wheel_w), 0.0)


def most_w(rpm: Floats, torque_nm: Floats, rated_w: Floats) -> Floats:
    """What the engine can give at this speed."""
    share = np.minimum(1.0, 0.55 + 0.45 * rpm / 2000.0)
    return np.minimum(torque_nm * share * rpm * np.pi / 30.0, rated_w)


def load_pct(indicated_w: Floats, friction: Floats, most: Floats) -> Floats:
    """Calculated load: indicated power over the most that there is at this speed."""
    return np.clip(100 * indicated_w / np.maximum(most + friction, 1.0), 0.0, 100.0)


def motor_w(rest_w: Floats, shaft: Floats, v_mps: Floats, regen_most_w: Floats) -> Floats:
    """Shaft power of the motor: all of the rest when driving; when braking its share, negative."""
    share = REGEN_SHARE * np.minimum(v_mps / REGEN_FADE_MPS, 1.0)
    return np.where(shaft < 0, np.maximum(rest_w * share, -regen_most_w), rest_w)


def electric_w(motor: Floats, aux_w: Floats) -> Floats:
    """Power out of the traction battery for a motor's shaft power; negative feeds it."""
    return np.maximum(motor / MOTOR, motor * MOTOR) + aux_w


def regen_most_w(soc: Floats, rated_w: Floats) -> Floats:
    """The most that the motor may take from braking: a full battery takes nothing."""
    return rated_w * np.clip((FULL_SOC - soc) / 0.04, 0.0, 1.0)


def charger_w(soc: Floats, rated_w: Floats) -> Floats:
    """Power from a charger into the battery: constant to 80 %, then falling to nothing when full."""
    return rated_w * np.clip((1.0 - soc) / 0.2, 0.0, 1.0)


def open_circuit_v(soc: Floats, nominal_v: Floats) -> Floats:
    """Open-circuit voltage of a lithium pack by state of charge 0..1."""
    return nominal_v * (0.88 + 0.20 * soc - 0.06 * np.exp(-18 * soc) + 0.03 * soc**6)


def pack_current_a(power_w: Floats, ocv: Floats, ohm: Floats) -> Floats:
    """Current for a power: the smaller root of P = (OCV - I R) I, discharge positive."""
    root = np.sqrt(np.maximum(ocv * ocv - 4 * ohm * power_w, 0.0))
    return (ocv - root) / (2 * ohm)
