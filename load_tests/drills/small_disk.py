"""A disk of a few megabytes: a tmpfs that only this process and its children see, gone with them."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from infra.contract.errors import ServiceError

CLONE_NEWNS: Final = 0x0002_0000
FILLER: Final = "filler"


@contextlib.contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[None]:
    """``folder`` lies on a tmpfs of so many MB in the block; raises ServiceError where that is not allowed.

    Only this thread, and threads and programs that it starts afterwards, see the mount.
    """
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) != 0:
        why = os.strerror(ctypes.get_errno())
        raise ServiceError(f"drill: no mount namespace of our own ({why}); this drill needs root")
    folder.mkdir(parents=True, exist_ok=True)
    _run("mount", "--make-rprivate", "/")
    _run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder))
    try:
        yield
    finally:
        _run("umount", "--lazy", str(folder))


def fill(folder: Path, leave_bytes: int) -> None:
    """Take the room on the folder's disk, but for so many bytes at most."""
    with (folder / FILLER).open("wb") as file:
        while (free := _room(folder)) > leave_bytes:
            try:
                os.posix_fallocate(file.fileno(), 0, free - leave_bytes)
            except OSError as error:  # where others have written meanwhile, nothing was taken
                if error.errno != errno.ENOSPC:
                    raise
            else:
                return


def _room(folder: Path) -> int:
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def give_back(folder: Path) -> None:
    """Give the room back."""
    (folder / FILLER).unlink()


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ServiceError(f"drill: {' '.join(command)}: {done.stderr.strip()}")
