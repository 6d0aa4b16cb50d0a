"""All attacks, in the order in which they are tried."""

from __future__ import annotations

from typing import Final

from load_tests.drills.poison import bridge, downlink, evidence, gates, maintenance, records, stack
from load_tests.drills.poison.attack import Attack

ATTACKS: Final[tuple[Attack, ...]] = (
    *gates.ATTACKS,
    *downlink.ATTACKS,
    *evidence.ATTACKS,
    *stack.ATTACKS,
    *maintenance.ATTACKS,
    *bridge.ATTACKS,
    *records.ATTACKS,
)
