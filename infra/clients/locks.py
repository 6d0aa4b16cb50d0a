"""Locks between processes: of a file, and gone with whoever held it."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path, *, shared: bool = False, busy: Exception | None = None) -> Iterator[None]:
    """Hold the lock while the block runs; where another has it, wait, or raise ``busy`` if that is given."""
    if not shared:
        path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("rb" if shared else "ab") as file:
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (fcntl.LOCK_NB if busy else 0))
        except BlockingIOError as error:
            raise busy or error from error
        yield
