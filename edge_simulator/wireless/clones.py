"""Second devices under a vehicle's identity: another vehicle's frames, with a head of their own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import orjson

from edge_simulator.geo import Floats, Ints
from infra.contract import frame

BOOT_AHEAD_MS = 3_600_000
"""A clone was started so much earlier than the run: its boot id is its own."""
CANDIDATES = 8


class Clones:
    """Which vehicle's motion (the source) is also told under whose identity (the victim).

    A victim's clone moves like a source of the same kind of powertrain, the farthest of a few drawn ones.
    """

    def __init__(
        self, share: float, rng: np.random.Generator, powertrain: Sequence[str], lat: Floats, lon: Floats
    ) -> None:
        n = len(powertrain)
        self._victim = np.full(n, -1, dtype=np.int64)
        self._seq = np.zeros(n, dtype=np.int64)
        wanted = max(1, round(share * n)) if share > 0 and n > 1 else 0
        kinds = np.array(powertrain)
        for victim in rng.permutation(n)[:wanted].tolist():
            source = self._source(victim, kinds, rng, lat, lon)
            self._victim[source] = victim
        self.pairs = {int(s): int(self._victim[s]) for s in np.flatnonzero(self._victim >= 0)}

    def _source(
        self, victim: int, kinds: np.ndarray, rng: np.random.Generator, lat: Floats, lon: Floats
    ) -> int:
        free = np.flatnonzero((self._victim < 0) & (np.arange(len(kinds)) != victim))
        alike = free[kinds[free] == kinds[victim]]
        drawn = rng.permutation(alike if len(alike) else free)[:CANDIDATES]
        away = (lat[drawn] - lat[victim]) ** 2 + (lon[drawn] - lon[victim]) ** 2
        return int(drawn[away.argmax()])

    def among(self, rows: Ints) -> list[int]:
        """Places in ``rows`` whose frames a clone sends too."""
        return np.flatnonzero(self._victim[rows] >= 0).tolist() if self.pairs else []

    def frame(self, source: int, payload: bytes, victim_id: str, start_ms: int) -> bytes:
        """The clone's own frame, made of its source's."""
        body = orjson.loads(payload)
        body |= {
            "vehicle_id": victim_id, "boot_id": self.boot_id(start_ms), "seq": int(self._seq[source]),
        }  # fmt: skip
        self._seq[source] += 1
        return frame.encode(body)

    def counted(self, vehicle_ids: Sequence[str], start_ms: int) -> list[tuple[tuple[str, int], int]]:
        """Vehicle id, boot id and next sequence number of each clone."""
        boot_id = self.boot_id(start_ms)
        return [((vehicle_ids[v], boot_id), int(self._seq[s])) for s, v in self.pairs.items()]

    @staticmethod
    def boot_id(start_ms: int) -> int:
        """The boot id of all clones of a run."""
        return start_ms - BOOT_AHEAD_MS
