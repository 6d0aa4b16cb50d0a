"""Values as people write them: durations, moments, vehicles, the host names under which a server answers."""

import re
from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime, time, timedelta
from ipaddress import IPv6Address
from typing import Final
from zoneinfo import ZoneInfo

from infra.contract.errors import ConfigError
from infra.contract.topics import VEHICLE_ID

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})  # no name server can lead these elsewhere

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNIT_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
LONGEST_MS: Final = 36_525 * _UNIT_MS["d"]  # 100 years: calendars and waits end soon after
_AUTHORITY: Final = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(:[0-9]{1,5})?")


def duration_ms(text: str, option: str) -> int:
    """``500ms``, ``10s``, ``1.5m``, ``2h``, ``7d`` in ms; raises ConfigError naming ``option``."""
    match = _DURATION.fullmatch(text.strip())
    value = float(match[1]) * _UNIT_MS[match[2]] if match else 0.0
    if not 0.5 < value <= LONGEST_MS:
        raise ConfigError(f"{option} {text!r}: a duration such as 500ms, 10s, 5m or 2h is wanted")
    return round(value)


def moment_at(text: str, option: str) -> datetime:
    """``2026-11-20``, ``2026-11-20T08:00`` as a time, UTC without a zone; raises ConfigError.

    Not before 1970, which Kafka takes for something else, nor at the calendar's end.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"{option} {text!r} is no time like 2026-11-20T08:00") from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if moment.timestamp() < 0 or moment.year > 9998:
        raise ConfigError(f"{option} {text!r}: a time after 1970, before 9999 is wanted")
    return moment


def moment_ms(text: str, option: str) -> int:
    """The same in ms since 1970."""
    return round(moment_at(text, option).timestamp() * 1000)


def day_ms(text: str, option: str, tz: str) -> tuple[int, int]:
    """The day ``2026-11-20`` from midnight to midnight in zone ``tz``, ms since 1970; raises ConfigError."""
    try:
        days = (day := date.fromisoformat(text)), day + timedelta(days=1)
    except (ValueError, OverflowError) as error:
        raise ConfigError(f"{option} {text!r}: a day such as 2026-11-20 is wanted") from error
    begin, end = (datetime.combine(at, time(), ZoneInfo(tz)) for at in days)
    return int(begin.timestamp() * 1000), int(end.timestamp() * 1000)


def vehicle_id(text: str, option: str = "") -> str:
    """The id, if it is one; raises ConfigError."""
    if VEHICLE_ID.fullmatch(text) is None:
        wanted = "17 digits and capitals without I, O and Q (ISO 3779)"
        raise ConfigError(f"{option} {text!r} is no vehicle id: {wanted}".lstrip())
    return text


def host_name(authority: str, port: bool = True) -> str | None:
    """The host of ``host`` or, with ``port``, ``host:port``: lower case, IPv6 without brackets; else None."""
    found = _AUTHORITY.fullmatch(authority.lower())
    if found is None or (found[3] and not port):
        return None
    try:
        return found[2] or str(IPv6Address(found[1]))
    except ValueError:
        return None


def is_ours(hosts: Sequence[str], origins: Sequence[str], names: Collection[str]) -> bool:
    """Whether a request with these ``Host`` and ``Origin`` headers is one for a server called ``names``.

    The check against DNS rebinding: a page's script cannot forge these two. There must be one Host; an
    Origin, where there is one, must be ours too. Ports are not compared.
    """
    if len(hosts) != 1 or host_name(hosts[0]) not in names:
        return False
    return not origins or (len(origins) == 1 and _origin_name(origins[0]) in names)


def _origin_name(origin: str) -> str | None:
    scheme, _, authority = origin.partition("://")
    return host_name(authority) if scheme in ("http", "https") else None
