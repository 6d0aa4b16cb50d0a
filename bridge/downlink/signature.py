"""How a webhook's receiver knows that a request is ours and new. Pure.

``Odograph-Signature: v2=<hex>`` is HMAC-SHA256 with the shared secret over three parts, a line feed between
them: the header ``Odograph-Timestamp`` (unix seconds, ASCII digits), the header ``Idempotency-Key``, and the
body as the bytes received. No header holds a line feed, so the parts cannot be cut differently.
A receiver computes it anew, compares in constant time, refuses a timestamp more than 300 s off its clock,
and drops an ``Idempotency-Key`` it has accepted before. Each attempt is signed at its own time.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

HEADER_TIMESTAMP: Final = "Odograph-Timestamp"
HEADER_SIGNATURE: Final = "Odograph-Signature"
HEADER_ID: Final = "Idempotency-Key"
TOLERANCE_S: Final = 300


def sign(secret: bytes, key: str, timestamp_s: int, body: bytes) -> str:
    """The signature header's value."""
    signed = b"%d\n%s\n" % (timestamp_s, key.encode()) + body
    return "v2=" + hmac.new(secret, signed, hashlib.sha256).hexdigest()


def headers(secret: bytes, alert_id: str, timestamp_s: int, body: bytes) -> dict[str, str]:
    """The headers of one attempt."""
    return {
        "Content-Type": "application/json",
        "User-Agent": "odograph",
        HEADER_ID: alert_id,
        HEADER_TIMESTAMP: str(timestamp_s),
        HEADER_SIGNATURE: sign(secret, alert_id, timestamp_s, body),
    }


def genuine(secret: bytes, found: Mapping[str, str], body: bytes, now_s: float) -> bool:
    """What a receiver does: whether headers and body are signed with ``secret`` and of now."""
    stamp = found.get(HEADER_TIMESTAMP, "")
    if not (stamp.isascii() and stamp.isdigit()) or abs(now_s - int(stamp)) > TOLERANCE_S:
        return False
    expected = sign(secret, found.get(HEADER_ID, ""), int(stamp), body)
    return hmac.compare_digest(expected.encode(), found.get(HEADER_SIGNATURE, "").encode())
