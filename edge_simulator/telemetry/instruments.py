"""From the fleet's state to the signals of the contract: fast ones each sample, slow ones each frame."""

from __future__ import annotations

import numpy as np

from edge_simulator.geo import Bools, Floats
from edge_simulator.motion.fleet import Fleet
from edge_simulator.telemetry import gnss, sensors
from edge_simulator.telemetry.slow_signals import Columns, Rows, SlowSignals
from edge_simulator.vehicle.machine import Machine


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

        These vehicles have told their lowest starting voltage with it.
        """
        columns = SlowSignals(self._fleet, self._machine, reported, self._rng).columns()
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
            pedals = sensors.pedals(
                machine.state.wheel_w, st.v, st.a, specs("mass_kg"), 1000 * specs("power_kw"),
                machine.electric, fleet.ignition_on(),
            )  # fmt: skip
            self._held = (*pedals, sensors.steering_deg(st.curvature, specs("wheelbase_m")))
            self._controls_at_s = fleet.t_s
        return self._held
