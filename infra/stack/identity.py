"""Certificates of devices and programs: this home's two authorities, what they issued, what is revoked.

``<home>/ca`` is root's alone. ``devices`` issues to vehicles and gateways, ``services`` to our programs and
servers: a vehicle's certificate opens no listener of the programs, and the other way round.
"""

from __future__ import annotations

import datetime as dt
import json
import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from infra.clients.locks import locked
from infra.contract import policy
from infra.contract.errors import ConfigError
from infra.contract.topics import VEHICLE_ID
from infra.stack.postgres import write_private
from infra.stack.service import HOST

FOLDER: Final = "ca"
DEVICES: Final = "devices"
SERVICES: Final = "services"
KINDS: Final = (DEVICES, SERVICES)
GOOD: Final = ("valid", "expires soon")
SERVER: Final = "server"
"""The certificate that the services show."""
DAYS: Final = 365
WARN_DAYS: Final = 30
AUTHORITY_DAYS: Final = 3650
AHEAD: Final = dt.timedelta(minutes=5)
"""A device's clock may be so far behind ours."""


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate; its key lies beside it unless the device made it itself."""

    name: str
    serial: int
    begins: dt.datetime
    ends: dt.datetime
    revoked: bool
    certificate: Path

    @property
    def key(self) -> Path:
        """The private key, where we made it."""
        return self.certificate.with_suffix(".key")

    @property
    def fingerprint(self) -> str:
        """The serial number in hexadecimal, as openssl shows it."""
        return f"{self.serial:X}"

    def state(self, now: dt.datetime) -> str:
        """``valid``, ``expires soon`` (within WARN_DAYS), ``expired`` or ``revoked``."""
        if self.revoked:
            return "revoked"
        if now >= self.ends:
            return "expired"
        return "valid" if self.ends - now > dt.timedelta(days=WARN_DAYS) else "expires soon"


class Authority:
    """One of the two, made where it is missing."""

    def __init__(self, home: Path, kind: str) -> None:
        self.folder, self.kind = home / FOLDER / kind, kind
        with locked(home / FOLDER / "lock"):
            (home / FOLDER).chmod(0o700)
            if not (self.folder / "ca.pem").exists():
                self._found()
        key = load_pem_private_key((self.folder / "ca.key").read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key = key
        self._certificate = x509.load_pem_x509_certificate((self.folder / "ca.pem").read_bytes())

    def _found(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(f"Odograph {self.kind} {x509.random_serial_number():x}"[:60])
        builder = _builder(name, name, key.public_key(), AUTHORITY_DAYS)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(sign_certificates=True), critical=True)
        write_private(self.folder / "ca.key", _pem_of(key))
        write_private(self.folder / "ca.pem", _pem(builder.sign(key, hashes.SHA256())))

    @property
    def pem(self) -> str:
        """What others trust it by."""
        return (self.folder / "ca.pem").read_text()

    def issue(
        self, name: str, days: float = DAYS, hosts: Iterable[str] = (), request: bytes | None = None
    ) -> Issued:
        """A new certificate for ``days``; older ones stay valid. ``request``: a device's own (PEM).

        ``hosts``: a server's names and addresses. Raises ConfigError for a request that cannot be taken.
        """
        if request is None:
            private = ec.generate_private_key(ec.SECP256R1())
            public, key = private.public_key(), _pem_of(private)
        else:
            public, key = _requested(request, name), ""
        builder = _builder(_name(name), self._certificate.subject, public, days)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(sign_certificates=False), critical=True)
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        if hosts:
            names = [*map(_general_name, hosts)]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        made = builder.sign(self._key, hashes.SHA256())
        path = self.folder / "issued" / name / f"{made.serial_number:X}.pem"
        path.parent.mkdir(parents=True, exist_ok=True)
        if key:
            write_private(path.with_suffix(".key"), key)
        write_private(path, _pem(made))
        return _issued(path, made, frozenset())

    def issued(self, name: str = "*") -> list[Issued]:
        """All certificates, or those of a name, by name, the newest last."""
        gone = frozenset(self._revocations())
        read = ((path, path.read_bytes()) for path in self.folder.glob(f"issued/{name}/*.pem"))
        found = [_issued(path, x509.load_pem_x509_certificate(raw), gone) for path, raw in read]
        return sorted(found, key=lambda one: (one.name, one.begins, one.certificate.stat().st_mtime_ns))

    def current(self, name: str, days: float = DAYS, hosts: Sequence[str] = ()) -> Issued:
        """The newest certificate of a name with a key of ours; a new one where it ends within WARN_DAYS."""
        now = dt.datetime.now(dt.UTC)
        for one in reversed(self.issued(name)):
            if one.state(now) == "valid" and one.key.exists() and _hosts(one) >= {*hosts}:
                return one
        return self.issue(name, days, hosts)

    def revoke(self, gone: Iterable[Issued]) -> None:
        """Add to the list of revocations; for ever."""
        with locked(self.folder.parent / "lock"):
            at = dt.datetime.now(dt.UTC).isoformat()
            found = {one.serial: at for one in gone} | self._revocations()
            texts = {f"{serial:X}": at for serial, at in found.items()}
            write_private(self.folder / "revoked.json", json.dumps(texts, indent=1))

    def _revocations(self) -> dict[int, str]:
        try:
            kept: dict[str, str] = json.loads((self.folder / "revoked.json").read_text())
        except FileNotFoundError:
            return {}
        return {int(serial, 16): at for serial, at in kept.items()}

    def revocations(self) -> str:
        """The list (CRL, PEM). It lasts as long as the authority: a broker takes nobody by an old one."""
        now, end = dt.datetime.now(dt.UTC), self._certificate.not_valid_after_utc
        builder = x509.CertificateRevocationListBuilder().issuer_name(self._certificate.subject)
        builder = builder.last_update(now - AHEAD).next_update(end)
        for serial, at in self._revocations().items():
            one = x509.RevokedCertificateBuilder().serial_number(serial)
            one = one.revocation_date(dt.datetime.fromisoformat(at))
            builder = builder.add_revoked_certificate(one.build())
        return builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


def gateways(home: Path) -> dict[str, tuple[str, ...]]:
    """The vehicles that each gateway names."""
    with suppress(FileNotFoundError):
        kept: dict[str, list[str]] = json.loads((home / FOLDER / "gateways.json").read_text())
        return {name: tuple(vehicles) for name, vehicles in kept.items()}
    return {}


def name_vehicles(home: Path, named: Mapping[str, Sequence[str]]) -> None:
    """Set the vehicles for which gateways speak. Raises ConfigError for a name that is none."""
    wrong = [v for vehicles in named.values() for v in vehicles if not VEHICLE_ID.fullmatch(v)]
    wrong += [name for name in named if not policy.GATEWAY.fullmatch(name)]
    if wrong:
        raise ConfigError(f"{', '.join(wrong[:3])}: vehicles by their ids, of a gateway-..., are wanted")
    kept = gateways(home) | {name: tuple(vehicles) for name, vehicles in named.items()}
    write_private(home / FOLDER / "gateways.json", json.dumps(kept))


def server_hosts(address: str, names: Iterable[str] = ()) -> tuple[str, ...]:
    """The names and addresses under which the services are reached."""
    own = {HOST, "localhost", *names} | ({address} if not ip_address(address).is_unspecified else set())
    return tuple(sorted(own | ({socket.gethostname()} if address != HOST else set())))


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: float
) -> x509.CertificateBuilder:
    begin = dt.datetime.now(dt.UTC) - AHEAD
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    end = begin + AHEAD + dt.timedelta(days=days)
    return builder.not_valid_before(min(begin, end - AHEAD)).not_valid_after(end)


def _usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not sign_certificates, key_cert_sign=sign_certificates, crl_sign=sign_certificates,
        content_commitment=False, key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _requested(request: bytes, name: str) -> ec.EllipticCurvePublicKey:
    try:
        asked = x509.load_pem_x509_csr(request)
        names = [a.value for a in asked.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        public = asked.public_key()
        sound = asked.is_signature_valid
    except ValueError as error:
        raise ConfigError(f"--request: no certificate request (PEM): {error}") from error
    if not sound or names != [name] or not isinstance(public, ec.EllipticCurvePublicKey):
        wanted = f"a request for CN={name}, signed, with a key on an elliptic curve, is wanted"
        raise ConfigError(f"--request: {wanted}")
    return public


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _hosts(one: Issued) -> set[str]:
    certificate = x509.load_pem_x509_certificate(one.certificate.read_bytes())
    with suppress(x509.ExtensionNotFound):
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return {str(name.value) for name in names}
    return set()


def _issued(path: Path, made: x509.Certificate, revoked: frozenset[int]) -> Issued:
    times = (made.not_valid_before_utc, made.not_valid_after_utc)
    return Issued(path.parent.name, made.serial_number, *times, made.serial_number in revoked, path)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def _pem_of(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
