"""Crash records too large for one message: cut into parts, told apart, and put together again.

A part travels on the crash topic like a whole record. Part 0 also carries what an alert needs, under the keys
that the whole record has, so a consumer that judges part 0 finds what it would find in the whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import orjson

from infra.contract.bounds import ID_CHARS, LAST_MS, TEXT_CHARS, check_bounded, check_text, shown
from infra.contract.errors import ContractError
from infra.contract.frame import Frame, check_identity, require_int

CHUNK_BYTES: Final = 16 * 1024
"""A record of more JSON than this is sent in parts, unless a setting says otherwise."""
MIN_CHUNK_BYTES: Final = 1024
CRASH_MAX_BYTES: Final = 256 * 1024
MAX_PARTS: Final = CRASH_MAX_BYTES // MIN_CHUNK_BYTES

HEAD: Final = ("schema", "vehicle_id", "boot_id", "seq", "crash_id")
CLOCKS: Final = ("event_ms", "sent_ms")
PART_KEYS: Final = (
    "part",  # from 0
    "parts",
    "sha256",  # of the whole record's JSON text, hex: not the record's own seal
    "data",  # this part's slice of that text
)
"""Keys of a part after HEAD and CLOCKS."""

FIGURES: Final = (
    "profile",
    "delta_v_kmh",
    "delta_v_lat_kmh",
    "delta_v_max_kmh",
    "delta_v_max_ms",
    "airbag_deployed",
    "belt_on",
    "warning_lamp_on",
    "ignition_cycle",
    "multi_event",
    "complete",
    "lat_deg",
    "lon_deg",
)
"""Keys of the record that part 0 repeats: all but the long tables."""


def split_crash(record: bytes, chunk_bytes: int = CHUNK_BYTES) -> list[bytes]:
    """The messages that carry a crash record: itself, or its parts in order, cut as evenly as can be.

    The cuts follow from the record and the number of parts alone.
    """
    if len(record) <= chunk_bytes:
        return [record]
    text = record.decode()
    whole = orjson.loads(record)
    parts = -(-len(record) // chunk_bytes)
    size = -(-len(text) // parts)
    digest = hashlib.sha256(record).hexdigest()
    head = {key: whole[key] for key in (*HEAD, *CLOCKS)}
    figures = {key: whole[key] for key in FIGURES if key in whole}
    return [
        orjson.dumps(
            head
            | {"part": k, "parts": parts, "sha256": digest}
            | (figures if k == 0 else {})
            | {"data": text[k * size : (k + 1) * size]}
        )
        for k in range(parts)
    ]


def is_part(message: Frame) -> bool:
    """Whether a message of the crash topic is a part of a record."""
    return "part" in message


def check_part(message: Frame) -> None:
    """Raise ContractError unless a part is whole in itself. What it is a part of is not judged."""
    check_identity(message)
    for key in CLOCKS:
        require_int(message, key, 0, LAST_MS, "bad_clock")
    parts = require_int(message, "parts", 1, MAX_PARTS, "bad_shape")
    require_int(message, "part", 0, parts - 1, "bad_shape")
    digest = message.get("sha256")
    if type(digest) is not str or len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
        raise ContractError("bad_shape", f"sha256 {shown(digest)} is not 64 hexadecimal digits")
    # Cut as evenly as can be: all parts together are no longer than a record may be.
    check_text(message, "data", max(TEXT_CHARS, -(-CRASH_MAX_BYTES // parts)), reason="bad_shape")
    check_text(message, "crash_id", ID_CHARS, reason="bad_shape")
    check_bounded({key: value for key, value in message.items() if key != "data"})


def join_crash(slices: Sequence[str], digest: str) -> bytes:
    """The record out of its parts' ``data``, in order; raises ContractError where the digest differs."""
    raw = "".join(slices).encode()
    found = hashlib.sha256(raw).hexdigest()
    if found != digest:
        raise ContractError("bad_digest", f"{len(slices)} parts give {found}, their sha256 is {digest}")
    return raw
