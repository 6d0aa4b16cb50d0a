"""A system user for each program of a secure home that root starts: what it has, and how it is started.

``<home>/programs/<name>`` is such a program's home: root's, and no other program's user looks into it. It
holds settings, addresses, keys and certificates, as far as ``contract/policy.py`` gives them to the program,
and leads to the folders that it shares. No secret is in a program's environment.
"""

import json
import os
import re
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import infra
from infra.contract import downlink, policy
from infra.contract.errors import ConfigError, raised_as
from infra.settings.files import read_secret
from infra.settings.sections import DB_URLS
from infra.settings.settings import ENDPOINTS_FILE, HOME_FILE, PREFIX, SETTING_OF, Endpoints, Settings
from infra.stack.access import identity
from infra.stack.downloads import rootfs
from infra.stack.hosts.cluster import toml

FOLDER: Final = "programs"
OWN: Final = ("tmp", "run", "checkpoints.scratch")  # folders of a program that it writes alone
LOOKS: Final = "watch"  # the program that looks at the others' processes, by their pid files
HOOKS: Final = "downlink.webhooks"
FILES: Final = {
    "bridge.password_file": "bridge.password",
    HOOKS: "webhooks.toml",
    "downlink.key_file": downlink.KEY_FILE,
    "dashboard.oidc": "oidc.toml",
    "crash.key_file": identity.KEY_FILE,
    "crash.pseudonym_key_file": identity.PSEUDONYM_KEY_FILE,
    "region.other_ca_file": "region.ca.pem",
    "region.other_cert_file": "region.pem",
}
"""Settings that name a file with a secret, and what the file is called in the home."""
PUBLIC: Final = (HOOKS, "region.other_ca_file")  # those of them that others may read
_HOOK_SECRET: Final = re.compile(r"""(\bsecret_file\s*=\s*)(["'])(.+?)\2""")  # in the file of webhooks
_LOGINS: Final = {
    "mqtt": ("url", "ca_file", "cert_file", "key_file"), "kafka": ("bootstrap", "ca_file", "cert_file"),
    "db": DB_URLS,
}  # fmt: skip
"""Settings that are told as addresses."""


def principal(name: str) -> str:
    """The program of the policy that a process is: ``bridge`` of ``bridge-2``."""
    return name.partition("-")[0]


def user_of(name: str) -> str:
    """The system user of a program; also the group of a folder."""
    return f"odograph-{principal(name)}"


def folder_of(home: Path, name: str) -> Path:
    """The home of a program."""
    return home / FOLDER / principal(name)


def groups_of(name: str) -> list[int]:
    """The groups of a program's user, beside its own: those of the folders that it shares."""
    shared = (folder for folder, (_, members) in policy.FOLDERS.items() if principal(name) in members)
    return [rootfs.ids(user_of(folder))[1] for folder in shared]


def started(home: Path, settings: Settings, name: str, command: Sequence[str]) -> tuple[str, ...]:
    """``command`` as the program's user, in its own home, with an environment of no secrets."""
    own, cache = folder_of(home, name), settings.paths.cache.absolute()
    checkout = Path(infra.__file__).parents[1]
    modules = ":".join(filter(None, (str(checkout), os.environ.get("PYTHONPATH"))))
    env = {f"{PREFIX}PATHS_HOME": own, "HOME": own / "tmp", "TMPDIR": own / "tmp", "PYTHONPATH": modules}
    seen = [home, cache, checkout, Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable)]
    seen += [*map(Path, sys.path), *_paths(settings)]
    return rootfs.as_user(user_of(name), command, own, seen, env, groups_of(name))


def _paths(settings: Settings) -> list[Path]:
    """What the settings name, and is no secret."""
    named = {k: v for k, v in _settings(settings).items() if isinstance(v, dict)}
    texts = [text for keys in named.values() for text in keys.values() if isinstance(text, str)]
    return [Path(text) for text in texts if text.startswith("/")]


def _settings(settings: Settings) -> dict[str, Any]:
    """Those in force that are no default, without secrets and logins; paths are absolute."""
    found: dict[str, Any] = settings.model_dump(exclude_defaults=True, exclude={"cluster"})
    out = [(section, key) for section, keys in _LOGINS.items() for key in keys]
    for section, key in (*out, *(name.split(".") for name in FILES), ("paths", "home")):
        found.get(section, {}).pop(key, None)
    ground = found.get("dashboard", {}).get("basemap", "")
    if ground and Path(ground).exists():
        found["dashboard"]["basemap"] = Path(ground)
    places = found.get("paths", {})
    places |= {key: Path(text) for key, text in places.items() if "://" not in str(text)}
    for values in (values for values in found.values() if isinstance(values, dict)):
        for key, value in values.items():
            if not isinstance(value, (str, bool, int, float, tuple)):
                values[key] = str(value.absolute() if isinstance(value, Path) else value)
    return found


def furnish(home: Path, settings: Settings, addresses: Endpoints, who: str) -> None:
    """The home of a program, with what it may have and no more. Idempotent.

    Raises ServiceError, ConfigError for a file that settings name.
    """
    own, user = folder_of(home, who), user_of(who)
    (home / FOLDER).mkdir(exist_ok=True)
    (home / FOLDER).chmod(0o711)
    files = files_of(home, settings, addresses, who)
    rootfs.write_config(own, user, files, own=True)
    for path in own.iterdir():  # what it had before and may not have now
        if path.name not in files and path.is_file() and not path.is_symlink():
            path.unlink()
    shared = [name for name, (_, members) in policy.FOLDERS.items() if who in members]
    shared += ["run"] if who == LOOKS else []
    for link in (own / name for name in shared):
        if not (link.is_symlink() and link.readlink() == home / link.name):
            link.unlink(missing_ok=True)
            link.symlink_to(home / link.name)
    for name in OWN:
        if name not in shared:
            rootfs.give_folder(own / name, user)


def _shared(home: Path, settings: Settings) -> Iterator[tuple[str, int, Path]]:
    """The folders that programs share: name, mode, place."""
    for name, (mode, _) in policy.FOLDERS.items():
        elsewhere: str = getattr(settings.paths, name, "")
        places = [elsewhere, f"{elsewhere}.scratch"] if elsewhere else [home / name]
        yield from ((name, mode, Path(each)) for each in places if "://" not in str(each))


def share(home: Path, settings: Settings) -> None:
    """Give the folders that programs share to their groups, with what root has in them."""
    for name, mode, place in _shared(home, settings):
        rootfs.share(place, -1, rootfs.ids(user_of(name))[1], mode)


def unfollow(settings: Settings) -> None:
    """This process, root's, and what it starts follow no link in folders that programs write from now on."""
    home = settings.paths.home.resolve()
    rootfs.unfollow(place for _, mode, place in _shared(home, settings) if mode & 0o020 and place.is_dir())


def files_of(home: Path, settings: Settings, addresses: Endpoints, who: str) -> dict[str, str]:
    """All of it, by name. Raises ConfigError for a file that settings name."""
    held = {name for name, programs in policy.SECRETS.items() if who in programs}
    own, files, made = folder_of(home, who), dict[str, str](), _settings(settings)
    for setting, name in FILES.items():
        section, key = setting.split(".")
        given: Path | None = getattr(getattr(settings, section), key)
        place = given or home / name
        if setting in held and (given or place.exists()):
            files[name] = _text(setting, place)
            made.setdefault(section, {})[key] = str(own / name)
    if FILES[HOOKS] in files:
        files |= _with_secrets(files[FILES[HOOKS]], settings.downlink.webhooks or home / FILES[HOOKS], own)
    services = Path(identity.FOLDER) / identity.SERVICES
    copied = [services / "ca.pem", services / f"{who}.pem", Path(identity.PUBLIC_KEY_FILE)]
    copied += [Path(identity.FOLDER) / identity.DEVICES / name for name in ("ca.pem", "revoked.json")]
    if "time stamper" in held:
        ours = identity.time_stamper(home)
        copied += [path.relative_to(home) for path in (ours.certificate, ours.key)]
        copied.append(Path(identity.FOLDER) / identity.EVIDENCE / "ca.pem")
    for path in copied:
        with suppress(FileNotFoundError):  # nobody is revoked
            files[str(path)] = (home / path).read_text()
    moved = {str(home / services): str(own / services)}
    for address, section in (("mqtt_access", "mqtt"), ("kafka_bootstrap", "kafka")):
        for key in _LOGINS[section][1:] if address in held else ():
            if (given := getattr(getattr(settings, section), key)) is not None:
                files[f"{section}.{key}"] = given.read_text()
                moved[str(given.absolute())] = str(own / f"{section}.{key}")
    none = {name: {} if name == "mqtt_access" else "" for name in (*SETTING_OF, "mqtt_access")}
    blank: dict[str, Any] = {n: v for n, v in none.items() if n in policy.SECRETS and n not in held}
    told = json.dumps(asdict(replace(addresses.logged_in(who), **blank)), indent=1, ensure_ascii=False)
    for before, after in moved.items():
        told = told.replace(before, after).replace(quote(before), quote(after))
    made["paths"] = made.get("paths", {}) | {"cache": str(settings.paths.cache.absolute())}
    holder = settings.lease.holder or f"{socket.gethostname()}:{home}"
    made["lease"] = made.get("lease", {}) | {"holder": holder}
    sections = {name: values for name, values in made.items() if isinstance(values, dict) and values}
    top = (f"{k} = {json.dumps(value)}\n" for k, value in made.items() if not isinstance(value, dict))
    return files | {ENDPOINTS_FILE: told, HOME_FILE: "".join(top) + "\n" + toml(sections)}


def _text(setting: str, place: Path) -> str:
    """Of a file that a setting names, as it is; private it must be, but for the PUBLIC ones."""
    option = f"{PREFIX}{setting.replace('.', '_')}".upper()
    with raised_as(ConfigError, f"{option} {place}", OSError, UnicodeDecodeError):
        text = place.read_text()
    if setting not in PUBLIC:
        read_secret(place, option)
    return text


def _with_secrets(hooks: str, place: Path, own: Path) -> dict[str, str]:
    """The text of the file of webhooks that lies at ``place``, and the secrets that it names, by name."""
    made = dict[str, str]()

    def taken(found: re.Match[str]) -> str:
        if hooks[hooks.rfind("\n", 0, found.start()) + 1 : found.start()].lstrip().startswith("#"):
            return found[0]  # a remark: of a webhook that is no more
        name = f"webhook-{len(made)}.secret"
        made[name] = read_secret(place.parent / found[3], f"{HOOKS} {place}: secret_file")
        return f"{found[1]}{found[2]}{own / name}{found[2]}"

    return made | {FILES[HOOKS]: _HOOK_SECRET.sub(taken, hooks)}
