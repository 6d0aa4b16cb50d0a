"""Idling: standing (below 1 km/h) with the ignition on for ``idle_ms`` and more, with what it burns; pure."""

from __future__ import annotations

import msgspec

from stream_jobs.vehicles.beat import Beat
from stream_jobs.vehicles.journeys.limits import JourneyLimits
from stream_jobs.vehicles.journeys.places import Place, place
from stream_jobs.vehicles.journeys.rows import FINAL, OPEN, PROVISIONAL, IdleRow, degrees

MS_PER_S = 1000
SEEN_MS = 1000
"""Frames so far apart still tell all of the time between them."""


class Idling(msgspec.Struct, array_like=True):
    """An episode so far."""

    from_ms: int
    to_ms: int
    where: Place | None = None
    fuel_l: float | None = None
    energy_kwh: float | None = None
    told: str = ""


class IdleState(msgspec.Struct, array_like=True):
    """What is remembered of one vehicle."""

    episode: Idling | None = None
    received_ms: int = 0


class IdleEpisodes:
    """The machine for one vehicle; what it remembers is in ``state``."""

    def __init__(self, limits: JourneyLimits, vehicle_id: str, state: IdleState) -> None:
        self._limits = limits
        self._vehicle = vehicle_id
        self._state = state

    def step(self, beat: Beat) -> list[IdleRow]:
        """Rows that follow from the next beat."""
        state = self._state
        state.received_ms = beat.received_ms
        rows: list[IdleRow] = []
        episode = state.episode
        if episode is not None and beat.t0_ms - episode.to_ms > SEEN_MS:
            rows += self._end()
        if beat.ignition_on is not True or beat.moving_ms is None:
            return rows + self._end()
        if beat.moving_from_ms is None or beat.moving_to_ms is None:
            return rows + self._stand(beat, beat.t0_ms, beat.end_ms)
        if state.episode is not None:
            rows += self._stand(beat, beat.t0_ms, beat.moving_from_ms)
        rows += self._end()
        if beat.moving_to_ms < beat.end_ms:
            rows += self._stand(beat, beat.moving_to_ms, beat.end_ms)
        return rows

    def due_ms(self) -> int | None:
        """When (receive clock) an episode that nothing more is heard of is told as it was."""
        episode = self._state.episode
        open_told = episode is not None and episode.told == OPEN
        return self._state.received_ms + self._limits.end_ms if open_told else None

    def expire(self) -> list[IdleRow]:
        """The episode so far."""
        episode = self._state.episode
        return [] if episode is None else self._tell(episode, PROVISIONAL)

    def _stand(self, beat: Beat, from_ms: int, to_ms: int) -> list[IdleRow]:
        state = self._state
        where = place(beat.lat_deg, beat.lon_deg)
        episode = state.episode
        if episode is None:
            episode = state.episode = Idling(from_ms, from_ms, where)
        share = (to_ms - from_ms) / (beat.end_ms - beat.t0_ms)
        episode.to_ms = max(episode.to_ms, to_ms)
        episode.fuel_l = _plus(episode.fuel_l, beat.fuel_l, share)
        episode.energy_kwh = _plus(episode.energy_kwh, beat.energy_kwh, share)
        long_enough = episode.to_ms - episode.from_ms >= self._limits.idle_ms
        return self._tell(episode, OPEN) if long_enough and episode.told != OPEN else []

    def _end(self) -> list[IdleRow]:
        episode, self._state.episode = self._state.episode, None
        if episode is None or episode.to_ms - episode.from_ms < self._limits.idle_ms:
            return []
        return self._tell(episode, FINAL)

    def _tell(self, episode: Idling, phase: str) -> list[IdleRow]:
        episode.told = phase
        span_ms = (episode.from_ms, episode.to_ms)
        duration_s = (span_ms[1] - span_ms[0]) / MS_PER_S
        burnt = (episode.fuel_l, episode.energy_kwh)
        return [IdleRow(self._vehicle, *span_ms, phase, duration_s, *burnt, *degrees(episode.where))]


def _plus(total: float | None, more: float | None, share: float) -> float | None:
    if more is None:
        return total
    return (total or 0.0) + more * share
