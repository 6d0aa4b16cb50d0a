"""A home of the run's own: fresh, below the checkout's, gone at the end; the card stays."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from infra.settings.settings import Settings, load
from infra.stack.processes import guarded

HOME_VARIABLE = "ODOGRAPH_PATHS_HOME"


@contextmanager
def own_home(keep: bool) -> Iterator[Settings]:
    """The settings with a fresh home, also for the processes started meanwhile.

    It is removed at the end, however this process ends, unless ``keep``. A figure from a home with old data
    would hold what that data costs.
    """
    base = load()
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    place = base.paths.home.resolve() / "bench" / stamp
    place.mkdir(parents=True)
    before = os.environ.get(HOME_VARIABLE)
    os.environ[HOME_VARIABLE] = str(place)
    try:
        with guarded(place, remove=not keep):
            yield load()
    finally:
        if before is None:
            del os.environ[HOME_VARIABLE]
        else:
            os.environ[HOME_VARIABLE] = before
        if not keep and place.exists():
            shutil.rmtree(place, ignore_errors=True)


def save(home: Path, card: dict[str, Any]) -> Path:
    """Keep a card as ``<home>/bench/<date>.json``; where it lies."""
    folder = home.resolve() / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{datetime.now(UTC).strftime('%Y%m%dT%H%M%S')}.json"
    path.write_text(json.dumps(card, indent=1))
    return path
