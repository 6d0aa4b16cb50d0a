"""Signatures of what the service tells vehicles: Ed25519 (RFC 8032) over the message's own bytes.

A signed message is a JSON object whose last key is ``signature``, base64 of the signature over the message's
kind, a line feed, and every byte before ``,"signature":``. A vehicle holds the public key only. It cuts the
signature off and checks it before it parses anything, so nothing is read that was not signed.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from infra.contract.errors import ConfigError
from infra.settings.secret_file import read_secret
from infra.settings.settings import Settings

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
        signature = b64encode(self._key.sign(_words(kind, signed)))
        return b'%s,"signature":"%s"}' % (signed, signature)

    def public_pem(self) -> bytes:
        """What vehicles are given."""
        return self._key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


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
        try:
            self._key.verify(b64decode(match[1]), _words(kind, signed))
        except InvalidSignature:
            return None
        return signed + b"}"


def _words(kind: str, signed: bytes) -> bytes:
    return kind.encode() + b"\n" + signed


def new_key() -> str:
    """A new private key, PEM (PKCS 8)."""
    pem = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem.decode()


def signer(settings: Settings) -> Signer:
    """With the private key in force. Raises ConfigError."""
    path = settings.downlink.key_file or settings.paths.home / KEY_FILE
    text = read_secret(path, "ODOGRAPH_DOWNLINK_KEY_FILE (`odograph up` makes the default one)")
    try:
        key = load_pem_private_key(text.encode(), None)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"ODOGRAPH_DOWNLINK_KEY_FILE {path}: {error}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"ODOGRAPH_DOWNLINK_KEY_FILE {path}: an Ed25519 key is wanted")
    return Signer(key)


def public_key_file(settings: Settings) -> Path:
    """Where vehicles find the public key."""
    return settings.downlink.public_key_file or settings.paths.home / PUBLIC_KEY_FILE


def verifier(settings: Settings) -> Verifier:
    """With the public key in force. Raises ConfigError."""
    path = public_key_file(settings)
    try:
        key = load_pem_public_key(path.read_bytes())
    except (OSError, ValueError) as error:
        hint = "`odograph up` makes the default one"
        raise ConfigError(f"ODOGRAPH_DOWNLINK_PUBLIC_KEY_FILE {path}: {error}; {hint}") from error
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigError(f"ODOGRAPH_DOWNLINK_PUBLIC_KEY_FILE {path}: an Ed25519 key is wanted")
    return Verifier(key)
