"""Which frames an audit is about (README: "A frame belongs to the time of its first sample")."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from infra.contract.errors import ConfigError
from infra.settings.values import day_ms, duration_ms

EVER_MS: Final = 1 << 52
"""Later than any moment, ms; a whole number as a double too."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Moments in [since, until), of what was received before ``seen_until``; ms since 1970."""

    since_ms: int
    until_ms: int
    seen_until_ms: int = EVER_MS

    @property
    def whole(self) -> bool:
        return self.since_ms == 0 and self.until_ms == EVER_MS

    def bounds(self) -> dict[str, int]:
        return {"since": self.since_ms, "until": self.until_ms, "seen": self.seen_until_ms}

    def closed(self, closed_ms: int, lateness_ms: int, window_ms: int) -> "Scope":
        """What of it is closed when everything received before ``closed_ms`` is in archive and windows.

        A frame that is not late is received within ``lateness_ms`` of its first sample. Both ends lie
        on the grid of windows.
        """
        since_ms = self.since_ms // window_ms * window_ms
        until_ms = min(self.until_ms, closed_ms - lateness_ms) // window_ms * window_ms
        return Scope(since_ms, max(since_ms, until_ms), closed_ms)

    def kept(self, horizon_ms: int | None, now_ms: int) -> "Scope":
        """What of it is not older than the oldest windows and records; raises ConfigError for nothing."""
        if horizon_ms is None or self.since_ms >= horizon_ms:
            return self
        if self.until_ms <= horizon_ms:
            begin = datetime.fromtimestamp(horizon_ms / 1000, UTC)
            raise ConfigError(
                f"windows or records before {begin:%Y-%m-%d %H:%M} UTC have been dropped "
                "(ODOGRAPH_RETENTION_WINDOWS_DAYS, ODOGRAPH_ARCHIVE_KEEP_DAYS): there is nothing to balance"
            )
        return replace(self, since_ms=horizon_ms, until_ms=min(self.until_ms, now_ms))


WHOLE: Final = Scope(0, EVER_MS)


def wanted(since: str | None, day: str | None, tz: str, now_ms: int) -> Scope:
    """The scope that options ask for; without any the whole. Raises ConfigError."""
    if since is not None and day is not None:
        raise ConfigError("--since and --day: one of the two is wanted")
    if since is not None:
        return Scope(now_ms - duration_ms(since, "--since"), now_ms)
    if day is None:
        return WHOLE
    scope = Scope(*day_ms(day, "--day", tz))
    if scope.since_ms > now_ms:
        raise ConfigError(f"--day {day}: that day has not begun ({tz})")
    return scope
