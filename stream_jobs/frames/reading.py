"""Payloads to columns: a batch of JSON frames read in one pass, strictly and row by row the same.

Arrow reads a batch at once and refuses it whole: it is halved until the culprit stands among few, and these
are read one by one. There a value of a wrong type becomes null, and what is no JSON object an empty one.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from infra.contract.signals import SIGNALS
from stream_jobs.app.schema import HEAD

AT_ONCE: Final = 2000  # payloads in memory that is there; for more the system makes pages, 15 % of the time
SINGLY: Final = 32  # among so few payloads the culprit is not looked for any further
INT64: Final = 2**63
DOUBLE_DIGITS: Final = 308
DEPTH: Final = 1024  # deeper orjson reads nothing; Arrow passes over any depth of a field nobody asks for
STRIDE: Final = 13  # prime: samples of equal width do not hide what is between them

_KINDS: Final = {"number": pa.float64(), "flag": pa.bool_(), "codes": pa.list_(pa.string())}
_FAST: Final = pa.list_(pa.float64())
HEAD_SCHEMA: Final = pa.schema([(name, pa.string() if name == "vehicle_id" else pa.int64()) for name in HEAD])
FRAME_SCHEMA: Final = pa.schema(
    [*HEAD_SCHEMA, *((s.name, _FAST if s.rate == "fast" else _KINDS[s.kind]) for s in SIGNALS)]
)


def read(payloads: pa.BinaryArray, schema: pa.Schema = FRAME_SCHEMA) -> pa.Table:
    """The fields of ``schema``, a row a payload; null where a field is missing or of a wrong type."""
    tables = (table for part in _parts(payloads) for table in _read(part, schema))
    return pa.concat_tables([schema.empty_table(), *tables]).combine_chunks()


def _parts(payloads: pa.BinaryArray) -> Iterator[pa.BinaryArray]:
    return (payloads[begin : begin + AT_ONCE] for begin in range(0, len(payloads), AT_ONCE))


def _read(payloads: pa.BinaryArray, schema: pa.Schema) -> Iterator[pa.Table]:
    if not len(payloads):
        return
    table = _read_at_once(payloads, schema)
    if table is not None:
        yield table
    elif len(payloads) <= SINGLY:
        yield _parse(b"\n".join(_tidied(raw, schema) for raw in payloads.to_pylist()), schema)
    else:
        half = len(payloads) // 2
        yield from _read(payloads[:half], schema)
        yield from _read(payloads[half:], schema)


def _read_at_once(payloads: pa.BinaryArray, schema: pa.Schema) -> pa.Table | None:
    """None where the batch is not plain JSON objects, one a payload."""
    lines = _lines(payloads)
    if lines is None:
        return None
    text: bytes = lines.to_pybytes()
    # A single letter is found ten times as fast, and hardly a frame has an I.
    if b"NaN" in text or (b"I" in text and b"Inf" in text):
        return None
    try:
        table = _parse(text, schema)
    except pa.ArrowInvalid:
        return None
    return table if table.num_rows == len(payloads) else None


def _lines(payloads: pa.BinaryArray) -> pa.Buffer | None:
    """The payloads, a line each; None where one is not in braces, or no UTF-8, or may be nested deeper than
    ``DEPTH`` or have too long a number.

    A payload in braces cannot run into the next: a brace after a brace is an error inside an object, a line
    feed inside a string. So as many rows as payloads means a row for each.
    """
    in_braces = pc.and_(pc.starts_with(payloads, "{"), pc.ends_with(payloads, "}"))
    if payloads.null_count or not pc.all(in_braces).as_py():
        return None
    is_long = pc.greater_equal(pc.binary_length(payloads), 2 * DEPTH)  # each bracket is closed again
    if any(raw.count(b"[") + raw.count(b"{") >= DEPTH for raw in payloads.filter(is_long).to_pylist()):
        return None
    try:
        texts = payloads.cast(pa.string())
    except pa.ArrowInvalid:
        return None
    lines = pc.binary_join(pa.ListArray.from_arrays([0, len(texts)], texts), "\n")[0].as_buffer()
    return None if _has_long_number(lines) else lines


def _has_long_number(text: pa.Buffer) -> bool:
    """Perhaps more digits on end than a double has: Arrow lets them pass where nobody asks for the field.

    Every thirteenth byte is looked at: under a microsecond a frame.
    """
    digits = np.frombuffer(text, np.uint8)[::STRIDE] - ord("0") < 10  # below "0" the difference wraps around
    others = np.flatnonzero(~digits)
    return bool(np.diff(others, prepend=-1, append=len(digits)).max() > DOUBLE_DIGITS // STRIDE)


def _parse(text: bytes, schema: pa.Schema) -> pa.Table:
    return pyarrow.json.read_json(
        pa.BufferReader(text),
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
        parse_options=pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )


def _tidied(raw: bytes | None, schema: pa.Schema) -> bytes:
    """The payload with the fields of ``schema`` only, null where of a wrong type; ``{}`` for no object."""
    try:
        value = orjson.loads(raw or b"")
    except orjson.JSONDecodeError:
        return b"{}"
    if not isinstance(value, dict):
        return b"{}"
    return orjson.dumps({field.name: _tidy(value.get(field.name), field.type) for field in schema})


_TYPES: Final[dict[pa.DataType, tuple[type, ...]]] = {
    pa.int64(): (int,), pa.float64(): (int, float), pa.string(): (str,), pa.bool_(): (bool,),
}  # fmt: skip


def _tidy(value: Any, kind: pa.DataType) -> Any:
    """None for a value of a wrong type; in a list of texts an empty one for what is no text."""
    if pa.types.is_list(kind):
        if type(value) is not list:
            return None
        types, odd = _TYPES[kind.value_type], "" if kind.value_type == pa.string() else None
        return [each if each is None or type(each) in types else odd for each in value]
    fits = type(value) in _TYPES[kind] and (kind != pa.int64() or -INT64 <= value < INT64)
    return value if fits else None


PIECE: Final = 1 << 17  # bytes that stay in the processor's cache
ID_CHARS: Final = 20  # a little more than a vehicle's id has
_ALPHANUMERIC: Final = np.array([chr(letter).isalnum() and letter < 128 for letter in range(256)])
_HEAD_FIELDS: Final = [(name, str | None if name == "vehicle_id" else int | None, None) for name in HEAD]
_HEADS: Final = msgspec.json.Decoder(msgspec.defstruct("_Head", _HEAD_FIELDS, gc=False))


def read_heads(payloads: pa.BinaryArray) -> pa.Table:
    """``read`` of HEAD_SCHEMA."""
    found = [HEAD_SCHEMA.empty_table()]
    for part in _parts(payloads):
        table = _heads_at_once(part)
        found.append(read(part, HEAD_SCHEMA) if table is None else table)
    return pa.concat_tables(found).combine_chunks()


def _heads_at_once(payloads: pa.BinaryArray) -> pa.Table | None:
    """None where a payload is not plain. As many rows as payloads: a row for each, as with Arrow's reader."""
    lines = _lines(payloads)
    if lines is None or _has_large_exponent(lines):
        return None
    try:
        heads = _HEADS.decode_lines(memoryview(lines))  # a copy would cost more than all checks
        columns = {name: [getattr(head, name) for head in heads] for name in HEAD}
        table = pa.table(columns, schema=HEAD_SCHEMA)
    except (msgspec.DecodeError, RecursionError, OverflowError):
        return None
    return table if len(heads) == len(payloads) else None


def _has_large_exponent(text: pa.Buffer) -> bool:
    """Perhaps a number beyond every double: a digit, e, no minus, and no quotation mark before the digits and
    letters around it, as before a vehicle's id.
    """
    letters = np.frombuffer(text, np.uint8)
    for begin in range(0, len(letters), PIECE):
        first = max(0, begin - ID_CHARS)
        piece = letters[first : begin + PIECE + 2]
        e, after_digit = piece[1:-1] | 0x20 == ord("e"), piece[:-2] - ord("0") < 10
        at = np.flatnonzero(e & after_digit & (piece[2:] != ord("-"))) + 1
        at = at[first + at > begin]
        before = piece[np.maximum(at[:, None] - np.arange(1, ID_CHARS + 1), 0)]  # from the nearest on
        other = ~_ALPHANUMERIC[before]
        if np.any(before[np.arange(len(at)), other.argmax(axis=1)] != ord('"')):
            return True
    return False
