"""Row 6: links in folders of the services, made by the services' users, and folders of an earlier user."""

from __future__ import annotations

import os
import pwd
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import paho.mqtt.client as mqtt
from paho.mqtt import publish
from paho.mqtt.enums import CallbackAPIVersion

from infra.stack import mosquitto, postgres, processes
from infra.stack.downloads import rootfs
from load_tests.drills.defects import replace
from load_tests.drills.poison.attack import Attack, program
from load_tests.drills.site import Site
from load_tests.drills.verdict import Promise

USERS: Final = {"mosquitto": mosquitto.USER, "postgres": postgres.USER}
LINKS: Final = (
    "mosquitto/mosquitto.conf", "mosquitto/.mosquitto.conf.new",
    "postgres/new-password", "postgres/.new-password", "postgres/cluster/postgresql.conf",
    "postgres/cluster/pg_hba.conf",
)  # fmt: skip
"""Where root wrote before, or could: each becomes a link to a file of root's."""
NOBODYS: Final = 61_337
"""A user id that stands for the one a folder had before services had users of their own."""
KEPT_TOPIC: Final = "poison-2/kept"
UP_S: Final = 90.0
ANSWER_S: Final = 10.0


def links(site: Site, mutant: str | None) -> Iterable[Promise]:
    """The services are set up over planted links, then over a folder of another user with such links."""
    data, outside = site.home / "data", site.home / "outside"
    outside.mkdir(exist_ok=True)
    _keep(site, b"kept")
    targets = [_target(outside / name.replace("/", "-")) for name in LINKS]
    _stop(site, "mosquitto", "postgres")
    for name, target in zip(LINKS, targets, strict=True):
        _plant(data / name, target)
    first = _up(site, mutant)
    yield Promise("set-up leaves what links point to as it was", *_untouched(targets))
    yield Promise("the services start beside the links", first == 0, f"exit code {first}")
    users = {name: _user_of(site, name) for name in USERS}
    yield Promise("each service runs as a system user of its own", users == USERS, f"{users}")
    writable = [str(path.relative_to(site.home)) for name in USERS for path in _not_roots(site, name)]
    yield Promise("no service can write its configuration", not writable, f"{writable or 'all is of root'}")

    _stop(site, "mosquitto")
    hard, soft = _target(outside / "hard"), _target(outside / "soft")
    _of_another_user(data / "mosquitto", hard, soft)
    second = _up(site, mutant)
    yield Promise("a folder is brought over to its user, nothing outside of it", *_untouched([hard, soft]))
    found = _kept(site) if second == 0 else "no broker"
    yield Promise("what the broker kept is there after it", found == "kept", found)
    for path in (*(data / name for name in LINKS), data / "mosquitto/hard", data / "mosquitto/soft"):
        path.unlink()
    shutil.rmtree(outside)


def _target(path: Path) -> Path:
    path.write_text("of root\n")
    path.chmod(0o600)
    return path


def _plant(link: Path, target: Path) -> None:
    """A link in a service's folder as the folder's owner would make it."""
    owner = link.parent.stat()
    link.unlink(missing_ok=True)
    link.symlink_to(target)
    os.lchown(link, owner.st_uid, owner.st_gid)


def _of_another_user(folder: Path, hard: Path, soft: Path) -> None:
    for path in (folder, *folder.iterdir()):
        os.lchown(path, NOBODYS, NOBODYS)
    _plant(folder / "soft", soft)
    (folder / "hard").hardlink_to(hard)


def _untouched(targets: Iterable[Path]) -> tuple[bool, str]:
    changed = []
    for path in targets:
        found = path.stat()
        if (path.read_text(), found.st_uid, found.st_gid, found.st_mode & 0o777) != (
            "of root\n",
            0,
            0,
            0o600,
        ):
            changed.append(f"{path.name}: {found.st_uid}:{found.st_gid} {found.st_mode & 0o777:o}")
    return not changed, "; ".join(changed) or "all"


def _stop(site: Site, *names: str) -> None:
    for name in names:
        site.stack.runner.stop(name)


def _up(site: Site, mutant: str | None) -> int | None:
    site.start("up", program(mutant, "up", "--services-only"))
    code = site.ended("up", UP_S)
    processes.pid_file(site.run_dir, "up").unlink(missing_ok=True)
    return code


def _user_of(site: Site, name: str) -> str:
    """The name of the user that a service runs as."""
    pid = site.pid(name)
    return pwd.getpwuid(Path(f"/proc/{pid}").stat().st_uid).pw_name if pid else "nobody: it does not run"


def _not_roots(site: Site, name: str) -> list[Path]:
    """Files and folder of a service's configuration that others than root may write."""
    folder = site.home / "config" / name
    found = {path: path.lstat() for path in (folder, *folder.iterdir())}
    return [path for path, stat in found.items() if stat.st_uid != 0 or stat.st_mode & 0o022]


def _keep(site: Site, payload: bytes) -> None:
    host, port = site.endpoints.mqtt_host, site.endpoints.mqtt_port
    publish.single(KEPT_TOPIC, payload, qos=1, retain=True, hostname=host, port=port)


def _kept(site: Site) -> str:
    """What the broker has of the topic; forgotten then."""
    found: list[bytes] = []
    client = mqtt.Client(CallbackAPIVersion.VERSION2)
    client.on_message = lambda _c, _d, message: found.append(bytes(message.payload))
    client.connect(site.endpoints.mqtt_host, site.endpoints.mqtt_port)
    client.subscribe(KEPT_TOPIC, qos=1)
    end = time.monotonic() + ANSWER_S
    while not found and time.monotonic() < end:
        client.loop(0.1)
    client.disconnect()
    _keep(site, b"")
    return found[0].decode() if found else "nothing"


def _root_writes(honest: Callable[..., None]) -> Callable[..., None]:
    """Configuration in the folder that the service owns, as root."""

    def give_folder(folder: Path, user: str) -> None:
        honest(folder, user)
        config = folder / "mosquitto.conf"
        config.write_text("listener 1883\n")
        os.chown(config, *rootfs.ids(user))

    return give_folder


def _chown_follows(_: Callable[..., None]) -> Callable[..., None]:
    """``chown -R`` by name, whoever owns what a name leads to."""

    def give_folder(folder: Path, user: str) -> None:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, *rootfs.ids(user))

    return give_folder


def _config_of_service(honest: Callable[..., None]) -> Callable[..., None]:
    def write_config(folder: Path, user: str, files: dict[str, str]) -> None:
        honest(folder, user, files)
        for path in (folder, *(folder / name for name in files)):
            os.chown(path, *rootfs.ids(user))

    return write_config


ATTACKS: Final = (
    Attack(
        "row6",
        "links in the services' folders lead to files of root's",
        links,
        {
            "root-writes-in-service-folder": lambda: replace(rootfs, "give_folder", _root_writes),
            "chown-follows-links": lambda: replace(rootfs, "give_folder", _chown_follows),
            "config-of-service": lambda: replace(rootfs, "write_config", _config_of_service),
            "shared-user": lambda: replace(mosquitto, "USER", lambda _: "daemon"),
        },
    ),
)
