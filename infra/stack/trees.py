"""Removes folders. As root, and near mounts, that deserves a module of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

from infra.contract.errors import ServiceError

MOUNTS = Path("/proc/self/mountinfo")


def remove_tree(folder: Path) -> None:
    """Remove a folder and all below it, if it is there.

    Raises ServiceError when something is mounted at or below it: a deletion must never walk into /proc, /dev
    or another disk.
    """
    if not folder.exists():
        return
    mounted = mounts_below(folder, MOUNTS.read_text())
    if mounted:
        raise ServiceError(f"{folder} is not removed: {', '.join(mounted)} is mounted; umount it first")
    shutil.rmtree(folder)


def mounts_below(folder: Path, mountinfo: str) -> list[str]:
    """Mount points at or below ``folder``, in the kernel's table ``mountinfo``."""
    place = str(folder.resolve())
    points = [line.split()[4].replace("\\040", " ") for line in mountinfo.splitlines()]
    return [point for point in points if point == place or point.startswith(place.rstrip("/") + "/")]
