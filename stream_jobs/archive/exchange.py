"""Two folders change places at once, so that nobody ever sees neither or both."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path
from typing import Final

_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2
"""linux/fs.h, since Linux 3.15: ext4, XFS, Btrfs, tmpfs."""
_UNKNOWN: Final = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)


def exchanged(one: Path, other: Path) -> bool:
    """Whether both changed places; False where kernel or file system cannot do it. Raises OSError."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if not rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE):
        return True
    error = ctypes.get_errno()
    if error in _UNKNOWN:
        return False
    raise OSError(error, os.strerror(error), str(one), None, str(other))
