"""Heads of payloads for whoever asks for nothing else: msgspec checks the rest and passes over it.

In a third of the time of ``reading.read``, to the same rows: what this one takes otherwise it leaves to that.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_jobs.app.schema import HEAD
from stream_jobs.frames.reading import HEAD_SCHEMA, _all_in_braces, _has_long_number, _may_be_deep, read

AT_ONCE: Final = 2000
PIECE: Final = 1 << 17
"""Bytes that stay in the processor's cache."""
_Head: Final = msgspec.defstruct("_Head", [(name, Any, None) for name in HEAD], gc=False)
_HEADS: Final = msgspec.json.Decoder(_Head)


def read_heads(payloads: pa.BinaryArray) -> pa.Table:
    """``read`` of HEAD_SCHEMA."""
    found = [HEAD_SCHEMA.empty_table()]
    for begin in range(0, len(payloads), AT_ONCE):
        part = payloads[begin : begin + AT_ONCE]
        table = _at_once(part)
        found.append(read(part, HEAD_SCHEMA) if table is None else table)
    return pa.concat_tables(found).combine_chunks()


def _at_once(payloads: pa.BinaryArray) -> pa.Table | None:
    """None where a payload is not plain. As many rows as payloads: a row for each, as with Arrow's reader."""
    if payloads.null_count or not _all_in_braces(payloads) or _may_be_deep(payloads):
        return None
    whole = pa.ListArray.from_arrays(pa.array([0, len(payloads)], pa.int32()), payloads)
    text = memoryview(pc.binary_join(whole, b"\n")[0].as_buffer())  # a copy would cost more than all checks
    if _has_long_number(text) or _has_large_exponent(text) or not _is_utf8(text):
        return None
    try:
        heads = _HEADS.decode_lines(text)
        columns = [pa.array([getattr(head, name) for head in heads]) for name in HEAD]
    except (msgspec.DecodeError, pa.ArrowException, RecursionError, OverflowError):
        return None
    typed = all(c.type in (pa.null(), f.type) for c, f in zip(columns, HEAD_SCHEMA, strict=True))
    if len(heads) != len(payloads) or not typed:
        return None
    return pa.table([c.cast(f.type) for c, f in zip(columns, HEAD_SCHEMA, strict=True)], schema=HEAD_SCHEMA)


def _has_large_exponent(text: memoryview) -> bool:
    """Perhaps a number beyond every double: a digit, e, no minus."""
    letters = np.frombuffer(text, np.uint8)
    for begin in range(0, len(letters), PIECE):
        piece = letters[begin : begin + PIECE + 2]
        e, after_digit = piece[1:-1] | 0x20 == ord("e"), piece[:-2] - ord("0") < 10
        if np.any(e & after_digit & (piece[2:] != ord("-"))):
            return True
    return False


def _is_utf8(text: memoryview) -> bool:
    if np.frombuffer(text, np.uint8).max() < 0x80:
        return True
    try:
        text.tobytes().decode()
    except UnicodeDecodeError:
        return False
    return True
