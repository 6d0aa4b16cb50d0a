"""Heat and wear as pure explicit Euler steps. Arrays are [n_vehicles], by wheel [4, n_vehicles]."""

import numpy as np

from edge_simulator.geo import Bools, Floats

STANDARD_KPA = 101.325
THERMOSTAT_C = (84.0, 95.0)
FAN_C = (89.0, 105.0)
OIL_S, TYRE_S, MOTOR_S = 300.0, 900.0, 240.0  # time constants: oil behind coolant, air in a tyre, a motor
RIM_S = 600.0  # how slowly a hot rim warms the air in its tyre (eng.)
DISC_STANDING_S = 640.0
CELL_W_K, CELL_J_K, CELL_J_K_PER_KWH = 35.0, 20_000.0, 6500.0  # a pack's cooling; heat of housing and cells


def coolant_step(
    t_c: Floats, ambient_c: Floats, fuel_w: Floats, v_mps: Floats, h_s: float, c_kj_k: Floats, ua_w_k: Floats,
    blocked: Floats, running: Bools | bool = True, stuck_open: Floats | float = 0.0,
) -> Floats:  # fmt: skip
    """C dT/dt = q Pfuel - UA (T - Ta) - thermostat - fan.

    ``blocked`` 0..1 is the share of the cooling that is gone; lost coolant leaves less mass to warm. One that
    is not ``running`` only gives off UA (T - Ta). ``stuck_open`` 0..1: the least the thermostat opens.
    """
    share = np.where(v_mps > 2, 0.30, 0.45)
    opening = np.clip((t_c - THERMOSTAT_C[0]) / (THERMOSTAT_C[1] - THERMOSTAT_C[0]), 0, 1)
    opening = np.maximum(opening, stuck_open)
    fan = np.clip((t_c - FAN_C[0]) / (FAN_C[1] - FAN_C[0]), 0, 1)
    radiator = ua_w_k * opening * (4.0 + 1.2 * np.minimum(v_mps, 30.0)) + ua_w_k * 12 * fan
    heat = share * fuel_w - (ua_w_k + radiator * running) * (1 - blocked) * (t_c - ambient_c)
    capacity = 1000 * c_kj_k * (1 - 0.82 * blocked)
    warmed: Floats = t_c + np.clip(h_s * heat / capacity, -3.0 * h_s, 3.0 * h_s)
    return np.minimum(warmed, 148.0)


def towards(value: Floats, target: Floats, h_s: float, tau_s: float) -> Floats:
    """First-order lag."""
    found: Floats = value + (target - value) * (1 - np.exp(-h_s / tau_s))
    return found


def cell_j_k(pack_kwh: Floats) -> Floats:
    """Heat capacity of a pack, J/K."""
    return CELL_J_K + CELL_J_K_PER_KWH * pack_kwh


def tyre_target_c(ambient_c: float, v_mps: Floats) -> Floats:
    """Air in a tyre tends to 8 to 28 C above ambient while it rolls, by speed, and to ambient at rest."""
    return ambient_c + np.where(v_mps > 0.5, 8.0 + 20.0 * np.minimum(v_mps / 33.0, 1.0), 0.0)


def oil_pressure_kpa(rpm: Floats, oil_c: Floats, lost: Floats | float = 0.0) -> Floats:
    """Rises with engine speed to the relief valve, falls as oil thins; ``lost`` is the share gone, 0..1."""
    thin = np.clip(1.35 - 0.0042 * oil_c, 0.75, 1.4)
    return np.where(rpm > 0, np.minimum((70 + 0.115 * rpm) * thin, 480.0) * (1 - lost), 0.0)


def tyre_kpa(mass: Floats, cold_kpa: Floats, air_c: Floats) -> Floats:
    """Gauge pressure by the ideal gas law; ``cold_kpa`` at 20 C with the air ``mass`` 1."""
    kpa: Floats = mass * (cold_kpa + STANDARD_KPA) * (air_c + 273.15) / 293.15 - STANDARD_KPA
    return np.maximum(kpa, 0.0)


def rest_voltage(soc_12v: Floats) -> Floats:
    """A 12 V battery at rest, V."""
    return 12.0 + 0.7 * soc_12v


WHEEL_SHARE = np.array([[0.325], [0.325], [0.175], [0.175]])  # of the braking, by signals.WHEELS
DISC_J_KG_K = 460.0
AIR_W_K, AIR_W_K_PER_MPS = 5.0, 0.8
PAD_J_PER_PCT_KG = 2.0e6  # wears 1 % off, for a kg of disc: a car's front pads last 50,000 km of UDDS (eng.)
PAD_HOT_C, PAD_HOT_SCALE_C = 200.0, 150.0


def disc_step(t_c: Floats, ambient_c: float, work_j: Floats, v_mps: Floats, h_s: float, disc_kg: Floats,
              cooling: Floats) -> Floats:  # fmt: skip
    """m c dT/dt = P - hA (T - Ta), hA = (5 + 0.8 v) ``cooling`` W/K; ``work_j`` is what each disc took."""
    capacity = DISC_J_KG_K * disc_kg
    loss = (AIR_W_K + AIR_W_K_PER_MPS * v_mps) * cooling * (h_s / capacity)
    return t_c + work_j / capacity - loss * (t_c - ambient_c)


def pad_wear_pct(work_j: Floats, disc_c: Floats, disc_kg: Floats) -> Floats:
    """Wear by ``work_j``: in proportion, and faster on a hot disc (twice at 350 C, five times at 500 C)."""
    over = np.maximum(disc_c - PAD_HOT_C, 0.0) / PAD_HOT_SCALE_C
    return work_j / (PAD_J_PER_PCT_KG * disc_kg) * (1 + over * over)


BEGINS_PCT, ENDS_PCT = 75.0, 25.0
GATHERS_PCT_S = 0.004
BURNS_PCT_S = 0.1
BLOCKED_PCT_S = 0.08  # how fast one that cannot regenerate fills: a time-lapse (eng.), in truth days
GIVES_UP_S, RETRIES_S = 40.0, 180.0


def soot_step(
    since_s: Floats, soot: Floats, soot_to: Floats, running: Bools, h_s: float
) -> tuple[Floats, Floats]:
    """The clock of a regeneration (> 0 burning for so long, < 0 waiting after a failure), and the soot, %.

    A sound filter burns from 75 % down to 25 %, pausing while the engine is off; a blocked one
    (``soot_to`` > 0) burns half as fast, gives up after 40 s and tries again 180 s later.
    """
    burning, waiting, blocked = since_s > 0, since_s < 0, soot_to > 0
    given_up = burning & blocked & (since_s >= GIVES_UP_S)
    done = burning & (soot <= ENDS_PCT)
    begins = (since_s == 0) & (soot >= BEGINS_PCT) & running
    goes_on = np.where(running, np.where(waiting, np.minimum(since_s + h_s, 0.0), since_s + h_s), since_s)
    kept = np.where(burning | waiting | begins, goes_on, 0.0)
    since_s = np.where(given_up, -RETRIES_S, np.where(done, 0.0, kept))
    fills = BLOCKED_PCT_S * np.clip((soot_to - soot) / 5.0, 0.0, 1.0)
    burns = BURNS_PCT_S * np.where(blocked, 0.5, 1.0)
    rate = np.where(since_s > 0, -burns, GATHERS_PCT_S + np.where(blocked, fills, 0.0))
    return since_s, np.where(running, np.maximum(soot + rate * h_s, 0.0), soot)
