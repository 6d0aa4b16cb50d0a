"""Certificates and keys: this home's authorities, what they issued, what is revoked; who signs evidence.

``<home>/ca`` is root's alone. ``devices`` issues to vehicles and gateways, which log in by it and sign crash
records; ``services`` to our programs and servers: a vehicle's certificate opens no listener of the programs,
and the other way round. ``evidence`` issues to the time stamper.
"""

import datetime as dt
import hmac
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from glob import escape
from ipaddress import ip_address
from pathlib import Path
from secrets import token_urlsafe
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from infra.clients.locks import locked
from infra.contract import downlink, evidence, policy
from infra.contract.downlink import Signer, Verifier, private_key, private_pem, public_key
from infra.contract.errors import ConfigError, raised_as
from infra.contract.frame import Frame
from infra.contract.topics import VEHICLE_ID
from infra.settings.files import read_json, read_secret, write_private
from infra.settings.settings import Settings

FOLDER: Final = "ca"
DEVICES: Final = "devices"
SERVICES: Final = "services"
KINDS: Final = (DEVICES, SERVICES)  # those that brokers trust
EVIDENCE: Final = "evidence"
KEY_FILE, PUBLIC_KEY_FILE = "evidence.key", "evidence.pub"  # signs what is done with crash records
PSEUDONYM_KEY_FILE: Final = "pseudonym.key"
PSEUDONYM_KEY_LEAST: Final = 32
KEYS: Final = (
    downlink.KEY_FILE, downlink.PUBLIC_KEY_FILE, KEY_FILE, PUBLIC_KEY_FILE, PSEUDONYM_KEY_FILE, FOLDER
)  # fmt: skip
"""What ``ensure_keys`` makes in a home: the hosts of one installation share it."""
GOOD: Final = ("valid", "expires soon")
DAYS: Final = 365
WARN_DAYS: Final = 30
AUTHORITY_DAYS: Final = 3650
AHEAD: Final = dt.timedelta(minutes=5)  # a device's clock may be so far behind ours
PublicKey = ec.EllipticCurvePublicKey | Ed25519PublicKey


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate; its key lies beside it unless the device made it itself."""

    name: str
    serial: int
    begins: dt.datetime
    ends: dt.datetime
    revoked: dt.datetime | None
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
        if self.revoked is not None and now >= self.revoked:
            return "revoked"
        if now >= self.ends:
            return "expired"
        return "valid" if self.ends - now > dt.timedelta(days=WARN_DAYS) else "expires soon"


class Trust:
    """An authority as others know it: by its certificate, and by revoked.json beside that."""

    def __init__(self, certificate: Path) -> None:
        self.folder = certificate.parent
        self._certificate = x509.load_pem_x509_certificate(certificate.read_bytes())

    def state(self, one: x509.Certificate, at: dt.datetime) -> str:
        """As ``Issued.state``. Raises InvalidSignature, ValueError for a certificate of another authority."""
        one.verify_directly_issued_by(self._certificate)
        return _issued(self.folder, one, self._revocations()).state(at)

    def issued(self, name: str | None = None) -> list[Issued]:
        """All certificates, or those of a name, by name, the newest last."""
        gone = self._revocations()
        folder = "*" if name is None else escape(name)
        read = ((path, path.read_bytes()) for path in self.folder.glob(f"issued/{folder}/*.pem"))
        found = [_issued(path, x509.load_pem_x509_certificate(raw), gone) for path, raw in read]
        return sorted(found, key=lambda one: (one.name, one.begins, one.certificate.stat().st_mtime_ns))

    def _revocations(self) -> dict[int, dt.datetime]:
        kept: dict[str, str] = read_json(self.folder / "revoked.json")
        return {int(serial, 16): dt.datetime.fromisoformat(at) for serial, at in kept.items()}


class Authority(Trust):
    """One of this home, made where it is missing."""

    def __init__(self, home: Path, kind: str) -> None:
        self.folder, self.kind = home / FOLDER / kind, kind
        with locked(home / FOLDER / "lock"):
            (home / FOLDER).chmod(0o700)
            if not (self.folder / "ca.pem").exists():
                self._found()
        super().__init__(self.folder / "ca.pem")
        key = load_pem_private_key((self.folder / "ca.key").read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key = key

    def _found(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(f"Odograph {self.kind} {x509.random_serial_number():x}"[:60])
        builder = _builder(name, name, key.public_key(), AUTHORITY_DAYS)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(sign_certificates=True), critical=True)
        write_private(self.folder / "ca.key", private_pem(key))
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
        public: PublicKey
        if request is not None:
            public, key = _requested(request, name), ""
        else:  # Java and openssl ts take no Ed25519
            devices = self.kind == DEVICES
            private = Ed25519PrivateKey.generate() if devices else ec.generate_private_key(ec.SECP256R1())
            public, key = private.public_key(), private_pem(private)
        builder = _builder(_name(name), self._certificate.subject, public, days)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(sign_certificates=False), critical=True)
        stamps = self.kind == EVIDENCE
        uses = [ExtendedKeyUsageOID.TIME_STAMPING if stamps else ExtendedKeyUsageOID.CLIENT_AUTH]
        uses += [ExtendedKeyUsageOID.SERVER_AUTH] if hosts else []
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=stamps)
        if hosts:
            names = [*map(_general_name, hosts)]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        made = builder.sign(self._key, hashes.SHA256())
        path = self.folder / "issued" / name / f"{made.serial_number:X}.pem"
        if key:
            write_private(path.with_suffix(".key"), key)
        write_private(path, _pem(made))
        return _issued(path, made, {})

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
            found = dict.fromkeys((one.serial for one in gone), dt.datetime.now(dt.UTC)) | self._revocations()
            texts = {f"{serial:X}": at.isoformat() for serial, at in found.items()}
            write_private(self.folder / "revoked.json", json.dumps(texts, indent=1))

    def revocations(self) -> str:
        """The list (CRL, PEM). It lasts as long as the authority: a broker takes nobody by an old one.

        It is another one only where something was revoked since.
        """
        kept, gone = self.folder / "ca.crl", self._revocations()
        if kept.exists():
            text = kept.read_text()
            if {one.serial_number for one in x509.load_pem_x509_crl(text.encode())} == gone.keys():
                return text
        now, end = dt.datetime.now(dt.UTC), self._certificate.not_valid_after_utc
        builder = x509.CertificateRevocationListBuilder().issuer_name(self._certificate.subject)
        builder = builder.last_update(now - AHEAD).next_update(end)
        for serial, at in gone.items():
            one = x509.RevokedCertificateBuilder().serial_number(serial)
            builder = builder.add_revoked_certificate(one.revocation_date(at).build())
        write_private(kept, builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM).decode())
        return kept.read_text()


def gateways(home: Path) -> dict[str, tuple[str, ...]]:
    """The vehicles that each gateway names."""
    kept: dict[str, list[str]] = read_json(home / FOLDER / "gateways.json")
    return {name: tuple(vehicles) for name, vehicles in kept.items()}


def name_vehicles(home: Path, named: Mapping[str, Sequence[str]]) -> None:
    """Set the vehicles for which gateways speak. Raises ConfigError for a name that is none."""
    wrong = [v for vehicles in named.values() for v in vehicles if not VEHICLE_ID.fullmatch(v)]
    wrong += [name for name in named if not policy.GATEWAY.fullmatch(name)]
    if wrong:
        raise ConfigError(f"{', '.join(wrong[:3])}: vehicles by their ids, of a gateway-..., are wanted")
    with locked(home / FOLDER / "lock"):
        kept = gateways(home) | {name: tuple(vehicles) for name, vehicles in named.items()}
        write_private(home / FOLDER / "gateways.json", json.dumps(kept))


def record_signer(settings: Settings) -> Callable[[Frame], bytes] | None:
    """Seals a crash record as its vehicle does; None: vehicles have no keys in this home."""
    home = settings.paths.home.absolute()
    return partial(_sealed, home) if (home / FOLDER / DEVICES / "ca.key").exists() else None


def _sealed(home: Path, body: Frame) -> bytes:
    return evidence.sealed(body, *_device(home, body["vehicle_id"]))


@lru_cache(4096)
def _device(home: Path, vehicle_id: str) -> tuple[x509.Certificate, Signer]:
    ours = Authority(home, DEVICES).current(vehicle_id)
    certificate = x509.load_pem_x509_certificate(ours.certificate.read_bytes())
    return certificate, Signer(private_key(ours.key, f"key of {vehicle_id}"))


def ensure_keys(settings: Settings) -> None:
    """Make the home's keys where the settings name none. Idempotent; raises ConfigError.

    The public key always follows from the private one; one that the settings name must be its counterpart.
    """
    home = settings.paths.home
    own = home / downlink.KEY_FILE
    if settings.downlink.key_file is None and not own.exists():
        write_private(own, private_pem(Ed25519PrivateKey.generate()))
    if not (home / KEY_FILE).exists():
        write_private(home / KEY_FILE, private_pem(Ed25519PrivateKey.generate()))
    if settings.crash.pseudonym_key_file is None and not (home / PSEUDONYM_KEY_FILE).exists():
        write_private(home / PSEUDONYM_KEY_FILE, token_urlsafe(32))
    (home / PUBLIC_KEY_FILE).write_bytes(Signer(private_key(home / KEY_FILE, KEY_FILE)).public_pem())
    Authority(home, DEVICES)  # vehicles sign crash records
    pem = downlink.signer(settings).public_pem()
    path = downlink.public_key_file(settings)
    if settings.downlink.public_key_file is None:
        path.write_bytes(pem)
        return
    downlink.verifier(settings)
    if path.read_bytes().strip() != pem.strip():
        raise ConfigError(
            f"ODOGRAPH_DOWNLINK_PUBLIC_KEY_FILE {path} is not the public key of ODOGRAPH_DOWNLINK_KEY_FILE; "
            "make it: openssl pkey -in KEY_FILE -pubout"
        )


def device_trust(settings: Settings) -> Trust | None:
    """The authority by which devices sign; None: there is none. Raises ConfigError."""
    path = _given_or_made(settings.crash.device_ca_file, settings.paths.home / FOLDER / DEVICES / "ca.pem")
    with raised_as(ConfigError, f"ODOGRAPH_CRASH_DEVICE_CA_FILE {path}", OSError, ValueError):
        return Trust(path) if path else None


def signature_of(raw: bytes, devices: Trust | None, at: dt.datetime) -> str:
    """What is known of a crash record's signature, whose certificate was in force at that time."""
    if devices is None:
        return evidence.device_signature(raw, None)
    return evidence.device_signature(raw, lambda one: devices.state(one, at) in GOOD)


def notary(settings: Settings) -> Signer | None:
    """With the evidence key in force; None: none is here, and entries go unsigned. Raises ConfigError."""
    path = _given_or_made(settings.crash.key_file, settings.paths.home / KEY_FILE)
    return Signer(private_key(path, "ODOGRAPH_CRASH_KEY_FILE")) if path else None


def pseudonym(settings: Settings, vehicle_id: str) -> str:
    """Under which name a vehicle leaves the service where it must not be named; raises ConfigError.

    HMAC-SHA-256, 128 bits of it: who has not the key cannot try vehicle ids, as with a plain hash.
    """
    path = settings.crash.pseudonym_key_file or settings.paths.home / PSEUDONYM_KEY_FILE
    key = read_secret(path, "ODOGRAPH_CRASH_PSEUDONYM_KEY_FILE")
    if len(key) < PSEUDONYM_KEY_LEAST:
        few = f"{PSEUDONYM_KEY_LEAST} characters at least are wanted"
        raise ConfigError(f"ODOGRAPH_CRASH_PSEUDONYM_KEY_FILE {path}: {few}")
    return f"vehicle-{hmac.digest(key.encode(), vehicle_id.encode(), 'sha256').hex()[:32]}"


def witness(settings: Settings) -> Verifier | None:
    """With the public key of the evidence key; None: there is none here. Raises ConfigError."""
    path = _given_or_made(settings.crash.public_key_file, settings.paths.home / PUBLIC_KEY_FILE)
    return Verifier(public_key(path, "ODOGRAPH_CRASH_PUBLIC_KEY_FILE")) if path else None


def _given_or_made(given: Path | None, own: Path) -> Path | None:
    """The file that the settings name, else the home's own; None: neither."""
    return given or (own if own.exists() else None)


def time_stamper(home: Path) -> Issued:
    """This home's own time-stamp authority (RFC 3161). A program that is no root has its last one only."""
    known = home / FOLDER / EVIDENCE / "ca.pem"
    if known.exists() and not known.with_name("ca.key").exists():
        return Trust(known).issued("time-stamps")[-1]
    return Authority(home, EVIDENCE).current("time-stamps", AUTHORITY_DAYS)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(subject: x509.Name, issuer: x509.Name, key: PublicKey, days: float) -> x509.CertificateBuilder:
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


def _requested(request: bytes, name: str) -> Ed25519PublicKey:
    with raised_as(ConfigError, "--request: no certificate request (PEM)", ValueError):
        asked = x509.load_pem_x509_csr(request)
        names = [a.value for a in asked.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        public = asked.public_key()
        sound = asked.is_signature_valid
    if not sound or names != [name] or not isinstance(public, Ed25519PublicKey):
        raise ConfigError(f"--request: a request for CN={name}, signed, with an Ed25519 key, is wanted")
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


def _issued(path: Path, made: x509.Certificate, revoked: Mapping[int, dt.datetime]) -> Issued:
    times = (made.not_valid_before_utc, made.not_valid_after_utc)
    return Issued(path.parent.name, made.serial_number, *times, revoked.get(made.serial_number), path)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()
