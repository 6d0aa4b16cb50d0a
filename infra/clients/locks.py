"""Locks between processes: of a file, and gone with whoever held it."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path, *, shared: bool = False, wait: bool = True) -> Iterator[None]:
    """Hold the lock while the block runs; raises BlockingIOError where another has it and nobody waits."""
    if not shared:
        path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("rb" if shared else "ab") as file:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
        yield
