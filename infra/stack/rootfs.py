"""Commands that run inside the cached root file system, under a system user of their own.

Its users are the machine's, so that no number means somebody else outside. The mounts live in a private mount
namespace that ends with the program: nothing stays mounted on the host, and any number of checkouts share the
one root. Every step replaces the one before it (exec), so the pid that was started is the program's.
"""

from __future__ import annotations

from pathlib import Path

PRIVATE_MOUNTS = ("unshare", "--mount", "--propagation", "private")
"""Put before a command: what it mounts is seen by itself only, and gone when it ends."""

DATA = "/srv"
"""Where a program finds its data folder, which its user owns."""
CONFIG = "/mnt"
"""Where it finds its configuration, which root owns."""

ENTER = """
root=$1; data=$2; config=$3; user=$4; shift 4
mount --rbind /dev "$root/dev" &&
mount --bind /proc "$root/proc" &&
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp" &&
mount --bind /etc/passwd "$root/etc/passwd" &&
mount --bind /etc/group "$root/etc/group" &&
mount --bind "$data" "$root/srv" &&
mount --bind "$config" "$root/mnt" &&
cd / &&
exec chroot --userspec="$user:$user" --groups= "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  LANG=C.UTF-8 TZ=UTC HOME=/srv "$@"
"""


def inside(root: Path, data: Path, config: Path, user: str, *command: str) -> tuple[str, ...]:
    """``command`` wrapped so that it runs in ``root`` as ``user``, with ``data`` and ``config`` in place."""
    places = (str(root), str(data), str(config))
    return (*PRIVATE_MOUNTS, "/bin/sh", "-c", ENTER, "enter", *places, user, *command)
