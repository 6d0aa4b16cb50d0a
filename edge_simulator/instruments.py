"""From the fleet's state to the signals of the contract: fast ones each sample, slow ones each frame."""

from __future__ import annotations

import numpy as np

from edge_simulator import gnss, sensors, thermal
from edge_simulator.fleet import Fleet
from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.machine import PETROL_MAF, Machine
from infra.contract.signals import WHEELS

Columns = dict[str, Floats]
TYRE_NOISE_KPA = 1.5


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
        noise = self._rng.standard_normal((4, self._fleet.n))
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

    def slow(self, reported: slice | Ints) -> Columns:
        """The slow signals now of the vehicles ``reported``; the frame's layout knows which ones one has.

        These vehicles have told their lowest starting voltage with it.
        """
        columns = {name: column[reported] for name, column in self._slow().items()}
        self._machine.state.crank_v[reported] = np.inf
        return columns

    def _slow(self) -> Columns:
        st, fleet = self._fleet.state, self._fleet
        on = fleet.ignition_on()
        columns: Columns = {
            "altitude_m": st.altitude,
            "speed_limit_kmh": fleet.limit_kmh(),
            "ambient_temp_c": np.full(fleet.n, self._machine.ambient_c),
            "odometer_m": st.odometer_m,
            "gear": np.where(self._machine.electric, (on & (st.v > 0.3)) * 1.0, self._machine.state.gear),
        }
        return columns | self._engine() | self._tyres() | self._pack() | self._electrics(on)

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

    def _engine(self) -> Columns:
        m, sp, broken = self._machine.state, self._fleet.specs, self._machine.defects
        coolant_c = m.coolant_c + 0.2 * self._rng.standard_normal(len(m.rpm))
        litres_h = m.fuel_w / 1000 / sp("fuel_kj_per_l") * 3600
        boost = 1.0 + m.load_pct / 100
        air_diesel = sp("engine_l") * m.rpm / 120 * 1.15 * 0.9 * boost
        return {
            "coolant_temp_c": np.where(np.isnan(broken.coolant_held_c), coolant_c, broken.coolant_held_c),
            "oil_pressure_kpa": thermal.oil_pressure_kpa(m.rpm, m.oil_c, broken.oil_lost),
            "oil_temp_c": m.oil_c,
            "engine_load_pct": m.load_pct,
            "fuel_rate_lph": litres_h,
            "fuel_level_pct": 100 * m.fuel_l / sp("tank_l") + 0.4 * self._rng.standard_normal(len(m.rpm)),
            "maf_gps": np.where(
                self._machine.diesel, air_diesel, litres_h / PETROL_MAF / (1 + broken.mixture_pct / 100)
            ),
            "fuel_trim_short_pct": np.where(
                m.rpm > 0, m.trim_short + broken.mixture_pct - self._machine.trim_learned, 0.0
            ),
            "fuel_trim_long_pct": self._machine.trim_long + self._machine.trim_learned,
            "dpf_delta_pressure_pa": np.where(
                m.rpm > 0, (300 + 45 * air_diesel) * (1 + m.soot_pct / 60), 0.0
            ),
            "dpf_soot_pct": m.soot_pct,
        }

    def _tyres(self) -> Columns:
        m, sp = self._machine.state, self._fleet.specs
        kpa = thermal.tyre_kpa(m.tyre_mass, sp("placard_kpa"), m.tyre_air_c)
        kpa = kpa + TYRE_NOISE_KPA * self._rng.standard_normal(kpa.shape)
        columns: Columns = {}
        for row, wheel in enumerate(WHEELS):
            columns[f"tyre_pressure_{wheel}_kpa"] = kpa[row]
            columns[f"tyre_temp_{wheel}_c"] = m.tyre_air_c[row]
            columns[f"brake_pad_wear_{wheel}_pct"] = m.pad_wear[row]
        return columns

    def _pack(self) -> Columns:
        m, machine = self._machine.state, self._machine
        broken = machine.defects
        cell = m.pack_v / self._fleet.specs("cells")
        weak = cell * np.minimum(1.0, 3 * broken.cells_dead) + broken.cell_apart_v
        return {
            "soc_pct": 100 * m.soc,
            "pack_voltage_v": m.pack_v,
            "pack_current_a": m.pack_a,
            "cell_voltage_min_v": cell - machine.cell_spread_v / 2 - weak,
            "cell_voltage_max_v": cell + machine.cell_spread_v / 2,
            "cell_temp_min_c": m.cell_c - 1.2,
            "cell_temp_avg_c": m.cell_c + 0.1 * machine.runaway_k,
            "cell_temp_max_c": m.cell_c + 1.6 + machine.runaway_k,
            "soh_pct": machine.soh_pct,
            "motor_temp_c": m.motor_c,
        }

    def _electrics(self, on: Bools) -> Columns:
        """The 12 V system: ripple while charging; a start shows as its lowest voltage."""
        m = self._machine.state
        ripple = np.where(on, 0.05, 0.005) * self._rng.standard_normal(len(on))
        return {"battery_voltage_v": np.minimum(self._machine.battery_v(on) + ripple, m.crank_v)}

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
            pedals = sensors.pedals(
                machine.state.wheel_w, st.v, st.a, specs("mass_kg"), 1000 * specs("power_kw"),
                machine.electric, fleet.ignition_on(),
            )  # fmt: skip
            self._held = (*pedals, sensors.steering_deg(st.curvature, specs("wheelbase_m")))
            self._controls_at_s = fleet.t_s
        return self._held
