"""What the service tells vehicles: alerts to one, notices to one or all. JSON, signed; and alert silences.

``expires_ms`` bounds a message's validity: a vehicle ignores it later, so that it cannot be replayed.

Ed25519 (RFC 8032) signs the message's kind, a line feed and the message's own bytes; the last key,
``signature``, is base64 of it. A vehicle cuts it off and checks it before it parses anything.

Silences are the table's copy for the downlink, which asks no database for them: `odograph alerts silence`
writes ``<home>/lookups/silences.json``, the downlink rereads it on change. Copy it elsewhere by hand.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization as pem
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from infra.contract import frame
from infra.contract.errors import ConfigError, ContractError, raised_as
from infra.contract.frame import MAX_INT, SCHEMA, Frame, check_vehicle, require_int
from infra.contract.messages import ALERT_MAX_BYTES, SEVERITIES
from infra.contract.topics import EVERYBODY, VEHICLE_ID
from infra.settings.files import read_secret, write_whole
from infra.settings.settings import Settings

DOWNLINK_ALERT_KEYS: Final = (
    "alert_id",  # the same finding has the same id: a receiver drops what it has seen
    "incident_id",  # the alert_id of its incident's first finding; its own where nobody knows better
    "vehicle_id", "rule", "severity", "event_ms", "value", "limit", "message",
)  # fmt: skip
"""Keys of an alert on ``<root>/<vehicle>/alert`` after schema, sent_ms and expires_ms; values as in Kafka."""
NOTICE_TEXT_CHARS: Final = 1000
MAX_BYTES: Final = ALERT_MAX_BYTES + 256  # without its signature: an alert as Kafka has it, and the head


def encode_alert(alert: Frame, sent_ms: int, expires_ms: int) -> bytes:
    """The message to the vehicle of an alert as Kafka has it; to be signed."""
    head = {"schema": SCHEMA, "sent_ms": sent_ms, "expires_ms": expires_ms}
    whole = {"incident_id": alert["alert_id"]} | alert
    return orjson.dumps(head | {key: whole[key] for key in DOWNLINK_ALERT_KEYS})


def decode_alert(raw: bytes) -> Frame:
    """The alert in ``raw``, as a vehicle reads it; unknown keys are kept. Raises ContractError."""
    alert = _head(raw, ("alert_id", "rule", "message"))
    require_int(alert, "event_ms", 0, MAX_INT, "bad_clock")
    check_vehicle(alert)
    return alert


def encode_notice(notice_id: str, to: str, severity: str, text: str, sent_ms: int, expires_ms: int) -> bytes:
    """A notice ``to`` a vehicle id or ``all``; raises ContractError where a vehicle would refuse it."""
    head = {"schema": SCHEMA, "sent_ms": sent_ms, "expires_ms": expires_ms}
    raw = orjson.dumps(head | {"notice_id": notice_id, "to": to, "severity": severity, "text": text})
    decode_notice(raw)
    return raw


def decode_notice(raw: bytes) -> Frame:
    """The notice in ``raw``. Raises ContractError."""
    notice = _head(raw, ("notice_id", "to", "text"))
    if notice["to"] != EVERYBODY and VEHICLE_ID.fullmatch(notice["to"]) is None:
        raise ContractError("bad_identity", f"to {notice['to']!r} is neither {EVERYBODY} nor a VIN")
    if not 1 <= len(notice["text"]) <= NOTICE_TEXT_CHARS:
        raise ContractError("bad_value", f"a text of 1 to {NOTICE_TEXT_CHARS} characters is wanted")
    return notice


def _head(raw: bytes, texts: tuple[str, ...]) -> Frame:
    message = frame.load_object(raw, MAX_BYTES)
    frame.check_schema(message)
    require_int(message, "sent_ms", 0, MAX_INT, "bad_clock")
    require_int(message, "expires_ms", 0, MAX_INT, "bad_clock")
    if message.get("severity") not in SEVERITIES:
        raise ContractError("bad_value", f"severity {message.get('severity')!r} is none of {SEVERITIES}")
    for key in texts:
        if type(message.get(key)) is not str:
            raise ContractError("bad_shape", f"{key} {message.get(key)!r} is not a string")
    return message


KEY_FILE: Final = "downlink.key"
PUBLIC_KEY_FILE: Final = "downlink.pub"
_TAIL: Final = re.compile(rb',"signature":"([A-Za-z0-9+/]{86}==)"\}')
_TAIL_BYTES: Final = len(b',"signature":""}') + 88


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs, as the service alone can."""

    _key: Ed25519PrivateKey

    def sealed(self, kind: str, message: bytes) -> bytes:
        """``message``, a JSON object with at least one key, with its signature as the last one."""
        signed = message.removesuffix(b"}")
        signature = self.sign(b"%s\n%s" % (kind.encode(), signed))
        return b'%s,"signature":"%s"}' % (signed, signature.encode())

    def sign(self, message: bytes) -> str:
        """Its signature, base64."""
        return b64encode(self._key.sign(message)).decode()

    def public_pem(self) -> bytes:
        """What vehicles are given."""
        return self._key.public_key().public_bytes(pem.Encoding.PEM, pem.PublicFormat.SubjectPublicKeyInfo)


@dataclass(frozen=True, slots=True)
class Verifier:
    """Checks, as every vehicle can."""

    _key: Ed25519PublicKey

    def opened(self, kind: str, raw: bytes) -> bytes | None:
        """The message without its signature; None where the service did not sign it as of this kind."""
        match = _TAIL.fullmatch(raw, max(0, len(raw) - _TAIL_BYTES))
        if match is None:
            return None
        signed = raw[: match.start()]
        return signed + b"}" if self.holds(b"%s\n%s" % (kind.encode(), signed), match[1]) else None

    def holds(self, message: bytes, signature: str | bytes) -> bool:
        """Whether this is the message's signature, base64."""
        try:
            self._key.verify(b64decode(signature), message)
        except (InvalidSignature, ValueError):
            return False
        return True


def private_pem(key: Ed25519PrivateKey | EllipticCurvePrivateKey) -> str:
    """A private key as its file holds it, PEM (PKCS 8)."""
    return key.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.NoEncryption()).decode()


def signer(settings: Settings) -> Signer:
    """With the private key in force. Raises ConfigError."""
    path, option = settings.downlink.key_file or settings.paths.home / KEY_FILE, "ODOGRAPH_DOWNLINK_KEY_FILE"
    return Signer(private_key(path, option))


def private_key(path: Path, option: str) -> Ed25519PrivateKey:
    """The Ed25519 key in a private file that ``option`` names. Raises ConfigError."""
    text = read_secret(path, f"{option} (`odograph up` makes the default one)")
    with raised_as(ConfigError, f"{option} {path}", ValueError, TypeError):
        key = pem.load_pem_private_key(text.encode(), None)
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"{option} {path}: an Ed25519 key is wanted")
    return key


def public_key_file(settings: Settings) -> Path:
    """Where vehicles find the public key."""
    return settings.downlink.public_key_file or settings.paths.home / PUBLIC_KEY_FILE


def verifier(settings: Settings) -> Verifier:
    """With the public key in force. Raises ConfigError."""
    return Verifier(public_key(public_key_file(settings), "ODOGRAPH_DOWNLINK_PUBLIC_KEY_FILE"))


def public_key(path: Path, option: str) -> Ed25519PublicKey:
    """The Ed25519 key in a file that ``option`` names. Raises ConfigError."""
    with raised_as(ConfigError, f"{option} {path} (`odograph up` makes a default)", OSError, ValueError):
        key = pem.load_pem_public_key(path.read_bytes())
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigError(f"{option} {path}: an Ed25519 key is wanted")
    return key


@dataclass(frozen=True, slots=True)
class Silence:
    """Until ``until_ms`` (since 1970); a rule, a vehicle, a cause, or several of them: None is any."""

    rule: str | None
    vehicle_id: str | None
    from_ms: int
    until_ms: int
    cause: str | None = None

    def covers(self, vehicle_id: str, rule: str, now_ms: int, cause: str | None = None) -> bool:
        """Whether an alert is under it now; ``rule`` may have a part after a point."""
        ours = self.rule is None or self.rule in (rule, rule.partition(".")[0])
        ours = ours and self.vehicle_id in (None, vehicle_id) and self.cause in (None, cause)
        return ours and self.from_ms <= now_ms < self.until_ms


class _Lookup:
    """A JSON file of a home's lookups, read again when it changes; nothing where it cannot be read."""

    FILE: ClassVar[str]

    def __init__(self, home: Path) -> None:
        self._path = home / "lookups" / self.FILE
        self._mark: tuple[int, int] | None = None
        self._held: Any = None

    @classmethod
    def write(cls, home: Path, content: object) -> None:
        """Write it whole, or not at all."""
        write_whole(home / "lookups" / cls.FILE, orjson.dumps(content))

    def _now(self, form: Callable[[Any], Any]) -> Any:
        try:
            stat = self._path.stat()
            if (mark := (stat.st_mtime_ns, stat.st_size)) != self._mark:
                self._held, self._mark = form(orjson.loads(self._path.read_bytes())), mark
        except (OSError, ValueError, TypeError):
            self._held, self._mark = form([]), None
        return self._held


class Silences(_Lookup):
    """The silences in force; a file that cannot be read silences nothing."""

    FILE = "silences.json"

    def cover(self, vehicle_id: str, rule: str, now_ms: int, cause: str | None = None) -> bool:
        """Whether an alert is silenced now; ``cause`` is its incident's."""
        held = self._now(lambda rows: [Silence(**row) for row in rows])
        return any(silence.covers(vehicle_id, rule, now_ms, cause) for silence in held)


class Fleets(_Lookup):
    """The fleet of each vehicle, as `odograph fleet set` keeps it; none where the file cannot be read."""

    FILE = "fleets.json"

    def of(self, vehicle_id: str) -> str:
        """Its fleet; empty: it is in none, or nobody knows."""
        return str(self._now(dict).get(vehicle_id, ""))
