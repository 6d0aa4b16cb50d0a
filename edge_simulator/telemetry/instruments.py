"""From the fleet's state to the signals of the contract: fast ones each sample, slow ones each frame."""

from __future__ import annotations

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.motion.fleet import Fleet
from edge_simulator.telemetry import gnss
from edge_simulator.vehicle import thermal
from edge_simulator.vehicle.machine import PETROL_MAF, Machine
from infra.contract.signals import WHEELS

STEERING_RATIO = 15.0
TYRE_NOISE_KPA = 1.5
Columns = dict[str, Floats]
Rows = slice | Ints


def pedals(
    wheel_w: Floats, v: Floats, a: Floats, mass: Floats, power_w: Floats, electric: Bools, on: Bools
) -> tuple[Floats, Floats]:
    """Accelerator and service brake, %: the power asked for, the deceleration beyond coasting."""
    drive = np.clip(wheel_w / power_w, 0.0, 1.0)
    accelerator = np.where(on & (v > 0.05), 100 * drive**0.7, 0.0)
    coasting = np.where(electric, 1.3, 0.7)
    excess = np.maximum(-wheel_w / np.maximum(v, 0.5) / mass - coasting, 0.0)
    braking = np.where(a < -0.3, 100 * excess / 8.5, 0.0)
    standing = on & (v < 0.05)
    return accelerator, np.clip(np.where(standing, 12.0, braking), 0.0, 100.0)


def steering_deg(curvature: Floats, wheelbase: Floats) -> Floats:
    """Steering-wheel angle, left positive, from the curvature (right positive)."""
    degrees: Floats = -np.degrees(np.arctan(wheelbase * curvature)) * STEERING_RATIO
    return degrees


class _Selected:
    """Some vehicles' columns of an object's arrays, [..., n_vehicles], cut out when read."""

    def __init__(self, whole: object, rows: Rows) -> None:
        self._whole = whole
        self._rows = rows

    def __getattr__(self, name: str) -> Floats:
        column: Floats = getattr(self._whole, name)[..., self._rows]
        return column


class _SlowSignals:
    """One report of the vehicles ``rows``, worked out for no others: they are most of a frame's signals."""

    def __init__(self, fleet: Fleet, machine: Machine, rows: Rows, rng: np.random.Generator) -> None:
        self._fleet = fleet
        self._machine = machine
        self._rows = rows
        self._on = fleet.ignition_on()[rows]
        self._electric = machine.electric[rows]
        self._motion = _Selected(fleet.state, rows)
        self._state = _Selected(machine.state, rows)
        self._broken = _Selected(machine.defects, rows)
        self._own = _Selected(machine, rows)
        noise = rng.standard_normal((3 + len(WHEELS), len(self._on)), dtype=np.float32)
        self._coolant_noise, self._fuel_noise, self._ripple = noise[:3]
        self._tyre_noise = noise[3:]

    def columns(self) -> Columns:
        """All slow numbers, each [n_rows]; what a powertrain has not is meaningless."""
        return self._surroundings() | self._engine() | self._tyres() | self._pack() | self._electrics()

    def _specs(self, name: str) -> Floats:
        return self._fleet.specs(name)[self._rows]

    def _surroundings(self) -> Columns:
        st = self._motion
        return {
            "altitude_m": st.altitude,
            "speed_limit_kmh": self._fleet.limit_kmh()[self._rows],
            "ambient_temp_c": np.full(len(self._on), self._machine.ambient_c),
            "odometer_m": st.odometer_m,
            "gear": np.where(self._electric, (self._on & (st.v > 0.3)) * 1.0, self._state.gear),
        }

    def _engine(self) -> Columns:
        m, sp, broken, own = self._state, self._specs, self._broken, self._own
        rpm, learned, held_c = m.rpm, own.trim_learned, broken.coolant_held_c
        coolant_c = m.coolant_c + 0.2 * self._coolant_noise
        litres_h = m.fuel_w / 1000 / sp("fuel_kj_per_l") * 3600
        boost = 1.0 + m.load_pct / 100
        air_diesel = sp("engine_l") * rpm / 120 * 1.15 * 0.9 * boost
        air_petrol = litres_h / PETROL_MAF / (1 + broken.mixture_pct / 100)
        trim_short = m.trim_short + broken.mixture_pct - learned
        pressure_pa = (300 + 45 * air_diesel) * (1 + m.soot_pct / 60)
        return {
            "coolant_temp_c": np.where(np.isnan(held_c), coolant_c, held_c),
            "oil_pressure_kpa": thermal.oil_pressure_kpa(rpm, m.oil_c, broken.oil_lost),
            "oil_temp_c": m.oil_c,
            "engine_load_pct": m.load_pct,
            "fuel_rate_lph": litres_h,
            "fuel_level_pct": 100 * m.fuel_l / sp("tank_l") + 0.4 * self._fuel_noise,
            "maf_gps": np.where(self._machine.diesel[self._rows], air_diesel, air_petrol),
            "fuel_trim_short_pct": np.where(rpm > 0, trim_short, 0.0),
            "fuel_trim_long_pct": own.trim_long + learned,
            "dpf_delta_pressure_pa": np.where(rpm > 0, pressure_pa, 0.0),
            "dpf_soot_pct": m.soot_pct,
        }

    def _tyres(self) -> Columns:
        m = self._state
        air_c, wear = m.tyre_air_c, m.pad_wear
        kpa = thermal.tyre_kpa(m.tyre_mass, self._specs("placard_kpa"), air_c)
        kpa = kpa + TYRE_NOISE_KPA * self._tyre_noise
        columns: Columns = {}
        for row, wheel in enumerate(WHEELS):
            columns[f"tyre_pressure_{wheel}_kpa"] = kpa[row]
            columns[f"tyre_temp_{wheel}_c"] = air_c[row]
            columns[f"brake_pad_wear_{wheel}_pct"] = wear[row]
        return columns

    def _pack(self) -> Columns:
        m, broken, own = self._state, self._broken, self._own
        pack_v, cell_c, apart_v, hotter_k = m.pack_v, m.cell_c, own.cell_spread_v, own.runaway_k
        cell = pack_v / self._specs("cells")
        weak = cell * np.minimum(1.0, 3 * broken.cells_dead) + broken.cell_apart_v
        return {
            "soc_pct": 100 * m.soc,
            "pack_voltage_v": pack_v,
            "pack_current_a": m.pack_a,
            "cell_voltage_min_v": cell - apart_v / 2 - weak,
            "cell_voltage_max_v": cell + apart_v / 2,
            "cell_temp_min_c": cell_c - 1.2,
            "cell_temp_avg_c": cell_c + 0.1 * hotter_k,
            "cell_temp_max_c": cell_c + 1.6 + hotter_k,
            "soh_pct": own.soh_pct,
            "motor_temp_c": m.motor_c,
        }

    def _electrics(self) -> Columns:
        """The 12 V system: ripple while charging; a start shows as its lowest voltage."""
        ripple = np.where(self._on, 0.05, 0.005) * self._ripple
        steady = self._machine.battery_v(self._on, self._rows)
        return {"battery_voltage_v": np.minimum(steady + ripple, self._state.crank_v)}


class Instruments:
    """Measures a fleet. ``rng`` makes the noise."""

    def __init__(
        self, fleet: Fleet, machine: Machine, rng: np.random.Generator,
        receiver: gnss.GnssSettings | None = None,
    ) -> None:  # fmt: skip
        self._fleet = fleet
        self._machine = machine
        self._rng = rng
        self._gnss = gnss.Gnss(
            receiver or gnss.GnssSettings(), rng, np.degrees(fleet.state.heading), gnss.sky_of(fleet.net)
        )
        self._held: tuple[Floats, Floats, Floats]
        self._controls_at_s = -1.0

    def fast(self, h_s: float) -> Columns:
        """The fast signals now, ``h_s`` seconds after the last time; engine speed of electric ones is NaN."""
        st, machine = self._fleet.state, self._machine
        noise = self._rng.standard_normal((4, self._fleet.n), dtype=np.float32)
        moving = st.v > 0.05
        speed = np.where(moving, np.maximum(st.v * 3.6 + 0.03 * noise[0], 0.0), 0.0)
        lat, lon = self._gnss.fix(st.lat, st.lon, st.edge, h_s)
        accelerator, brake, steering = self._controls()
        return {
            "speed_kmh": speed,
            "lat_deg": lat,
            "lon_deg": lon,
            "heading_deg": self._gnss.course(np.degrees(st.heading), speed, noise[1]),
            "accel_long_mps2": st.a + np.where(moving, 0.03, 0.01) * noise[2],
            "accel_lat_mps2": -st.v * st.yaw_rps + np.where(moving, 0.03, 0.01) * noise[3],
            "yaw_rate_dps": -np.degrees(st.yaw_rps),
            "accelerator_pct": accelerator,
            "brake_pct": brake,
            "steering_deg": steering,
            "engine_rpm": np.where(machine.electric, np.nan, machine.state.rpm),
        }

    def slow(self, reported: Rows) -> Columns:
        """The slow signals now of the vehicles ``reported``; the frame's layout knows which ones one has.

        These vehicles have reported their lowest starting voltage with it.
        """
        columns = _SlowSignals(self._fleet, self._machine, reported, self._rng).columns()
        self._machine.state.crank_v[reported] = np.inf
        return columns

    def parked(self) -> Bools:
        """Which vehicles stand with the ignition off, [n_vehicles]."""
        return ~self._fleet.ignition_on()

    def flags(self) -> dict[str, Bools]:
        """The flag signals now, all vehicles."""
        st, on = self._fleet.state, self._fleet.ignition_on()
        hard = (st.a < -6.0) & ~st.crashed
        return {
            "ignition_on": on,
            "abs_active": hard,
            "esc_active": np.abs(st.v * st.yaw_rps) > 5.0,
            "driver_belt_on": on,
        }

    def pre_crash(self) -> dict[str, Floats | Bools]:
        """The recorder's pre-crash elements now, as the vehicle's own bus has them (no receiver noise)."""
        accelerator, brake, steering = self._controls()
        return {
            "speed_kmh": self._fleet.state.v * 3.6,
            "accelerator_pct": accelerator,
            "brake_on": brake > 0,
            "engine_rpm": self._machine.state.rpm,
            "steering_deg": steering,
            **self.flags(),
        }

    def _controls(self) -> tuple[Floats, Floats, Floats]:
        """Accelerator %, brake %, steering deg; recorder and frame ask in the same step: worked out once."""
        fleet, machine = self._fleet, self._machine
        if self._controls_at_s != fleet.t_s:
            st, specs = fleet.state, fleet.specs
            controls = pedals(
                machine.state.wheel_w, st.v, st.a, specs("mass_kg"), 1000 * specs("power_kw"),
                machine.electric, fleet.ignition_on(),
            )  # fmt: skip
            self._held = (*controls, steering_deg(st.curvature, specs("wheelbase_m")))
            self._controls_at_s = fleet.t_s
        return self._held
