"""Vehicle models as data. Figures: NREL FASTSim for the bodies, engineering defaults for the rest.

The petrol car is FASTSim's 2016 Corolla, the hybrid its 2016 Optima Hybrid (parallel, a clutch between engine
and motor), the electric ones its 2016 Leaf (24 kWh) and 2022 Model 3, the truck its line-haul tractor. The
van is ours.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final, Literal

import numpy as np
from pydantic import TypeAdapter

from edge_simulator.geo import Floats, Ints
from infra.settings.files import read_yaml

ALPHABET = "ABCDEFGHJKLMNPRSTUVWXYZ0123456789"  # without I, O and Q, which look like digits

_VALUES = dict(zip("ABCDEFGHJKLMNPRSTUVWXYZ", "12345678123457923456789", strict=True))
_WEIGHTS = (8, 7, 6, 5, 4, 3, 2, 10, 0, 9, 8, 7, 6, 5, 4, 3, 2)


def check_digit(vin: str) -> str:
    """The check digit of a 17-character number; what stands in position 9 does not matter (49 CFR 565.15)."""
    total = sum(w * int(_VALUES.get(c, c)) for w, c in zip(_WEIGHTS, vin, strict=True))
    return "0123456789X"[total % 11]


def make(key: str) -> str:
    """A number that follows from ``key`` alone, of a made-up maker."""
    digest = hashlib.sha256(key.encode()).digest()
    tail = "".join(ALPHABET[byte % len(ALPHABET)] for byte in digest[:13])
    return f"WDG{tail[:5]}{check_digit(f'WDG{tail[:5]}0{tail[5:]}')}{tail[5:]}"


Powertrain = Literal["petrol", "diesel", "hybrid", "electric"]


@dataclass(frozen=True, slots=True)
class VehicleModel:
    """One model. ``rpm_per_kmh`` by gear; no engine: ``engine_l`` is 0; no pack: ``motor_kw`` is 0."""

    name: str
    powertrain: Powertrain
    vehicle_class: Literal["car", "van", "heavy"]
    share: float  # share of the fleet
    mass_kg: float
    drag_m2: float  # drag coefficient times frontal area
    rolling: float
    power_kw: float
    length_m: float
    wheelbase_m: float
    accel_mps2: float
    brake_mps2: float  # comfortable deceleration
    headway_s: float
    top_kmh: float
    placard_kpa: float
    rpm_per_kmh: tuple[float, ...] = ()
    idle_rpm: float = 0.0
    shift_up_rpm: float = 0.0
    shift_down_rpm: float = 0.0
    top_rpm: float = 0.0
    engine_l: float = 0.0
    fmep_kpa: float = 0.0
    efficiency: float = 0.0
    fuel_kj_per_l: float = 1.0
    torque_nm: float = 1.0
    tank_l: float = 1.0
    driveline: float = 0.92  # efficiency between the wheels and the gearbox's input
    aux_kw: float = 0.7  # lamps, fans, pumps: on the engine's belt, or from a traction battery
    thermal_kj_k: float = 40.0  # heat capacity of engine and coolant
    cooling_w_k: float = 18.0
    motor_kw: float = 0.0
    regen_kw: float = 0.0  # the most that braking feeds into the motor's shaft
    charge_kw: float = 0.0  # what a charger at the wall puts into the battery; 0 where there is no socket
    pack_kwh: float = 1.0
    pack_v: float = 350.0
    pack_ohm: float = 0.1
    cells: int = 96
    disc_kg: float = 7.0  # brake disc of one wheel; the truck's five axles are lumped into four wheels
    disc_cooling: float = 1.0  # its cooling surface relative to a car's


MODELS: Final = TypeAdapter(tuple[VehicleModel, ...]).validate_python(
    read_yaml(Path(__file__).with_name("models.yaml"), "vehicle models")
)


class Specs:
    """The figures of vehicles by their models' indices, each [n_vehicles].

    ``rpm_per_kmh`` is [n_vehicles, most gears]; ``kind`` is 0 for a car, 1 for a van, 2 for a heavy vehicle.
    """

    def __init__(self, model: Ints, models: Sequence[VehicleModel] = MODELS) -> None:
        ratios, gears = [m.rpm_per_kmh for m in models], [len(m.rpm_per_kmh) for m in models]
        self.model, self.gears = model, np.array(gears)[model]
        self.rpm_per_kmh = np.array([(*r, *r[-1:] * (max(gears) - len(r))) for r in ratios])[model]
        names = [f.name for f in fields(VehicleModel) if isinstance(getattr(models[0], f.name), int | float)]
        self._columns = {f: np.array([float(getattr(m, f)) for m in models])[model] for f in names}
        self.kind: Ints = np.select([self("mass_kg") > 10_000, self("mass_kg") > 2_000], [2, 1], 0)

    def __call__(self, name: str) -> Floats:
        """A figure of :class:`VehicleModel` by its name, [n_vehicles]."""
        return self._columns[name]


def draw(rng: np.random.Generator, n_vehicles: int) -> Ints:
    """Model index of each vehicle: the shares met as exactly as whole vehicles allow, in random order."""
    edges = np.cumsum([m.share for m in MODELS])
    places = (np.arange(n_vehicles) + 0.5) / max(n_vehicles, 1) * edges[-1]
    return rng.permutation(np.searchsorted(edges, places)).astype(np.int64)
