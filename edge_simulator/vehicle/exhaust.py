"""The diesel particulate filter: soot that gathers, and burns off in regenerations. [n_vehicles]."""

from __future__ import annotations

import numpy as np

from edge_simulator.geo import Bools, Floats

BEGINS_PCT, ENDS_PCT = 75.0, 25.0
GATHERS_PCT_S = 0.004
BURNS_PCT_S = 0.1
BLOCKED_PCT_S = 0.08
"""How fast a filter that cannot regenerate fills, %/s of running: a time-lapse (eng.), in truth days."""
GIVES_UP_S, RETRIES_S = 40.0, 180.0


def regeneration_s(
    since_s: Floats, soot_pct: Floats, soot_to_pct: Floats, running: Bools, h_s: float
) -> Floats:
    """The clock of a regeneration after a step: > 0 burning for so long, < 0 waiting after a failure.

    A sound filter burns from 75 % down to 25 %, pausing while the engine is off; a blocked one
    (``soot_to_pct`` > 0) gives up after 40 s and tries again 180 s later.
    """
    burning, waiting = since_s > 0, since_s < 0
    given_up = burning & (soot_to_pct > 0) & (since_s >= GIVES_UP_S)
    done = burning & (soot_pct <= ENDS_PCT)
    begins = (since_s == 0) & (soot_pct >= BEGINS_PCT) & running
    goes_on = np.where(running, np.where(waiting, np.minimum(since_s + h_s, 0.0), since_s + h_s), since_s)
    kept = np.where(burning | waiting | begins, goes_on, 0.0)
    return np.where(given_up, -RETRIES_S, np.where(done, 0.0, kept))


def soot_step(soot_pct: Floats, burning: Bools, soot_to_pct: Floats, running: Bools, h_s: float) -> Floats:
    """Soot after ``h_s`` seconds, %. What a blocked filter still burns is half of what a sound one does."""
    blocked = soot_to_pct > 0
    fills = BLOCKED_PCT_S * np.clip((soot_to_pct - soot_pct) / 5.0, 0.0, 1.0)
    burns = BURNS_PCT_S * np.where(blocked, 0.5, 1.0)
    rate = np.where(burning, -burns, GATHERS_PCT_S + np.where(blocked, fills, 0.0))
    return np.where(running, np.maximum(soot_pct + rate * h_s, 0.0), soot_pct)
