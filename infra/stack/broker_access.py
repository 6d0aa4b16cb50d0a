"""Mosquitto's files for a broker with names: who may log in, and who may write and read which topics."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Mapping
from typing import Final

ITERATIONS: Final = 101
"""What mosquitto_passwd itself uses; the passwords are long and random."""

CONFIG: Final = """\
allow_anonymous false
password_file {folder}/passwords
acl_file {folder}/acl
"""
"""In place of ``allow_anonymous true``."""

ACL: Final = """\
# A vehicle's user name is its id: it writes below its own topic and reads what is meant for it.
pattern write {root}/%u/telemetry
pattern write {root}/%u/crash
pattern write {root}/%u/status
pattern read {root}/%u/alert
pattern read {root}/all/notice

user {bridge}
topic read {root}/#
topic readwrite odograph-retire/#

user {downlink}
topic write {root}/+/alert
topic write {root}/all/notice
"""


def acl(root: str, bridge: str, downlink: str) -> str:
    """The access list; ``bridge`` and ``downlink`` are user names of the service."""
    return ACL.format(root=root, bridge=bridge, downlink=downlink)


def passwords(words: Mapping[str, str]) -> str:
    """The password file of Mosquitto 2 (PBKDF2 with SHA-512) for passwords by user name."""
    return "".join(f"{name}:{_hashed(word, secrets.token_bytes(12))}\n" for name, word in words.items())


def _hashed(word: str, salt: bytes) -> str:
    digest = hashlib.pbkdf2_hmac("sha512", word.encode(), salt, ITERATIONS)
    return f"$7${ITERATIONS}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"
