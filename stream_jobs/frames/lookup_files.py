"""Files that workers read beside the records: in a folder, or as copies of what maintenance serves.

The process that writes them serves them under /lookups of its health page where that is how programs have
them (ODOGRAPH_PATHS_LOOKUPS=http://host:port/lookups, workers of a cluster). There a file that cannot be had
is an error, never an empty one; a copy that a worker has stays in force while the page is away.
"""

import json
import os
import tempfile
import time
import urllib.request
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final, TypeVar

import structlog

from infra.contract.errors import ConfigError, ServiceError
from infra.settings.files import write_whole
from infra.settings.settings import Settings

Place = Path | str  # the folder, or the URL of the page
Read = TypeVar("Read")
LOOKUPS: Final = "lookups"
CHECK_S: Final = 2.0  # a page is asked at most this often whether its files have changed
ANSWER_S: Final = 10.0
PAGES: Final = ("http://", "https://")

log = structlog.get_logger("stream_jobs.lookups")


def folder_of(settings: Settings) -> Path:
    """Where the files are written."""
    place = settings.paths.place(LOOKUPS)
    return settings.paths.home.absolute() / LOOKUPS if "://" in place else Path(place)


def served(settings: Settings) -> Path | None:
    """What maintenance serves; nothing where nobody has it by the page: it names vehicles, and asks for no
    login.
    """
    by_page = settings.cluster.workers or "://" in settings.paths.lookups
    return folder_of(settings) if by_page else None


def place_of(settings: Settings) -> Place:
    """Where the files are read. Raises ConfigError for a URL that workers cannot read."""
    place = settings.paths.place(LOOKUPS)
    if "://" not in place:
        return Path(place)
    if not place.startswith(PAGES):
        raise ConfigError(
            f"ODOGRAPH_PATHS_LOOKUPS {place}: a folder, or the page of `odograph maintenance`, which serves "
            "them, is wanted: http://host:port/lookups"
        )
    return place


def held(place: Place, name: str, read: Callable[..., Read], *terms: Hashable) -> Read:
    """What ``read`` makes of the file, or of the copy of a page's, and the ``terms``: read once a version.

    Raises ServiceError where a page gives none. ``read`` is called, too, while there is no file yet.
    """
    path = place / name if isinstance(place, Path) else _copies(place).file(name)
    version: tuple[int, int] | None = None
    with suppress(FileNotFoundError):
        stat = path.stat()
        version = stat.st_mtime_ns, stat.st_ino
    found: Read = _held(path, version, read, *terms)
    return found


@lru_cache(maxsize=8)
def _held(path: Path, _version: tuple[int, int] | None, read: Callable[..., Any], *terms: Hashable) -> Any:
    return read(path, *terms)


@dataclass(slots=True)
class Copies:
    """The files of a page in a folder of this process."""

    page: str
    folder: Path
    _versions: dict[str, str] | None = None
    _checked_s: float = field(default=-CHECK_S)

    def file(self, name: str) -> Path:
        """The copy, which is missing where the page has no such file yet."""
        if time.monotonic() - self._checked_s >= CHECK_S:
            try:
                self._refresh()
            except (OSError, HTTPException, ValueError) as error:  # an answer may be cut short
                if self._versions is None:
                    raise ServiceError(
                        f"{self.page} gives no lookups ({error}): is `odograph maintenance` running there?"
                    ) from error
                log.warning("lookups cannot be refreshed, the copies stay", page=self.page, error=str(error))
            self._checked_s = time.monotonic()
        return self.folder / name

    def _refresh(self) -> None:
        there: dict[str, str] = json.loads(self._got(self.page))
        for name, version in there.items():
            if (self._versions or {}).get(name) != version:
                write_whole(self.folder / Path(name).name, self._got(f"{self.page}/{Path(name).name}"))
        self._versions = there

    @staticmethod
    def _got(url: str) -> bytes:
        with urllib.request.urlopen(url, timeout=ANSWER_S) as answer:  # noqa: S310  PAGES only
            found: bytes = answer.read()
        return found


@lru_cache(maxsize=4)
def _copies(page: str) -> Copies:
    scratch = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]  # it goes with the application
    return Copies(page, Path(tempfile.mkdtemp(prefix="odograph-lookups-", dir=scratch or None)))
