"""The table of signals: the one place where a signal's name, unit, range and resolution are written.

Spark's schema, the frame's validation, the SQL column check and the README's table are derived from it.
Paths are COVESA VSS below ``Vehicle.``; PIDs are SAE J1979, SPNs SAE J1939 (0 = none). Ranges are plausible
ranges: a value outside is taken for "not available" and counted.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

Kind = Literal["number", "flag", "codes"]
Rate = Literal["fast", "slow"]

WHEELS = ("fl", "fr", "rl", "rr")


@dataclass(frozen=True, slots=True)
class Signal:
    """One signal.

    ``resolution`` is the least step on the wire, in ``unit``: sums are taken over whole steps, so that they
    are exact and the order of arrival cannot change a result. ``sensor_step`` is what a standard reading is
    rounded to, where that is coarser: SAE J1979 for the PID, SAE J1939 for a signal with an SPN alone.
    """

    name: str
    vss: str
    unit: str
    minimum: float
    maximum: float
    resolution: float
    meaning: str
    pid: int = 0
    spn: int = 0
    rate: Rate = "slow"
    kind: Kind = "number"
    sensor_step: float = 0.0

    def holds(self, value: Any) -> Any:
        """Whether a value is plausible, NaN is not; flags for an array, a condition for a Spark column."""
        return (value >= self.minimum) & (value <= self.maximum)

    @property
    def steps_per_unit(self) -> int:
        """Whole resolution steps in one unit."""
        return round(1 / self.resolution)

    @property
    def decimals(self) -> int:
        """Decimals that carry information on the wire."""
        return max(0, len(str(self.steps_per_unit)) - 1)


_slow = Signal
_fast = partial(Signal, rate="fast")


def _flag(name: str, vss: str, meaning: str) -> Signal:
    return Signal(name, vss, "bool", 0, 1, 1, meaning, kind="flag")


def _by_wheel(
    stem: str, suffix: str, leaf: str, unit: str, high: float, step: float, meaning: str, low: float = 0,
    sensor_step: float = 0.0,
) -> Iterator[Signal]:  # fmt: skip
    for wheel in WHEELS:
        row, side = 1 + "fr".index(wheel[0]), {"l": "Left", "r": "Right"}[wheel[1]]
        vss = f"Chassis.Axle.Row{row}.Wheel.{side}.{leaf}"
        name = f"{stem}_{wheel}_{suffix}"
        yield Signal(name, vss, unit, low, high, step, f"{meaning}, {wheel.upper()}", sensor_step=sensor_step)


_ENGINE = "Powertrain.CombustionEngine"
_PACK = "Powertrain.TractionBattery"
_BYTE = 100 / 255  # % of a byte
_TRIM = 100 / 128  # % of a signed byte

# fmt: off
SIGNALS: tuple[Signal, ...] = (
    _fast("speed_kmh", "Speed", "km/h", 0, 250, 0.01, "Vehicle speed", 0x0D, 84, sensor_step=1),
    _fast("lat_deg", "CurrentLocation.Latitude", "deg", -90, 90, 1e-6, "Latitude, WGS 84", 0, 584),
    _fast("lon_deg", "CurrentLocation.Longitude", "deg", -180, 180, 1e-6, "Longitude, WGS 84", 0, 585),
    _fast("heading_deg", "CurrentLocation.Heading", "deg", 0, 360, 0.1, "Course over ground, clockwise from north"),
    _fast("accel_long_mps2", "Acceleration.Longitudinal", "m/s^2", -12, 8, 0.01, "Longitudinal, ISO 8855: forward positive", 0, 1810),
    _fast("accel_lat_mps2", "Acceleration.Lateral", "m/s^2", -12, 12, 0.01, "Lateral, ISO 8855: left positive", 0, 1809),
    _fast("yaw_rate_dps", "AngularVelocity.Yaw", "deg/s", -100, 100, 0.1, "Yaw rate, left positive", 0, 1808),
    _fast("accelerator_pct", "Chassis.Accelerator.PedalPosition", "%", 0, 100, 0.1, "Accelerator pedal", 0x49, 91, sensor_step=_BYTE),
    _fast("brake_pct", "Chassis.Brake.PedalPosition", "%", 0, 100, 0.1, "Brake pedal", 0, 521, sensor_step=0.4),
    _fast("steering_deg", "Chassis.SteeringWheel.Angle", "deg", -780, 780, 0.1, "Steering wheel, left positive", 0, 1807),
    _fast("engine_rpm", f"{_ENGINE}.Speed", "rpm", 0, 8000, 1, "Engine speed", 0x0C, 190),
    _slow("altitude_m", "CurrentLocation.Altitude", "m", -500, 9000, 0.1, "Height above sea level", 0, 580),
    _slow("speed_limit_kmh", "", "km/h", 0, 250, 1, "Limit in force on the road, where the device knows it (not in VSS)"),
    _slow("ambient_temp_c", "Exterior.AirTemperature", "degC", -50, 70, 0.1, "Air outside", 0x46, 171, sensor_step=1),
    _slow("odometer_m", "TraveledDistance", "m", 0, 4_000_000_000, 1, "Total distance", 0xA6, 245, sensor_step=100),
    _flag("ignition_on", "LowVoltageSystemState", "Ignition (or drive-ready) on"),
    _slow("gear", "Powertrain.Transmission.CurrentGear", "", -1, 18, 1, "Gear: -1 reverse, 0 neutral", 0xA4, 523),
    _slow("coolant_temp_c", f"{_ENGINE}.EngineCoolant.Temperature", "degC", -40, 215, 0.1, "Coolant", 0x05, 110, sensor_step=1),
    _slow("oil_pressure_kpa", f"{_ENGINE}.EOP", "kPa", 0, 1000, 1, "Engine oil pressure", 0, 100, sensor_step=4),
    _slow("oil_temp_c", f"{_ENGINE}.EngineOil.Temperature", "degC", -40, 215, 0.1, "Engine oil", 0x5C, 175, sensor_step=1),
    _slow("engine_load_pct", f"{_ENGINE}.EngineLoad", "%", 0, 100, 0.1, "Calculated engine load", 0x04, 92, sensor_step=_BYTE),
    _slow("fuel_rate_lph", f"{_ENGINE}.FuelRate", "l/h", 0, 200, 0.01, "Fuel rate", 0x5E, 183, sensor_step=0.05),
    _slow("fuel_level_pct", "Powertrain.FuelSystem.RelativeLevel", "%", 0, 100, 0.1, "Fuel tank level", 0x2F, 96, sensor_step=_BYTE),
    _slow("maf_gps", f"{_ENGINE}.MAF", "g/s", 0, 700, 0.01, "Air mass flow", 0x10, 132),
    _slow("intake_air_temp_c", "OBD.IntakeTemp", "degC", -40, 215, 0.1, "Air that the engine takes in", 0x0F, 172, sensor_step=1),
    _slow("fuel_trim_short_pct", "OBD.ShortTermFuelTrim1", "%", -100, 100, 0.1, "Short-term fuel trim, bank 1", 0x06, 0, sensor_step=_TRIM),
    _slow("fuel_trim_long_pct", "OBD.LongTermFuelTrim1", "%", -100, 100, 0.1, "Long-term fuel trim, bank 1", 0x07, 0, sensor_step=_TRIM),
    _slow("battery_voltage_v", "LowVoltageBattery.CurrentVoltage", "V", 0, 36, 0.01, "12 V (or 24 V) system", 0x42, 168, sensor_step=0.1),  # ELM327 AT RV; PID 42 has 0.001
    *_by_wheel("tyre_pressure", "kpa", "Tire.Pressure", "kPa", 1400, 0.1, "Tyre pressure, gauge", sensor_step=4),  # SPN 241
    *_by_wheel("tyre_temp", "c", "Tire.Temperature", "degC", 150, 0.1, "Tyre air", low=-50),
    *_by_wheel("brake_pad_wear", "pct", "Brake.PadWear", "%", 100, 0.1, "Brake pad wear", sensor_step=0.4),  # SPN 1099
    _slow("dpf_delta_pressure_pa", f"{_ENGINE}.DieselParticulateFilter.DeltaPressure", "Pa", 0, 60_000, 1, "Particulate filter pressure drop", 0x7A, 3251, sensor_step=10),
    _slow("dpf_soot_pct", f"{_ENGINE}.DieselParticulateFilter.SootLevel", "%", 0, 250, 0.1, "Particulate filter soot load", 0, 3719, sensor_step=1),
    _flag("abs_active", "ADAS.ABS.IsEngaged", "Antilock braking at work"),
    _flag("esc_active", "ADAS.ESC.IsEngaged", "Stability control at work"),
    _flag("driver_belt_on", "Cabin.Seat.Row1.DriverSide.IsBelted", "Driver's belt fastened"),
    _slow("soc_pct", f"{_PACK}.StateOfCharge.Current", "%", 0, 100, 0.01, "Traction battery charge", 0x5B, 0, sensor_step=_BYTE),
    _slow("pack_voltage_v", f"{_PACK}.CurrentVoltage", "V", 0, 1000, 0.1, "Traction battery voltage"),
    _slow("pack_current_a", f"{_PACK}.CurrentCurrent", "A", -1500, 1500, 0.1, "Traction battery current, discharge positive"),
    _slow("cell_voltage_min_v", f"{_PACK}.CellVoltage.Min", "V", 0, 5, 0.001, "Lowest cell voltage"),
    _slow("cell_voltage_max_v", f"{_PACK}.CellVoltage.Max", "V", 0, 5, 0.001, "Highest cell voltage"),
    _slow("cell_temp_min_c", f"{_PACK}.Temperature.Min", "degC", -50, 200, 0.1, "Coldest cell"),
    _slow("cell_temp_avg_c", f"{_PACK}.Temperature.Average", "degC", -50, 200, 0.1, "Mean cell temperature"),
    _slow("cell_temp_max_c", f"{_PACK}.Temperature.Max", "degC", -50, 200, 0.1, "Hottest cell"),
    _slow("soh_pct", f"{_PACK}.StateOfHealth", "%", 0, 100, 0.1, "Traction battery state of health"),
    _slow("motor_temp_c", "Powertrain.ElectricMotor.Temperature", "degC", -50, 250, 0.1, "Traction motor"),
    Signal("dtc_codes", "OBD.DTCList", "", 0, 0, 1, "Active trouble codes, SAE J2012", kind="codes"),
)
# fmt: on

FAST: tuple[Signal, ...] = tuple(s for s in SIGNALS if s.rate == "fast")
SLOW: tuple[Signal, ...] = tuple(s for s in SIGNALS if s.rate == "slow")
BY_NAME: dict[str, Signal] = {s.name: s for s in SIGNALS}
TOP_MPS = BY_NAME["speed_kmh"].maximum / 3.6
JUMP_M = 1000.0
"""A fix that lies further than this beyond where its vehicle can have driven is a jump of the receiver; one that
moves on every half minute only, as some do, makes steps up to there (eng.)."""
M_PER_DEG = 111_195.0  # of latitude
