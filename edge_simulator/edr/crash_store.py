"""Crash messages kept until the broker has acknowledged them: ``crashes.jsonl`` in a run's folder.

A line is on the disk before its message is published; a line with its key follows the PUBACK. So a record
survives the end of the simulator, and whoever comes next offers it again under the same identity.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from edge_simulator.edr.blackbox import Sealed
    from edge_simulator.telemetry.outbox import Outgoing

FILE = "crashes.jsonl"
CHANNEL = "crash"


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a kept message is written down: the file, and its key there."""

    path: Path
    key: str


@dataclass(frozen=True, slots=True)
class Kept:
    """A message that has no PUBACK yet."""

    mark: Mark
    vehicle_id: str
    payload: bytes


class CrashStore:
    """The crash messages of one run."""

    def __init__(self, folder: Path, vehicle_ids: Sequence[str]) -> None:
        self._path = folder / FILE
        self._ids = vehicle_ids

    def keep(self, records: Iterable[Sealed]) -> None:
        """Write down records as they are sealed, before anything of them is sent."""
        lines = [
            {"key": _key(payload), "vehicle_id": self._ids[record.vehicle], "payload": payload.decode()}
            for record in records
            for payload in record.payloads
        ]
        append(self._path, lines)

    def mark(self, item: Outgoing) -> Mark | None:
        """What the PUBACK of a crash message is to be noted under; None for any other message."""
        return Mark(self._path, _key(item.payload)) if item.channel == CHANNEL else None


def note(marks: Iterable[Mark]) -> None:
    """Write down that messages were acknowledged."""
    by_file: dict[Path, list[str]] = {}
    for mark in marks:
        by_file.setdefault(mark.path, []).append(mark.key)
    for path, keys in by_file.items():
        append(path, [{"acked": key} for key in keys])


def append(path: Path, lines: Sequence[dict[str, str]]) -> None:
    """Add lines to a file, and wait until they are on the disk."""
    if not lines:
        return
    # A line that a crash cut off would swallow the next one: begin on a line of its own.
    text = b"".join(b"\n" + orjson.dumps(line) for line in lines) + b"\n"
    with path.open("ab") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def unacked(path: Path) -> tuple[list[Kept], int]:
    """The messages in a file that have no PUBACK yet, in order; and how many lines cannot be read."""
    kept: dict[str, Kept] = {}
    broken = 0
    for line in path.read_bytes().split(b"\n"):
        try:
            row = orjson.loads(line) if line else {}
            if "acked" in row:
                kept.pop(row["acked"], None)
            elif row:
                mark = Mark(path, row["key"])
                kept[mark.key] = Kept(mark, row["vehicle_id"], row["payload"].encode())
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
            broken += 1
    return list(kept.values()), broken


def files(home: Path) -> list[Path]:
    """The files of all runs in a home, oldest run first by name."""
    return sorted((home / "runs").glob(f"*/{FILE}"))


def _key(payload: bytes) -> str:
    """The identity of a crash message; parts of one record differ by their number."""
    body = orjson.loads(payload)
    part = f"/{body['part']}of{body['parts']}" if "part" in body else ""
    return f"{body['vehicle_id']}/{body['boot_id']}/{body['crash_id']}{part}"
