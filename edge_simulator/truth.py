"""Ground truth: what really happened in a run, a row per event; the README has its kinds."""

from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]


class TruthLog:
    """Rows in the order in which they became known, until they are taken.

    ``start_ms`` is the run's start, ms since 1970; the times given count from it.
    """

    def __init__(self, vehicle_ids: Sequence[str], start_ms: int) -> None:
        self._ids, self.start_ms = vehicle_ids, start_ms
        self._rows: list[Row] = []

    def add(self, kind: str, vehicle: int, from_ms: int, to_ms: int | None, **more: Any) -> None:
        """``vehicle`` by its index; ``to_ms`` None: it goes on, or stays."""
        end_ms = None if to_ms is None else self.start_ms + to_ms
        head = {"kind": kind, "vehicle_id": self._ids[vehicle], "from_ms": self.start_ms + from_ms}
        self._rows.append({**head, "to_ms": end_ms, **more})

    def take(self) -> list[Row]:
        """The rows since the last call."""
        found, self._rows = self._rows, []
        return found
