"""Commands that run inside the cached root file system, under a user of its own.

The mounts live in a private mount namespace that ends with the program: nothing stays mounted on the host,
and any number of checkouts share the one root. Every step replaces the one before it (exec), so the pid that
was started is the pid of the program.
"""

from __future__ import annotations

from pathlib import Path

PRIVATE_MOUNTS = ("unshare", "--mount", "--propagation", "private")
"""Put before a command: what it mounts is seen by itself only, and gone when it ends."""

DATA = "/srv"
"""Where a program finds its data folder."""

ENTER = """
root=$1; data=$2; user=$3; shift 3
mount --rbind /dev "$root/dev" &&
mount --bind /proc "$root/proc" &&
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp" &&
mount --bind "$data" "$root/srv" &&
cd / &&
exec chroot --userspec="$user:$user" "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  LANG=C.UTF-8 TZ=UTC HOME=/srv "$@"
"""


def inside(root: Path, data: Path, user: str, *command: str) -> tuple[str, ...]:
    """``command`` wrapped so that it runs in ``root`` as ``user``, with ``data`` at /srv."""
    return (*PRIVATE_MOUNTS, "/bin/sh", "-c", ENTER, "enter", str(root), str(data), user, *command)


def user_ids(root: Path, user: str) -> tuple[int, int]:
    """User and group id of a user of the root file system."""
    for line in (root / "etc/passwd").read_text().splitlines():
        name, _, uid, gid, *_ = line.split(":")
        if name == user:
            return int(uid), int(gid)
    raise KeyError(user)
