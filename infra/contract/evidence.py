"""Evidence that stands without the database: who signed a crash record, who wrote an entry about it.

A device signs the bytes of its record as the downlink does (Ed25519, the last key ``signature``), its
certificate among them: X.509, the common name is the vehicle id. The service's programs sign with the
evidence key what they do with records. A database's owner has neither key. Keys are the caller's.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Final

import orjson
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from infra.contract.downlink import Signer, Verifier
from infra.contract.frame import Frame
from infra.contract.messages import crash_digest

KIND: Final = "crash"
LINE: Final = 64  # of a certificate in base64: a record's texts are short
VALID, INVALID, ABSENT, UNCHECKED = "valid", "invalid", "absent", "unchecked"
"""What is known of a record's signature; unchecked: there is no certificate of the authority here."""


def sealed(body: Frame, certificate: x509.Certificate, device: Signer) -> bytes:
    """The record as its vehicle sends it, with certificate, seal and signature."""
    text = b64encode(certificate.public_bytes(Encoding.DER)).decode()
    body = body | {"certificate": [text[k : k + LINE] for k in range(0, len(text), LINE)]}
    return device.sealed(KIND, orjson.dumps(body | {"sha256": crash_digest(body)}))


def device_signature(raw: bytes, in_force: Callable[[x509.Certificate], bool] | None) -> str:
    """Whether the vehicle that a record names has signed these bytes: VALID, INVALID, ABSENT or UNCHECKED.

    ``in_force`` says, or raises, whether a certificate is taken; None: nobody here can.
    """
    record = orjson.loads(raw)
    if "signature" not in record and "certificate" not in record:
        return ABSENT
    if in_force is None:
        return UNCHECKED
    try:
        certificate = x509.load_der_x509_certificate(b64decode("".join(record["certificate"])))
        (name,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        key = certificate.public_key()
        signed = isinstance(key, Ed25519PublicKey) and Verifier(key).opened(KIND, raw) is not None
        return VALID if signed and name.value == record["vehicle_id"] and in_force(certificate) else INVALID
    except Exception:  # noqa: BLE001  a device may send anything
        return INVALID


def statement(actor: str, action: str, key: tuple[str, int, str], digest: str, detail: str = "") -> bytes:
    """What a program signs of an entry of the custody log: all but its place and time."""
    return orjson.dumps(["custody", actor, action, *key, digest, detail])
