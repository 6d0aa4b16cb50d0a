"""Durations as people write them."""

from __future__ import annotations

import re
from typing import Final

from infra.contract.errors import ConfigError

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNIT_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms(text: str, option: str) -> int:
    """``500ms``, ``10s``, ``1.5m``, ``2h``, ``7d`` in ms; raises ConfigError naming ``option``."""
    match = _DURATION.fullmatch(text.strip())
    value = round(float(match[1]) * _UNIT_MS[match[2]]) if match else 0
    if value <= 0:
        raise ConfigError(f"{option} {text!r}: a duration such as 500ms, 10s, 5m or 2h is wanted")
    return value
