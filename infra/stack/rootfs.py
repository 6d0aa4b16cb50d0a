"""Commands that run inside the cached root file system, under a system user of their own.

The mounts live in a private mount namespace that ends with the program: nothing stays mounted on the host.
Every step replaces the one before it (exec), so the pid that was started is the program's.
"""

import os
import pwd
import stat
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from infra.clients.locks import locked
from infra.contract.errors import ServiceError

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


MAKE_USER: Final = (
    "useradd", "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent",
    "--shell", "/usr/sbin/nologin", "--comment", "service of Odograph",
)  # fmt: skip
MAKE_S: Final = 60
LOCK: Final = Path("/etc/.pwd.lock")
"""Of root's. Two useradd at once for one name both succeed, and the second number replaces the first."""
UNFOLLOWED: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


def ids(user: str) -> tuple[int, int]:
    """User and group id of a service's own system user, made where this machine has none.

    Raises ServiceError.
    """
    with suppress(KeyError):
        return pwd.getpwnam(user)[2:4]
    with locked(LOCK):
        command = (*MAKE_USER, user)
        try:  # it fails too where another start was quicker
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=MAKE_S)
            why = done.stderr.strip()
        except FileNotFoundError:
            why = "there is no useradd here"
    with suppress(KeyError):
        return pwd.getpwnam(user)[2:4]
    raise ServiceError(f"the system user {user} cannot be made: {why}; make it by this system's means")


def furnish(data: Path, config: Path, user: str, files: Mapping[str, str]) -> None:
    """A service's data folder, its user's own, and its configuration; raises ServiceError."""
    give_folder(data, user)
    write_config(config, user, files)


def give_folder(folder: Path, user: str) -> None:
    """``folder``, made where it is missing, belongs to ``user`` alone, with what its last owner has in it.

    Links are neither followed nor given away, nor are files of others. Raises ServiceError where the folder
    itself is no folder, or this process is not root.
    """
    if os.geteuid() != 0:
        raise ServiceError(
            f"{folder} cannot be given to the user {user}: run as root, or use infra/compose.yaml"
        )
    uid, gid = ids(user)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        top = os.open(folder, UNFOLLOWED | os.O_DIRECTORY)
    except OSError as error:
        raise ServiceError(f"{folder} must be a folder, no link: {error.strerror}; move it away") from error
    try:
        owner = os.fstat(top).st_uid
        if owner not in (0, uid):
            _give_content(top, owner, uid, gid)
        os.fchown(top, uid, gid)  # last: what was interrupted begins again
        os.fchmod(top, 0o700)
    finally:
        os.close(top)


def _give_content(top: int, owner: int, uid: int, gid: int) -> None:
    for _, folders, files, here in os.fwalk(".", topdown=False, dir_fd=top):
        for name in (*folders, *files):
            try:
                opened = os.open(name, UNFOLLOWED, dir_fd=here)
            except OSError:
                continue  # a link, a socket, or gone
            found = os.fstat(opened)
            if found.st_uid == owner and (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
                os.fchown(opened, uid, gid)
            os.close(opened)


def write_config(folder: Path, user: str, files: Mapping[str, str]) -> None:
    """Texts by file name into ``folder``, root's, which ``user`` may read and nobody else."""
    _, gid = ids(user)
    folder.mkdir(parents=True, exist_ok=True)
    os.chown(folder, 0, gid)
    folder.chmod(0o750)
    for name, text in files.items():
        new = folder / f".{name}.new"
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:  # noqa: PTH123
            os.fchown(file.fileno(), 0, gid)
            os.fchmod(file.fileno(), 0o640)
            file.write(text)
        new.replace(folder / name)
