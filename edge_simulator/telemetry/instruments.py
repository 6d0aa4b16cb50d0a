"""From the fleet's state to the signals of the contract: fast ones each sample, slow ones each frame."""

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edge_simulator.geo import Bools, Floats, Rows
from edge_simulator.motion.fleet import Fleet
from edge_simulator.telemetry import gnss
from edge_simulator.vehicle import thermal
from edge_simulator.vehicle.machine import PETROL_MAF, Machine
from infra.contract.signals import SIGNALS, WHEELS

STEERING_RATIO = 15.0
TYRE_NOISE_KPA = 1.5
Sensors = Literal["fine", "obd"]
"""How readings are rounded: to the wire's steps, or to those of standard sensors (Signal.sensor_step)."""
Columns = dict[str, Floats]
Specs = Callable[[str], Floats]
Noise = NDArray[np.float32]


class _Selected:
    """Some vehicles' columns of an object's arrays, [..., n_vehicles], cut out when read."""

    def __init__(self, whole: object, rows: Rows) -> None:
        self._whole, self._rows = whole, rows

    def __getattr__(self, name: str) -> Floats:
        column: Floats = getattr(self._whole, name)[..., self._rows]
        return column


def _engine(m: _Selected, broken: _Selected, own: _Selected, sp: Specs, noise: Noise) -> Columns:
    rpm, learned, held_c = m.rpm, own.trim_learned, broken.coolant_held_c
    coolant_c = m.coolant_c + 0.2 * noise[0]
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
        "fuel_level_pct": 100 * m.fuel_l / sp("tank_l") + 0.4 * noise[1],
        "maf_gps": np.where(own.diesel, air_diesel, air_petrol),
        "fuel_trim_short_pct": np.where(rpm > 0, trim_short, 0.0),
        "fuel_trim_long_pct": own.trim_long + learned,
        "dpf_delta_pressure_pa": np.where(rpm > 0, pressure_pa, 0.0),
        "dpf_soot_pct": m.soot_pct,
    }


def _pack(m: _Selected, broken: _Selected, own: _Selected, sp: Specs) -> Columns:
    pack_v, cell_c, apart_v, hotter_k = m.pack_v, m.cell_c, own.cell_spread_v, own.runaway_k
    cell = pack_v / sp("cells")
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


class Instruments:
    """Measures a fleet. ``rng`` makes the noise."""

    def __init__(
        self, fleet: Fleet, machine: Machine, rng: np.random.Generator,
        receiver: gnss.GnssSettings | None = None, sensors: Sensors = "fine",
    ) -> None:  # fmt: skip
        self._fleet, self._machine, self._rng = fleet, machine, rng
        self._filtered = sensors == "obd"
        self._sensors = [s for s in SIGNALS if self._filtered and s.sensor_step > s.resolution]
        heading_deg = np.degrees(fleet.state.heading)
        self._gnss = gnss.Gnss(receiver or gnss.GnssSettings(), rng, heading_deg, fleet.net)
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
        return self._as_sensed({
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
        })  # fmt: skip

    def slow(self, reported: Rows, frame_s: float) -> Columns:
        """The slow signals now of the vehicles ``reported``, worked out for no others; each [n_reported].

        What a powertrain has not is meaningless: the frame's layout knows. A start within the last
        ``frame_s`` seconds shows as its lowest voltage.
        """
        fleet, machine, on = self._fleet, self._machine, self._fleet.ignition_on()[reported]
        parts = (fleet.state, machine.state, machine.defects, machine)
        motion, m, broken, own = (_Selected(part, reported) for part in parts)
        noise = self._rng.standard_normal((3 + len(WHEELS), len(on)), dtype=np.float32)

        def specs(name: str) -> Floats:
            return fleet.specs(name)[reported]

        if self._filtered:
            noise[0] = 0.0  # an engine's controller filters: a coolant that holds reads the same for minutes
        ripple = np.where(on, 0.05, 0.005) * noise[2]  # while charging
        cranked = fleet.t_s - motion.started_s < frame_s - 1e-6  # at its very begin: the frame's before
        lowest_v = np.where(cranked, m.crank_v, np.inf)
        bonnet = 0.3 * np.exp(-motion.v / 8.0)  # share of the engine's heat that the air has there (eng.)
        columns: Columns = {
            "altitude_m": motion.altitude,
            "speed_limit_kmh": fleet.net.limit_kmh[fleet.state.edge[reported]].astype(np.float64),
            "ambient_temp_c": np.full(len(on), machine.ambient_c),
            "odometer_m": motion.odometer_m,
            "intake_air_temp_c": machine.ambient_c + bonnet * (m.coolant_c - machine.ambient_c),
            "gear": np.where(own.electric, (on & (motion.v > 0.3)) * 1.0, m.gear),
            "battery_voltage_v": np.minimum(machine.battery_v(on, reported) + ripple, lowest_v),
        }
        air_c, wear = m.tyre_air_c, m.pad_wear
        kpa = thermal.tyre_kpa(m.tyre_mass, specs("placard_kpa"), air_c) + TYRE_NOISE_KPA * noise[3:]
        for row, wheel in enumerate(WHEELS):
            columns[f"tyre_pressure_{wheel}_kpa"] = kpa[row]
            columns[f"tyre_temp_{wheel}_c"] = air_c[row]
            columns[f"brake_pad_wear_{wheel}_pct"] = wear[row]
        engine, pack = _engine(m, broken, own, specs, noise), _pack(m, broken, own, specs)
        return self._as_sensed(columns | engine | pack)

    def _as_sensed(self, columns: Columns) -> Columns:
        for sensor in self._sensors:
            if sensor.name in columns:
                step = sensor.sensor_step
                columns[sensor.name] = np.rint(columns[sensor.name] / step) * step
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
        """Accelerator %, service brake %, steering deg; worked out once a step, for recorder and frame.

        By the power asked for, the deceleration beyond coasting, and the curvature, right positive.
        """
        fleet, machine = self._fleet, self._machine
        if self._controls_at_s != fleet.t_s:
            st, specs, on, wheel_w = fleet.state, fleet.specs, fleet.ignition_on(), machine.state.wheel_w
            drive = np.clip(wheel_w / (1000 * specs("power_kw")), 0.0, 1.0)
            accelerator = np.where(on & (st.v > 0.05), 100 * drive**0.7, 0.0)
            coasting = np.where(machine.electric, 1.3, 0.7)
            excess = np.maximum(-wheel_w / np.maximum(st.v, 0.5) / specs("mass_kg") - coasting, 0.0)
            braking = np.where(st.a < -0.3, 100 * excess / 8.5, 0.0)
            brake = np.clip(np.where(on & (st.v < 0.05), 12.0, braking), 0.0, 100.0)
            steering = -np.degrees(np.arctan(specs("wheelbase_m") * st.curvature)) * STEERING_RATIO
            self._held, self._controls_at_s = (accelerator, brake, steering), fleet.t_s
        return self._held
