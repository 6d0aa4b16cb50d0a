"""Crash messages kept until the broker has acknowledged them: files in the folder ``crashes`` of a run.

A message is on the disk before it is published; after its PUBACK an empty file stands beside it. So a record
survives the end of the simulator, and the next run sends it again under the same identity.
"""

from collections.abc import Iterable
from pathlib import Path

import orjson

from edge_simulator.sending.publishing import Message, Publishing
from infra.contract.errors import ConfigError
from infra.contract.topics import mqtt_topic
from infra.settings.files import write_whole

FOLDER = "crashes"
ACKED = ".acked"  # suffix of the empty file
CHANNEL = "crash"
RESENT = "resent"  # how the publisher counts records of an earlier run, apart from the run's own


def path_of(run: Path, payload: bytes) -> Path:
    """Where a run, by its folder, keeps a message: by its identity; parts of a record by their number."""
    body = orjson.loads(payload)
    name = f"{body['vehicle_id']}-{body['boot_id']}-{body['crash_id']}-{body.get('part', 0):04}"
    return run / FOLDER / f"{name}.json"


def vehicle_of(path: Path) -> str:
    """Whose message is in a file."""
    return path.name.partition("-")[0]


def keep(run: Path, payloads: Iterable[bytes]) -> None:
    """Write down messages as they are sealed, before anything of them is sent."""
    for payload in payloads:
        write_whole(path_of(run, payload), payload)


def note_acked(paths: Iterable[Path]) -> None:
    """Note down that the messages in these files were acknowledged."""
    for path in paths:
        path.with_suffix(ACKED).touch()


def unacked(runs: Iterable[Path]) -> list[Path]:
    """The files of messages that have no PUBACK yet, of runs by their folders, in the order of sealing."""
    kept = (path for run in runs for path in (run / FOLDER).glob("*.json"))
    found = [path for path in kept if not path.with_suffix(ACKED).exists()]
    return sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name))


def folder_of(home: Path, run: str) -> Path:
    """The folder of a run, given by its id or that folder; raises ConfigError where it kept none."""
    for folder in (home / "runs" / run, Path(run)):
        if (folder / FOLDER).is_dir():
            return folder
    raise ConfigError(f"{run}: no run with crash records in {home / 'runs'}, and no folder of one")


def resend(publisher: Publishing, root: str, paths: Iterable[Path]) -> None:
    """Publish kept messages once more; their files appear among the publisher's ``acked_marks``."""
    again = [
        Message(mqtt_topic(root, vehicle_of(path), CHANNEL), path.read_bytes(), RESENT, mark=path)
        for path in paths
    ]
    publisher.publish_many([0] * len(again), again)
