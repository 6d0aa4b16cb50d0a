"""Moments as people write them."""

from __future__ import annotations

from datetime import UTC, datetime

from infra.contract.errors import ConfigError


def moment_ms(text: str, option: str) -> int:
    """``2026-11-20``, ``2026-11-20T08:00`` in ms since 1970, UTC without a zone; raises ConfigError."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"{option} {text!r} is no time like 2026-11-20T08:00") from error
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
