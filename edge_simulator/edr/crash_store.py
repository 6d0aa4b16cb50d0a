"""Crash messages kept until the broker has acknowledged them: ``crashes.jsonl`` in a run's folder.

A line is on the disk before its message is published; a line with its key follows the PUBACK. So a record
survives the end of the simulator, and the next run sends it again under the same identity.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import orjson

from edge_simulator.edr.recorder import Sealed
from edge_simulator.sending.publishing import AckMark, Message, Publishing
from edge_simulator.telemetry.outbox import Outgoing
from infra.contract.errors import ConfigError
from infra.contract.topics import mqtt_topic

FILE = "crashes.jsonl"
CHANNEL = "crash"
RESENT = "resent"  # how the publisher counts records of an earlier run, apart from the run's own


class Unacked(NamedTuple):
    """A message that has no PUBACK yet."""

    mark: AckMark
    vehicle_id: str
    payload: bytes


@dataclass(frozen=True)
class CrashStore:
    """The crash messages of one run, in ``path``."""

    path: Path
    vehicle_ids: Sequence[str]

    def keep(self, records: "Iterable[Sealed]") -> None:
        """Write down records as they are sealed, before anything of them is sent."""
        ids = self.vehicle_ids
        _append(self.path, [
            {"key": _key(payload), "vehicle_id": ids[record.vehicle], "payload": payload.decode()}
            for record in records
            for payload in record.payloads
        ])  # fmt: skip

    def mark(self, item: Outgoing) -> AckMark | None:
        """What the PUBACK of a crash message is to be noted under; None for any other message."""
        return AckMark(self.path, _key(item.payload)) if item.channel == CHANNEL else None


def note_acked(marks: Iterable[AckMark]) -> None:
    """Write down that messages were acknowledged."""
    by_file: defaultdict[Path, list[dict[str, str]]] = defaultdict(list)
    for mark in marks:
        by_file[mark.path].append({"acked": mark.key})
    for path, lines in by_file.items():
        _append(path, lines)


def _append(path: Path, lines: Sequence[dict[str, str]]) -> None:
    """Add lines to a file, and wait until they are on the disk."""
    if not lines:
        return
    # A line that a crash cut off would swallow the next one: begin on a line of its own.
    text = b"".join(b"\n" + orjson.dumps(line) for line in lines) + b"\n"
    with path.open("ab") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def unacked_of(paths: Iterable[Path], say: Callable[[str], None]) -> list[Unacked]:
    """The messages in some files that have no PUBACK yet, in order; reports lines that cannot be read."""
    found: dict[AckMark, Unacked] = {}
    for path in paths:
        broken = 0
        for line in path.read_bytes().split(b"\n"):
            try:
                row = orjson.loads(line) if line else {}
                if "acked" in row:
                    found.pop(AckMark(path, row["acked"]), None)
                elif row:
                    mark = AckMark(path, row["key"])
                    found[mark] = Unacked(mark, row["vehicle_id"], row["payload"].encode())
            except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
                broken += 1
        if broken:
            say(f"{path}: {broken} lines cannot be read (cut off when their run ended); the others are used")
    return list(found.values())


def files(home: Path) -> list[Path]:
    """The files of all runs in a home, oldest run first by name."""
    return sorted((home / "runs").glob(f"*/{FILE}"))


def file_of(home: Path, run: str) -> Path:
    """The file of a run, given by its id or its folder; raises ConfigError where it kept none."""
    for folder in (home / "runs" / run, Path(run)):
        if (folder / FILE).is_file():
            return folder / FILE
    raise ConfigError(f"{run}: no run with crash records in {home / 'runs'}, and no folder of one")


def resend(publisher: Publishing, root: str, messages: Iterable[Unacked]) -> None:
    """Publish kept messages once more; their PUBACKs appear among the publisher's ``acked_marks``."""
    again = [
        Message(mqtt_topic(root, vehicle_id, CHANNEL), payload, RESENT, mark=mark)
        for mark, vehicle_id, payload in messages
    ]
    publisher.publish_many([0] * len(again), again)


def _key(payload: bytes) -> str:
    """The identity of a crash message; parts of one record differ by their number."""
    body = orjson.loads(payload)
    part = f"/{body['part']}of{body['parts']}" if "part" in body else ""
    return f"{body['vehicle_id']}/{body['boot_id']}/{body['crash_id']}{part}"
