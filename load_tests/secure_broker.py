"""A Mosquitto as others run theirs: TLS, a certificate asked of every client, and passwords."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from infra.clients.mqtt_broker import MqttBroker
from infra.settings.files import write_private
from infra.stack import mosquitto, probes
from infra.stack.access.identity import SERVICES, Authority
from infra.stack.downloads.rootfs import CONFIG, write_config
from infra.stack.service import HOST, Runner, free_port

USER: Final = "odograph"
LISTENER: Final = """\
allow_anonymous false
password_file {folder}/passwords
cafile {folder}/ca.pem
certfile {folder}/server.pem
keyfile {folder}/server.key
require_certificate true
"""
"""In place of ``allow_anonymous true``."""
ITERATIONS: Final = 101
"""What mosquitto_passwd itself uses; the passwords are long and random."""


def password_file(words: Mapping[str, str]) -> str:
    """The password file of Mosquitto 2 (PBKDF2 with SHA-512) for passwords by user name."""
    lines = []
    for name, word in words.items():
        salt = secrets.token_bytes(12)
        digest = hashlib.pbkdf2_hmac("sha512", word.encode(), salt, ITERATIONS)
        texts = (base64.b64encode(part).decode() for part in (salt, digest))
        lines.append(f"{name}:$7${ITERATIONS}${'$'.join(texts)}\n")
    return "".join(lines)


@contextmanager
def secure_broker(rootfs: Path, home: Path, password: str) -> Iterator[MqttBroker]:
    """One that runs while the block does, and how :data:`USER` reaches it; its files lie in ``home``.

    ``other.pem`` beside them is an authority that has nothing to do with it.
    """
    ours, other = (Authority(home / name, SERVICES) for name in ("ours", "others"))
    server, client = ours.issue(HOST, hosts=(HOST, "localhost")), ours.issue(USER)
    write_private(home / "other.pem", other.pem)
    port = free_port()
    service = mosquitto.mosquitto(rootfs, home / "data", home / "config", port)
    shown = {
        "passwords": password_file({USER: password}),
        "ca.pem": ours.pem,
        "server.pem": server.certificate.read_text(),
        "server.key": server.key.read_text(),
    }

    def prepare() -> None:
        service.prepare()
        text = (home / "config" / mosquitto.CONFIG_FILE).read_text()
        secured = text.replace("allow_anonymous true\n", LISTENER.format(folder=CONFIG))
        write_config(home / "config", mosquitto.USER, {**shown, mosquitto.CONFIG_FILE: secured})

    files = (str(path) for path in (ours.folder / "ca.pem", client.certificate, client.key))
    broker = MqttBroker(HOST, port, USER, password, True, *files)
    runner = Runner(home)
    runner.start(replace(service, prepare=prepare, probe=partial(probes.mqtt_echo, broker)))
    try:
        yield broker
    finally:
        runner.stop("mosquitto")
