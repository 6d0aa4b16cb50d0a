"""Commands that run inside the cached root file system, under a system user of their own.

The mounts live in a private mount namespace that ends with the program: nothing stays mounted on the host.
Every step replaces the one before it (exec), so the pid that was started is the program's.
"""

import ctypes
import os
import pwd
import shlex
import stat
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from shutil import which
from typing import Final

from infra.clients.locks import locked
from infra.contract.errors import ServiceError
from infra.settings.files import write_whole

PRIVATE_MOUNTS = ("unshare", "--mount", "--propagation", "private")
"""Put before a command: what it mounts is seen by itself only, and gone when it ends."""

DATA = "/srv"  # where a program finds its data folder, which its user owns
CONFIG = "/mnt"  # where it finds its configuration, which root owns

ENTER = Path(__file__).with_name("enter.sh").read_text()


def inside(root: Path, data: Path, config: Path, user: str, *command: str) -> tuple[str, ...]:
    """``command`` wrapped so that it runs in ``root`` as ``user``, with ``data`` and ``config`` in place."""
    places = (str(root), str(data), str(config))
    return (*PRIVATE_MOUNTS, "/bin/sh", "-c", ENTER, "enter", *places, user, *command)


_KEPT: Final = (
    "PATH", "LANG", "LC_", "TZ", "JAVA_", "PYTHON", "SPARK_", "HADOOP_", "MALLOC_", "SSL_CERT_", "http_proxy",
    "https_proxy", "no_proxy",
)  # fmt: skip
"""How the variables begin that programs are given."""
_BEGIN: Final = 'if [ "$1" ]; then umount -l "$1" || exit; fi; umask 007; cd "$2" || exit; shift 2; exec "$@"'


def as_user(
    user: str, command: Sequence[str], folder: Path, seen: Iterable[Path],
    env: Mapping[str, object], groups: Sequence[int] = (),
) -> tuple[str, ...]:  # fmt: skip
    """``command``, run in ``folder`` as a system user without any right of root's.

    What is ``seen`` may lie in a folder that others may not enter, as root's own: the program then finds
    this much of it, and no more.
    """
    uid, gid = ids(user)
    more = f"--groups={','.join(map(str, groups))}" if groups else "--clear-groups"
    become = ("setpriv", f"--reuid={uid}", f"--regid={gid}", more, "--no-new-privs", "--bounding-set=-all")
    kept = {name: text for name, text in os.environ.items() if name.startswith(_KEPT)}
    pairs = (f"{name}={text}" for name, text in {**kept, **env}.items())
    # Root's environment goes before root does: another process of the user may read a process of its own.
    whole = ("env", "-i", *pairs, *become, "--inh-caps=-all", *command)
    places = [*seen, *Path(which("java") or "/").resolve().parents[1:2]]
    wanted = [place for path in places for place in (path.absolute(), path.resolve())]
    hidden = {path: root for path in wanted if path.exists() and (root := _closed(path)) is not None}
    begun = ("/bin/sh", "-c", _BEGIN, "begin", "/mnt" if hidden else "", str(folder), *whole)
    shown = {path: path for path in hidden if not hidden.keys() & {*path.parents}}
    return apart(shown, {*hidden.values()}, Path("/"), begun) if hidden else begun


def _closed(path: Path) -> Path | None:
    """The outermost folder above that other users may not enter."""
    above = [*reversed(path.absolute().parents)]
    return next((each for each in above if not each.stat().st_mode & stat.S_IXOTH), None)


def apart(
    shown: Mapping[Path, Path], hidden: set[Path], folder: Path, command: Sequence[str]
) -> tuple[str, ...]:
    """``command``, run in ``folder``, where ``hidden`` ones are empty; ``shown``: what is seen, and where."""

    def bound(source: Path, at: Path, of: Path) -> str:
        made = f"mkdir -p {_quoted(at.parent)} && {{ [ -e {_quoted(at)} ] || : > {_quoted(at)}; }}"
        made = made if source.is_file() else f"mkdir -p {_quoted(at)}"
        return f"{made} && mount --bind {_quoted(of)} {_quoted(at)}"

    stash = {source: Path(f"/mnt/shown-{n}") for n, source in enumerate(shown)}
    steps = ["mount -t tmpfs none /mnt"]
    steps += [bound(source, at, source) for source, at in stash.items()]
    places = sorted(shown.items(), key=lambda pair: len(pair[1].parts))
    tmp = [(source, at) for source, at in places if len(at.parts) == 2]
    outer = sorted(p for p in hidden if not {*p.parents} & hidden)
    steps += [f"mount --bind {stash[source]} {_quoted(at)}" for source, at in tmp]
    empty = "mount -t tmpfs -o size=16m,mode=0755 none"
    steps += [f"mkdir -p {_quoted(p)} && {empty} {_quoted(p)}" for p in outer]
    steps += [bound(source, at, stash[source]) for source, at in places if (source, at) not in tmp]
    script = " && ".join([*steps, f"cd {_quoted(folder)}", 'exec "$@"'])
    return (*PRIVATE_MOUNTS, "/bin/sh", "-c", script, "apart", *command)


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


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
        raise ServiceError(f"{folder} cannot be given to user {user}: run as root, or use infra/compose.yaml")
    uid, gid = ids(user)
    with _opened(folder) as top:
        owner = os.fstat(top).st_uid
        for fd, found in _content(top) if owner not in (0, uid) else ():
            if found.st_uid == owner:
                os.fchown(fd, uid, gid)
        os.fchown(top, uid, gid)  # last: what was interrupted begins again
        os.fchmod(top, 0o700)


def share(folder: Path, uid: int, gid: int, mode: int) -> None:
    """``folder``, made where it is missing, and what root has in it go to a user (-1: stay) and a group.

    The group may in it what the owner may, as far as ``mode`` lets it. Links, files with a second name and
    files of others stay as they are. Raises ServiceError.
    """
    with _opened(folder, through_links=True) as top:
        for fd, found in _content(top):
            is_folder = stat.S_ISDIR(found.st_mode)
            ours = found.st_uid == 0 and (is_folder or found.st_nlink == 1)
            if ours and (found.st_gid != gid or uid > 0):
                os.fchown(fd, uid, gid)
                inherits = stat.S_ISGID if is_folder else 0
                of_group = (found.st_mode & 0o700) >> 3 & mode
                os.fchmod(fd, found.st_mode & 0o700 | of_group | found.st_mode & 0o007 | inherits)
        os.fchown(top, uid, gid)
        os.fchmod(top, mode)


@contextmanager
def _opened(folder: Path, *, through_links: bool = False) -> Iterator[int]:
    """The folder's descriptor; it is made where it is missing. Raises ServiceError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        top = os.open(folder.resolve() if through_links else folder, UNFOLLOWED | os.O_DIRECTORY)
    except OSError as error:
        what = "a folder" if through_links else "a folder, no link"
        raise ServiceError(f"{folder} must be {what}: {error.strerror}; move it away") from error
    try:
        yield top
    finally:
        os.close(top)


def _content(top: int) -> Iterator[tuple[int, os.stat_result]]:
    """Descriptors of the files and folders below a folder, the deepest first; of no links and sockets."""
    for _, folders, files, here in os.fwalk(".", topdown=False, dir_fd=top):
        for name in (*folders, *files):
            with suppress(OSError):  # a link, a socket, or gone
                fd = os.open(name, UNFOLLOWED, dir_fd=here)
                try:
                    found = os.fstat(fd)
                    if stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode):
                        yield fd, found
                finally:
                    os.close(fd)


_NAMESPACE, _BIND, _REMOUNT, _SLAVE, _NO_LINKS = 0x20000, 0x1000, 0x20, 0x84000, 0x100
"""CLONE_NEWNS; MS_BIND, MS_REMOUNT, MS_REC with MS_SLAVE, MS_NOSYMFOLLOW (Linux 5.10)."""
_HAS_NO_LINKS: Final = 0x2000  # ST_NOSYMFOLLOW, of statvfs


def unfollow(folders: Iterable[Path]) -> None:
    """In these folders links lead nowhere (ELOOP) for this process and its children. Raises ServiceError."""
    left = [folder for folder in folders if not os.statvfs(folder).f_flag & _HAS_NO_LINKS]
    system = ctypes.CDLL(None, use_errno=True)
    calls = [partial(system.unshare, _NAMESPACE), partial(system.mount, b"none", b"/", None, _SLAVE, None)]
    for place in map(os.fsencode, left):
        calls.append(partial(system.mount, place, place, None, _BIND, None))
        calls.append(partial(system.mount, None, place, None, _BIND | _REMOUNT | _NO_LINKS, None))
    for call in calls if left else ():
        if call():
            why = os.strerror(ctypes.get_errno())
            raise ServiceError(f"links in programs' folders cannot be closed to root: {why}; Linux 5.10 can")


def write_config(folder: Path, user: str, files: Mapping[str, str], *, own: bool = False) -> None:
    """Texts by file name into ``folder``, root's, which ``user`` may read and nobody else.

    ``own``: the files are the user's, mode 0600, for programs that take secrets in no other.
    """
    uid, gid = ids(user)
    for place in (folder / above for name in files for above in reversed(Path(name).parents)):
        place.mkdir(parents=True, exist_ok=True)
        os.chown(place, 0, gid)
        place.chmod(0o750)
    mode, owner = (0o600, uid) if own else (0o640, 0)
    for name, text in files.items():
        write_whole(folder / name, text.encode(), mode, (owner, gid))
