"""Offers crash records again that an earlier run could not deliver."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from edge_simulator.edr import crash_store
from edge_simulator.edr.crash_store import Kept
from edge_simulator.sending.publishing import Message, Publishing
from infra.contract.errors import ConfigError
from infra.contract.topics import mqtt_topic

KIND = "resent"
"""How the publisher counts them, apart from the run's own."""

Say = Callable[[str], None]


def waiting(paths: Iterable[Path], say: Say) -> list[Kept]:
    """What the files hold that has no PUBACK; says which lines cannot be read."""
    found: list[Kept] = []
    for path in paths:
        kept, broken = crash_store.unacked(path)
        found += kept
        if broken:
            say(f"{path}: {broken} lines cannot be read (cut off when their run ended); the others are used")
    return found


def file_of(home: Path, run: str) -> Path:
    """The file of a run, given by its id or its folder; raises ConfigError where it kept none."""
    for folder in (home / "runs" / run, Path(run)):
        if (folder / crash_store.FILE).is_file():
            return folder / crash_store.FILE
    raise ConfigError(f"{run}: no run with crash records in {home / 'runs'}, and no folder of one")


def offer(publisher: Publishing, root: str, kept: Iterable[Kept]) -> None:
    """Publish kept messages once more; their PUBACKs appear among the publisher's ``acked_marks``."""
    for item in kept:
        topic = mqtt_topic(root, item.vehicle_id, crash_store.CHANNEL)
        publisher.publish(0, Message(topic, item.payload, KIND, mark=item.mark))
