"""A second place for the archive, where ``archive.url`` says: brought up to date, and read back from.

It holds what the manifest names, in the same folders. The stream does not wait for it.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from infra.contract.errors import ArchiveError, ConfigError
from infra.settings.settings import Settings
from stream_jobs.app.session import LOCAL, spark_when_asked
from stream_jobs.archive import manifest
from stream_jobs.archive.manifest import MANIFEST, PACKED, TELEMETRY, hour_name
from stream_jobs.archive.reader import of_hours
from stream_jobs.archive.writer import adopt, now_ms
from stream_jobs.recovery.files import HadoopStore

FETCHING: Final = ".fetching"

log = structlog.get_logger("stream_jobs.archive")


class Pushed(NamedTuple):
    """What a push did; counts of files."""

    sent: int = 0
    bytes: int = 0
    removed: int = 0


@dataclass(slots=True)
class Mirror:
    """Keeps the second place up to date: what changed since its last pass goes there."""

    folder: Path
    grace_ms: int
    store: Callable[[], HadoopStore]
    _pushed_ms: dict[int, int] = field(default_factory=dict)

    def __call__(self) -> int:
        """How many files were sent; an hour that could not be sent is tried again by the next pass."""
        sent, store = 0, self.store()
        for hour in sorted(manifest.hours_listed(self.folder)):
            changed_ms = manifest.manifest_of(self.folder, hour).stat().st_mtime_ns // 1_000_000
            # After the grace time there is something to remove.
            if self._pushed_ms.get(hour, 0) <= changed_ms + self.grace_ms:
                begun_ms = now_ms()
                try:
                    sent += push(self.folder, store, [hour], self.grace_ms).sent
                    self._pushed_ms[hour] = begun_ms
                except ArchiveError as error:
                    log.error("an hour was not sent", hour=hour_name(hour), error=str(error))
        return sent


@contextmanager
def second_place(settings: Settings) -> Iterator[HadoopStore]:
    """The place, with a JVM of its own around it. Raises ConfigError where there is none."""
    if not settings.archive.url:
        raise ConfigError("there is no second place: set ODOGRAPH_ARCHIVE_URL, as hdfs://host:port/odograph")
    with spark_when_asked(settings, "archive", settings.jobs.instant_mb, LOCAL) as session:
        yield HadoopStore(session(), settings.archive.url)


def push(folder: Path, store: HadoopStore, hours_ms: Iterable[int], grace_ms: int) -> Pushed:
    """Bring hours up to date there; what was replaced or expired goes after the grace time."""
    done = Pushed()
    for hour in hours_ms:
        adopt(folder, hour)
        place, lines = f"{TELEMETRY}/{hour_name(hour)}", Path(MANIFEST, f"{hour_name(hour)}.jsonl")
        there = store.sizes(place)
        written = {file.path: file.entry.bytes for file in of_hours(folder, [hour]) if file.entry is not None}
        new = {path: size for path, size in written.items() if there.get(path.name) != size}
        for path in new:
            store.put(path, f"{place}/{path.name}")
        old_ms = now_ms() - grace_ms
        replaced_ms = manifest.read_hour(folder, hour).replaced_ms
        gone = [name for name, at_ms in replaced_ms.items() if name in there and at_ms <= old_ms]
        for name in gone:
            store.remove(f"{place}/{name}")
        here = folder / lines  # it only grows: of another size there it was not sent yet
        if here.exists() and store.sizes(str(lines.parent)).get(lines.name) != here.stat().st_size:
            store.put(here, str(lines))
        done = Pushed(done.sent + len(new), done.bytes + sum(new.values()), done.removed + len(gone))
    return done


def fetch(folder: Path, store: HadoopStore, hours_ms: Iterable[int]) -> list[str]:
    """Put back, from there, files that are missing here or not as they were written; their names.

    The manifest of an hour that is not here at all comes first: a home that was lost. Raises ArchiveError for
    a file that is not whole there either.
    """
    fetched = []
    for hour in hours_ms:
        lines = Path(MANIFEST, f"{hour_name(hour)}.jsonl")
        if not (folder / lines).exists() and lines.name in store.sizes(str(lines.parent)):
            _fetch(folder, store, str(lines), None)
        place = f"{TELEMETRY}/{hour_name(hour)}"
        for name, entry in manifest.read_hour(folder, hour).files.items():
            known = [folder / place / name, folder / PACKED / hour_name(hour) / name]
            if not any(path.exists() and manifest.sha256_of(path) == entry.sha256 for path in known):
                _fetch(folder, store, f"{place}/{name}", entry.sha256)
                fetched.append(name)
    return fetched


def _fetch(folder: Path, store: HadoopStore, name: str, sha256: str | None) -> None:
    """A file from there to its place; raises ArchiveError where its SHA-256 is another than this."""
    draft, target = folder / FETCHING / Path(name).name, folder / name
    draft.parent.mkdir(parents=True, exist_ok=True)
    store.get(name, draft)
    if sha256 is not None and manifest.sha256_of(draft) != sha256:
        draft.unlink()
        raise ArchiveError(f"{name} is not whole in the second place either: its bytes are not those written")
    target.parent.mkdir(parents=True, exist_ok=True)
    with manifest.locked(folder, writing=True):
        manifest.sync(draft)
        draft.replace(target)
        manifest.sync(target.parent)
