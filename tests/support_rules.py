"""The health rules on a drive's history: where each holds, [seconds, n_vehicles]."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from edge_simulator.geo import Bools, Floats
from infra.contract.signals import WHEELS
from tests.support_faults import Drive

PATM_KPA = 101.325


def lasting(holds: Bools, seconds: int) -> Bools:
    """Whether it has held for so many seconds on end."""
    return since(~holds) >= seconds


def since(event: Bools, before: int = 0) -> Floats:
    """Seconds since it was true last; ``before`` more for the time before the drive."""
    out = np.zeros(event.shape)
    count = np.full(event.shape[1], float(before))
    for t in range(len(event)):
        count = np.where(event[t], 0, count + 1)
        out[t] = count
    return out


def over(values: Floats, seconds: int) -> Floats:
    """Mean of the last so many seconds; NaN before there are as many."""
    total = np.cumsum(np.vstack([np.zeros((1, values.shape[1])), values]), axis=0)
    out = np.full(values.shape, np.nan)
    out[seconds - 1 :] = (total[seconds:] - total[:-seconds]) / seconds
    return out


def cold_kpa(d: Drive, wheel: str) -> Floats:
    """Tyre pressure compensated to 20 C."""
    absolute = d[f"tyre_pressure_{wheel}_kpa"] + PATM_KPA
    return absolute * 293.15 / (d[f"tyre_temp_{wheel}_c"] + 273.15) - PATM_KPA


def _wheels(rule: Callable[[str], Bools]) -> Bools:
    return np.any([rule(w) for w in WHEELS], axis=0)


def _mate(wheel: str) -> str:
    return wheel[0] + ("r" if wheel[1] == "l" else "l")


def overheating(d: Drive) -> Bools:
    heavy = d.fleet.specs("mass_kg") > 10_000
    return lasting(d["coolant_temp_c"] > np.where(heavy, 109.0, 105.0), 30)


def overheating_critical(d: Drive) -> Bools:
    heavy = d.fleet.specs("mass_kg") > 10_000
    return lasting(d["coolant_temp_c"] > np.where(heavy, 114.0, 115.0), 5)


def thermostat_open(d: Drive) -> Bools:
    return (since(d["rpm"] <= 0, before=900) > 900) & (d["coolant_temp_c"] < 75.0)


def low_oil_pressure(d: Drive) -> Bools:
    floor = np.interp(d["rpm"], (700, 2500), (69, 207))
    started = since(d["rpm"] <= 0, before=900) > 10
    return lasting((d["rpm"] > 500) & started & (d["oil_pressure_kpa"] < floor), 2)


def weak_battery(d: Drive) -> Bools:
    engine = ~d.machine.electric
    return engine & (((d["on"] == 0) & (d["battery_voltage_v"] < 12.2)) | (d["battery_voltage_v"] < 9.6))


def alternator(d: Drive) -> Bools:
    return lasting((d["on"] > 0) & (d["battery_voltage_v"] < 13.0), 60)


def overcharge(d: Drive) -> Bools:
    return lasting((d["on"] > 0) & (d["battery_voltage_v"] > 15.0), 10)


def slow_leak(d: Drive) -> Bools:
    """The part that an hour can tell: > 10 kPa below the axle mate, mean of a minute."""
    return _wheels(lambda w: over(cold_kpa(d, _mate(w)) - cold_kpa(d, w), 60) > 10.0)


def rapid_leak(d: Drive) -> Bools:
    """Fall by more than 20 kPa/min over 45 s, from means of 15 s at its ends."""

    def falls(wheel: str) -> Bools:
        mean = over(cold_kpa(d, wheel), 15)
        fall = np.zeros(mean.shape)
        fall[45:] = (mean[:-45] - mean[45:]) / 45 * 60
        return fall > 20.0

    return _wheels(falls)


def low_tyre(d: Drive) -> Bools:
    return _wheels(lambda w: d[f"tyre_pressure_{w}_kpa"] <= 0.75 * d.fleet.specs("placard_kpa"))


def hot_tyre(d: Drive) -> Bools:
    return _wheels(lambda w: d[f"tyre_temp_{w}_c"] > 90.0)


def sticking_caliper(d: Drive) -> Bools:
    return _wheels(lambda w: d[f"brake_pad_wear_{w}_pct"] - d[f"brake_pad_wear_{_mate(w)}_pct"] > 15.0)


def worn_pads(d: Drive) -> Bools:
    return _wheels(lambda w: d[f"brake_pad_wear_{w}_pct"] > 80.0)


def transmission_slip(d: Drive) -> Bools:
    """Only with the clutch closed: what the gear makes of the speed is above idle."""
    gear = d["gear"].astype(np.int64)
    ratio = d.fleet.specs.rpm_per_kmh[np.arange(gear.shape[1])[None, :], np.maximum(gear, 1) - 1]
    expected = ratio * d["speed_kmh"]
    steady = np.vstack([np.zeros((1, gear.shape[1]), np.bool_), np.diff(gear, axis=0) == 0])
    closed = (gear > 0) & (expected > 1.15 * d.fleet.specs("idle_rpm")) & ~d.machine.electric
    slips = d["rpm"] / np.maximum(expected, 1.0) - 1 > 0.06
    return lasting(steady, 5) & lasting(closed & slips & (d["engine_load_pct"] > 40), 5)


def _trim(d: Drive) -> Floats:
    petrol = ~d.machine.electric & ~d.machine.diesel
    return np.where(petrol, over(d["fuel_trim_short_pct"] + d["fuel_trim_long_pct"], 600), 0.0)


def lean_mixture(d: Drive) -> Bools:
    return _trim(d) > 10.0


def rich_mixture(d: Drive) -> Bools:
    return _trim(d) < -10.0


def dpf_blocked(d: Drive) -> Bools:
    return d.machine.diesel & (d["dpf_soot_pct"] > 80.0)


def cell_imbalance(d: Drive) -> Bools:
    spread_v = d["cell_voltage_max_v"] - d["cell_voltage_min_v"]
    return (d.fleet.specs("motor_kw") > 0) & lasting(
        (np.abs(d["pack_current_a"]) < 5) & (spread_v > 0.030), 5
    )


def thermal_runaway(d: Drive) -> Bools:
    hottest, volts = d["cell_temp_max_c"], d["pack_voltage_v"]
    rate = np.zeros(hottest.shape)
    rate[3:] = (hottest[3:] - hottest[:-3]) / 3
    drop = np.zeros(volts.shape)
    drop[60:] = 1 - volts[60:] / volts[:-60]
    return (d.fleet.specs("motor_kw") > 0) & (rate >= 1.0) & ((hottest >= 60.0) | (drop > 0.25))


def coolant_sensor_stuck(d: Drive) -> Bools:
    shown = np.round(d["coolant_temp_c"], 1)
    same = np.vstack([np.zeros((1, shown.shape[1]), np.bool_), np.diff(shown, axis=0) == 0])
    return lasting(same & (d["rpm"] > 0), 60)


def intermittent_dtc(d: Drive) -> Bools:
    """The same code has come at least three times."""
    out = np.zeros((len(d.codes), d.fleet.n), dtype=np.bool_)
    times = np.zeros(d.fleet.n)
    before: dict[int, list[str]] = {}
    for t, now in enumerate(d.codes):
        times[[v for v in now if v not in before]] += 1
        out[t] = times >= 3
        before = now
    return out


RULES: dict[str, Callable[[Drive], Bools]] = {
    rule.__name__: rule
    for rule in (
        overheating, thermostat_open, low_oil_pressure, weak_battery, alternator, overcharge, slow_leak,
        rapid_leak, hot_tyre, sticking_caliper, worn_pads, transmission_slip, lean_mixture, rich_mixture,
        dpf_blocked, cell_imbalance, thermal_runaway, coolant_sensor_stuck, intermittent_dtc,
    )
}  # fmt: skip
