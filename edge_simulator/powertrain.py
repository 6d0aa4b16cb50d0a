"""Engine, gearbox and traction battery. Pure functions over [n_vehicles] arrays."""

from __future__ import annotations

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints

DRIVELINE = 0.90
OVERRUN_RPM = 1100.0
REGEN_SHARE = 0.65


def shift(
    gear: Ints, v_kmh: Floats, hurry: Floats, rpm_per_kmh: Floats, gears: Ints, up: Floats, down: Floats
) -> Ints:
    """The gear after at most one shift. ``hurry`` 0..1 delays the shift up by half; gear 0 stands still."""
    row = np.arange(len(gear))
    rpm = rpm_per_kmh[row, np.maximum(gear, 1) - 1] * v_kmh
    higher = (rpm > up * (1 + 0.5 * hurry)) & (gear < gears) & (gear > 0)
    lower = (rpm < down) & (gear > 1)
    shifted = gear + higher.astype(np.int64) - lower.astype(np.int64)
    return np.where(v_kmh < 1.0, 0, np.maximum(shifted, 1))


def engine_rpm(gear: Ints, v_kmh: Floats, rpm_per_kmh: Floats, idle: Floats, running: Bools) -> Floats:
    """Engine speed: idle with the clutch open, else gear ratio times road speed; 0 when off."""
    ratio = rpm_per_kmh[np.arange(len(gear)), np.maximum(gear, 1) - 1]
    geared = np.where(gear > 0, ratio * v_kmh, 0.0)
    return np.where(running, np.maximum(geared, idle), 0.0)


def friction_w(rpm: Floats, fmep_kpa: Floats, engine_l: Floats) -> Floats:
    """Engine friction, W: P = fmep Vd rpm / 120."""
    return fmep_kpa * engine_l * rpm / 120.0


def brake_power_w(wheel_w: Floats, aux_w: Floats) -> Floats:
    """Power at the crankshaft: wheels through the driveline, and auxiliaries."""
    return np.maximum(wheel_w, 0.0) / DRIVELINE + aux_w


def fuel_w(
    brake_w: Floats, wheel_w: Floats, rpm: Floats, friction: Floats, efficiency: Floats, gear: Ints
) -> Floats:
    """Fuel power by Willans' line, W; none in overrun and none with the engine off."""
    overrun = (wheel_w < 0) & (rpm > OVERRUN_RPM) & (gear > 0)
    burning = (brake_w + friction) / np.maximum(efficiency, 0.01)
    return np.where((rpm > 0) & ~overrun, burning, 0.0)


def load_pct(brake_w: Floats, friction: Floats, rpm: Floats, torque_nm: Floats, rated_w: Floats) -> Floats:
    """Calculated load: power with friction over what the engine can give at this speed."""
    share = np.minimum(1.0, 0.55 + 0.45 * rpm / 2000.0)
    most = np.minimum(torque_nm * share * rpm * np.pi / 30.0, rated_w) + friction
    return np.where(rpm > 0, np.clip(100 * (brake_w + friction) / np.maximum(most, 1.0), 0, 100), 0.0)


def pack_power_w(wheel_w: Floats, aux_w: Floats, on: Bools, rated_w: Floats) -> Floats:
    """Power out of the traction battery, W; negative while braking feeds it."""
    drive = np.minimum(np.maximum(wheel_w, 0) / DRIVELINE, rated_w / DRIVELINE)
    regen = np.maximum(np.minimum(wheel_w, 0) * REGEN_SHARE, -0.5 * rated_w)
    return np.where(on, drive + regen + aux_w, 0.0)


def open_circuit_v(soc: Floats, nominal_v: Floats) -> Floats:
    """Open-circuit voltage of a lithium pack by state of charge 0..1."""
    return nominal_v * (0.88 + 0.20 * soc - 0.06 * np.exp(-18 * soc) + 0.03 * soc**6)


def pack_current_a(power_w: Floats, ocv: Floats, ohm: Floats) -> Floats:
    """Current for a power: the smaller root of P = (OCV - I R) I, discharge positive."""
    root = np.sqrt(np.maximum(ocv**2 - 4 * ohm * power_w, 0.0))
    current: Floats = (ocv - root) / (2 * ohm)
    return current
