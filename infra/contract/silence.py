"""Alerts that nobody is to be told of for a while: the file beside the table, for what has no database.

`odograph alerts silence` writes the table and this file, ``<home>/lookups/silences.json``; the downlink reads
it again whenever it changed. On a downlink of another machine it must be copied there.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import orjson

NAME: Final = "silences.json"


@dataclass(frozen=True, slots=True)
class Silence:
    """Until ``until_ms`` (since 1970); a rule, a vehicle, or both: None is any."""

    rule: str | None
    vehicle_id: str | None
    from_ms: int
    until_ms: int

    def covers(self, vehicle_id: str, rule: str, now_ms: int) -> bool:
        """Whether an alert is under it now; ``rule`` may have a part after a point."""
        ours = self.rule is None or self.rule in (rule, rule.partition(".")[0])
        return self.from_ms <= now_ms < self.until_ms and ours and self.vehicle_id in (None, vehicle_id)


def silence_file(home: Path) -> Path:
    """Where it lies."""
    return home / "lookups" / NAME


def write_silences(path: Path, silences: Sequence[Silence]) -> None:
    """Write the file whole, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_bytes(orjson.dumps([asdict(silence) for silence in silences]))
    draft.replace(path)


class Silences:
    """The file's content, read again when it changes; a file that cannot be read silences nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mark: tuple[int, int] | None = None
        self._held: tuple[Silence, ...] = ()

    def cover(self, vehicle_id: str, rule: str, now_ms: int) -> bool:
        """Whether an alert is silenced now."""
        self._look()
        return any(silence.covers(vehicle_id, rule, now_ms) for silence in self._held)

    def _look(self) -> None:
        try:
            stat = self._path.stat()
            mark = (stat.st_mtime_ns, stat.st_size)
            if mark != self._mark:
                self._held = tuple(Silence(**row) for row in orjson.loads(self._path.read_bytes()))
                self._mark = mark
        except (OSError, ValueError, TypeError):
            self._held, self._mark = (), None
