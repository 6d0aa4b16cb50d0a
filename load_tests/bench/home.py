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

HOME_VARIABLE, SECURE_VARIABLE = "ODOGRAPH_PATHS_HOME", "ODOGRAPH_SECURE"


@contextmanager
def own_home(keep: bool, secure: bool | None = None) -> Iterator[Settings]:
    """The settings with a fresh home, also for the processes started meanwhile; ``secure``: None as they say.

    It is removed at the end, however this process ends, unless ``keep``. A figure from a home with old data
    would hold what that data costs.
    """
    base = load()
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    place = base.paths.home.resolve() / "bench" / stamp
    place.mkdir(parents=True)
    own = {HOME_VARIABLE: str(place)} | ({} if secure is None else {SECURE_VARIABLE: str(secure).lower()})
    before = {name: os.environ.get(name) for name in own}
    os.environ.update(own)
    try:
        with guarded(place, remove=not keep):
            yield load()
    finally:
        for name, text in before.items():
            if text is None:
                del os.environ[name]
            else:
                os.environ[name] = text
        if not keep and place.exists():
            shutil.rmtree(place, ignore_errors=True)


def save(home: Path, card: dict[str, Any]) -> Path:
    """Keep a card as ``<home>/bench/<date>.json``; where it lies."""
    folder = home.resolve() / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{datetime.now(UTC).strftime('%Y%m%dT%H%M%S')}.json"
    path.write_text(json.dumps(card, indent=1))
    return path
