"""Friction brakes: a lumped disc for each wheel and its pads. Pure functions, [4, n_vehicles]."""

from __future__ import annotations

import numpy as np

from edge_simulator.geo import Floats

WHEEL_SHARE = np.array([[0.325], [0.325], [0.175], [0.175]])
"""Share of the braking by wheel, order of infra.contract.signals.WHEELS: 65 % in front."""
DISC_J_KG_K = 460.0
AIR_W_K, AIR_W_K_PER_MPS = 5.0, 0.8
PAD_J_PER_PCT_KG = 2.0e6
"""Work that wears 1 % of the pads off, for each kg of disc: a car's front pads last 50,000 km of
town (UDDS), an electric one's several times as long (eng.)."""
PAD_HOT_C, PAD_HOT_SCALE_C = 200.0, 150.0


def disc_step(t_c: Floats, ambient_c: float, work_j: Floats, v_mps: Floats, h_s: float, disc_kg: Floats,
              cooling: Floats) -> Floats:  # fmt: skip
    """m c dT/dt = P - hA (T - Ta), hA = (5 + 0.8 v) ``cooling`` W/K; ``work_j`` is what each disc took."""
    capacity = DISC_J_KG_K * disc_kg
    loss = (AIR_W_K + AIR_W_K_PER_MPS * v_mps) * cooling * (h_s / capacity)
    warmed: Floats = t_c + work_j / capacity - loss * (t_c - ambient_c)
    return warmed


def pad_wear_pct(work_j: Floats, disc_c: Floats, disc_kg: Floats) -> Floats:
    """Wear by ``work_j``: in proportion, and faster on a hot disc (twice at 350 C, five times at 500 C)."""
    over = np.maximum(disc_c - PAD_HOT_C, 0.0) / PAD_HOT_SCALE_C
    worn: Floats = work_j / (PAD_J_PER_PCT_KG * disc_kg) * (1 + over * over)
    return worn
