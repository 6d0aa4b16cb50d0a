"""Evidence that stands without the database: who signed a crash record, who wrote an entry about it.

A device signs the bytes of its record as the downlink does (Ed25519, the last key ``signature``), its
certificate among them: X.509, the common name is the vehicle id, issued by the authority of devices. The
service's programs sign with the evidence key what they do with records. A database's owner has neither key.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import orjson
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from infra.contract.downlink import Signer, Verifier, private_key, public_key
from infra.contract.errors import ConfigError
from infra.contract.frame import Frame
from infra.contract.messages import crash_digest
from infra.settings.settings import Settings

KEY_FILE, PUBLIC_KEY_FILE = "evidence.key", "evidence.pub"
DEVICES_KEY, DEVICES_CERTIFICATE = "devices.key", "devices.pem"
TSA_KEY, TSA_CERTIFICATE = "tsa.key", "tsa.pem"
KIND: Final = "crash"
LINE: Final = 64  # of a certificate in base64: a record's texts are short
YEARS: Final = timedelta(days=20 * 365)
VALID, INVALID, ABSENT, UNCHECKED = "valid", "invalid", "absent", "unchecked"
"""What is known of a record's signature; unchecked: there is no certificate of the authority here."""


@dataclass(frozen=True, slots=True)
class DeviceAuthority:
    """The authority of devices, PEM files: it makes each device's key and certificate, the same each time."""

    key: Path
    certificate: Path

    def sealed(self, body: Frame) -> bytes:
        """The record as its vehicle sends it, with certificate, seal and signature."""
        device, lines = _device(self.key, self.certificate, body["vehicle_id"])
        body = body | {"certificate": lines}
        return Signer(device).sealed(KIND, orjson.dumps(body | {"sha256": crash_digest(body)}))


@lru_cache(4096)
def _device(key: Path, certificate: Path, vehicle_id: str) -> tuple[Ed25519PrivateKey, list[str]]:
    """Key and certificate of a device; nothing is kept of them but by the authority's key."""
    authority, of_authority = (
        private_key(key, DEVICES_KEY),
        x509.load_pem_x509_certificate(certificate.read_bytes()),
    )
    secret = hmac.digest(authority.private_bytes_raw(), vehicle_id.encode(), "sha256")
    device = Ed25519PrivateKey.from_private_bytes(secret)
    made = _certificate(
        vehicle_id, of_authority.subject, device.public_key(), of_authority.not_valid_before_utc
    )
    made = made.serial_number(int.from_bytes(hashlib.sha256(vehicle_id.encode()).digest()[:16]) or 1)
    text = b64encode(made.sign(authority, None).public_bytes(Encoding.DER)).decode()
    return device, [text[k : k + LINE] for k in range(0, len(text), LINE)]


def _certificate(name: str, issuer: x509.Name | None, key: Any, begins: datetime) -> x509.CertificateBuilder:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer or subject).public_key(key)
    return made.not_valid_before(begins).not_valid_after(begins + YEARS)


def device_authority(settings: Settings) -> DeviceAuthority | None:
    """The authority of this home; None: its devices have no keys."""
    home = settings.paths.home.absolute()
    found = DeviceAuthority(home / DEVICES_KEY, home / DEVICES_CERTIFICATE)
    return found if found.key.exists() else None


def device_certificate(settings: Settings) -> x509.Certificate | None:
    """The certificate of the authority that signs for devices; None: there is none. Raises ConfigError."""
    path = settings.crash.device_ca_file or settings.paths.home / DEVICES_CERTIFICATE
    if settings.crash.device_ca_file is None and not path.exists():
        return None
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"ODOGRAPH_CRASH_DEVICE_CA_FILE {path}: {error}") from error


def device_signature(raw: bytes, authority: x509.Certificate | None) -> str:
    """Whether the vehicle that a record names has signed these bytes: VALID, INVALID, ABSENT or UNCHECKED."""
    record = orjson.loads(raw)
    if "signature" not in record and "certificate" not in record:
        return ABSENT
    if authority is None:
        return UNCHECKED
    try:
        certificate = x509.load_der_x509_certificate(b64decode("".join(record["certificate"])))
        certificate.verify_directly_issued_by(authority)
        (name,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        key = certificate.public_key()
        signed = isinstance(key, Ed25519PublicKey) and Verifier(key).opened(KIND, raw) is not None
        return VALID if signed and name.value == record["vehicle_id"] else INVALID
    except Exception:  # noqa: BLE001  a device may send anything
        return INVALID


def statement(actor: str, action: str, key: tuple[str, int, str], digest: str, detail: str = "") -> bytes:
    """What a program signs of an entry of the custody log: all but its place and time."""
    return orjson.dumps(["custody", actor, action, *key, digest, detail])


def notary(settings: Settings) -> Signer | None:
    """With the evidence key in force; None: none is here, and entries go unsigned. Raises ConfigError."""
    path = settings.crash.key_file or settings.paths.home / KEY_FILE
    if settings.crash.key_file is None and not path.exists():
        return None
    return Signer(private_key(path, "ODOGRAPH_CRASH_KEY_FILE"))


def witness(settings: Settings) -> Verifier | None:
    """With the public key of the evidence key; None: there is none here. Raises ConfigError."""
    path = settings.crash.public_key_file or settings.paths.home / PUBLIC_KEY_FILE
    if settings.crash.public_key_file is None and not path.exists():
        return None
    return Verifier(public_key(path, "ODOGRAPH_CRASH_PUBLIC_KEY_FILE"))


def _new_pair() -> tuple[str, bytes]:
    key = Ed25519PrivateKey.generate()
    return _pem(key), Signer(key).public_pem()


def _new_devices() -> tuple[str, bytes]:
    """A new authority of devices: key and certificate, PEM."""
    key = Ed25519PrivateKey.generate()
    made = _certificate("odograph devices", None, key.public_key(), datetime.now(UTC))
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return _pem(key), made.serial_number(x509.random_serial_number()).sign(key, None).public_bytes(
        Encoding.PEM
    )


def _new_time_stamper() -> tuple[str, bytes]:
    """A new time-stamp authority (RFC 3161): key and certificate, PEM. openssl ts takes no Ed25519."""
    key = ec.generate_private_key(ec.SECP256R1())
    made = _certificate("odograph time stamps", None, key.public_key(), datetime.now(UTC))
    made = made.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING]), critical=True)
    made = made.serial_number(x509.random_serial_number())
    return _pem(key), made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def _pem(key: Ed25519PrivateKey | ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


HOME_KEYS: Final = (
    (KEY_FILE, PUBLIC_KEY_FILE, _new_pair),
    (DEVICES_KEY, DEVICES_CERTIFICATE, _new_devices),
    (TSA_KEY, TSA_CERTIFICATE, _new_time_stamper),
)
"""Files that `odograph up` makes where they are missing: a private key, what others may see, and how."""
