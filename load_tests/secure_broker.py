"""A Mosquitto as others run theirs: TLS, a certificate asked of every client, and passwords."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from infra.clients.mqtt_broker import MqttBroker
from infra.stack import mosquitto, probes
from infra.stack.rootfs import CONFIG, write_config
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


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority of our own."""

    key: Ed25519PrivateKey
    certificate: x509.Certificate

    @classmethod
    def made(cls, name: str) -> Authority:
        """A new one, for a day."""
        key = Ed25519PrivateKey.generate()
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        builder = _named(name, name, key).add_extension(constraints, critical=True)
        return cls(key, builder.sign(key, None))

    def pem(self) -> str:
        """What others trust it by."""
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def issued(self, name: str) -> tuple[str, str]:
        """Certificate and private key, PEM, of a server on loopback or of a client."""
        key = Ed25519PrivateKey.generate()
        issuer = self.certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
        names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(HOST)), x509.DNSName("localhost")])
        certificate = _named(name, str(issuer), key).add_extension(names, critical=False).sign(self.key, None)
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return certificate.public_bytes(Encoding.PEM).decode(), pem.decode()


def _named(subject: str, issuer: str, key: Ed25519PrivateKey) -> x509.CertificateBuilder:
    now, day = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
    names = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in (subject, issuer))
    builder = x509.CertificateBuilder().subject_name(next(names)).issuer_name(next(names))
    builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - day).not_valid_after(now + day)


@contextmanager
def secure_broker(rootfs: Path, home: Path, password: str) -> Iterator[MqttBroker]:
    """One that runs while the block does, and how :data:`USER` reaches it; its files lie in ``home``.

    ``other.pem`` beside them is an authority that has nothing to do with it.
    """
    ours, other = Authority.made("ours"), Authority.made("others")
    server, server_key = ours.issued(HOST)
    client, client_key = ours.issued(USER)
    home.mkdir(parents=True)
    mine = {"ca.pem": ours.pem(), "other.pem": other.pem(), "client.pem": client, "client.key": client_key}
    for name, text in mine.items():
        (home / name).write_text(text)
        (home / name).chmod(0o600)
    port = free_port()
    service = mosquitto.mosquitto(rootfs, home / "data", home / "config", port)
    files = {
        "passwords": mosquitto.password_file({USER: password}),
        "ca.pem": ours.pem(),
        "server.pem": server,
        "server.key": server_key,
    }

    def prepare() -> None:
        service.prepare()
        text = (home / "config" / mosquitto.CONFIG_FILE).read_text()
        secured = text.replace("allow_anonymous true\n", LISTENER.format(folder=CONFIG))
        write_config(home / "config", mosquitto.USER, {**files, mosquitto.CONFIG_FILE: secured})

    paths = {key: str(home / name) for key, name in
             (("ca_file", "ca.pem"), ("cert_file", "client.pem"), ("key_file", "client.key"))}  # fmt: skip
    broker = MqttBroker(HOST, port, USER, password, True, **paths)
    runner = Runner(home)
    runner.start(replace(service, prepare=prepare, probe=partial(probes.mqtt_echo, broker)))
    try:
        yield broker
    finally:
        runner.stop("mosquitto")
