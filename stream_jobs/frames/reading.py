"""Payloads to columns: a batch of JSON frames read by Arrow in one pass, strictly and row by row the same.

Arrow reads a batch at once and refuses it whole. So a batch that is not plain is halved until the culprit
stands among few, and these are read one by one: there a value of a wrong type becomes null, and what is no
JSON object an empty one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from infra.contract.signals import SIGNALS, Signal
from stream_jobs.schema import HEAD

SINGLY: Final = 32
"""Among so few payloads the culprit is not looked for any further."""
OPEN, CLOSE = b"{}"
INT64: Final = 2**63
DOUBLE_DIGITS: Final = 308
DEPTH: Final = 1024
"""Deeper orjson reads nothing; Arrow passes over any depth where nobody asks for the field."""
STRIDE: Final = 13
"""Prime: samples of equal width do not hide what is between them."""

Tidy = Callable[[Any], Any]


def _arrow_type(signal: Signal) -> pa.DataType:
    kinds = {"number": pa.float64(), "flag": pa.bool_(), "codes": pa.list_(pa.string())}
    return pa.list_(pa.float64()) if signal.rate == "fast" else kinds[signal.kind]


HEAD_SCHEMA: Final = pa.schema([(name, pa.string() if name == "vehicle_id" else pa.int64()) for name in HEAD])
FRAME_SCHEMA: Final = pa.schema([*HEAD_SCHEMA, *((s.name, _arrow_type(s)) for s in SIGNALS)])


def read(payloads: pa.BinaryArray, schema: pa.Schema = FRAME_SCHEMA) -> pa.Table:
    """The fields of ``schema``, a row a payload; null where a field is missing or of a wrong type."""
    found = [*_read(payloads, schema)] or [schema.empty_table()]
    return pa.concat_tables(found).combine_chunks()


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
    """None where the batch is not plain JSON objects, one a payload.

    A payload in braces cannot run into the next: a brace after a brace is an error inside an object, a line
    feed inside a string. So as many rows as payloads means a row for each.
    """
    if payloads.null_count or not _all_in_braces(payloads) or _may_be_deep(payloads):
        return None
    whole = pa.ListArray.from_arrays(pa.array([0, len(payloads)], pa.int32()), payloads)
    text: bytes = pc.binary_join(whole, b"\n")[0].as_py()
    if _has_no_number(text) or _has_long_number(text) or not _is_utf8(text):
        return None
    try:
        table = _parse(text, schema)
    except pa.ArrowInvalid:
        return None
    return table if table.num_rows == len(payloads) else None


def _has_no_number(text: bytes) -> bool:
    """NaN or Inf. A single letter is found ten times as fast, and hardly a frame has an I."""
    return b"NaN" in text or (b"I" in text and b"Inf" in text)


def _has_long_number(text: bytes) -> bool:
    """Perhaps more digits on end than a double has: Arrow lets them pass where nobody asks for the field.

    Every thirteenth byte is looked at: under a microsecond a frame.
    """
    digits = np.frombuffer(text, np.uint8)[::STRIDE] - ord("0") < 10  # below "0" the difference wraps around
    others = np.flatnonzero(~digits)
    return bool(np.diff(others, prepend=-1, append=len(digits)).max() > DOUBLE_DIGITS // STRIDE)


def _may_be_deep(payloads: pa.BinaryArray) -> bool:
    """Whether one has so many brackets, in texts too, that it may be nested deeper than ``DEPTH``."""
    long = np.flatnonzero(np.diff(_offsets(payloads)) >= 2 * DEPTH)  # each is closed again
    return any(
        raw.count(b"[") + raw.count(b"{") >= DEPTH for raw in payloads.take(pa.array(long)).to_pylist()
    )


def _offsets(payloads: pa.BinaryArray) -> npt.NDArray[np.int32]:
    """Where each begins in the buffer, and the end of the last."""
    return np.frombuffer(payloads.buffers()[1], np.int32)[payloads.offset :][: len(payloads) + 1]


def _all_in_braces(payloads: pa.BinaryArray) -> bool:
    offsets = _offsets(payloads)
    if payloads.buffers()[2] is None or not np.all(offsets[1:] > offsets[:-1]):
        return False
    data = np.frombuffer(payloads.buffers()[2], np.uint8)
    return bool(np.all(data[offsets[:-1]] == OPEN) and np.all(data[offsets[1:] - 1] == CLOSE))


def _is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


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
    return orjson.dumps({field.name: _TIDY[field.type](value.get(field.name)) for field in schema})


def _integer(value: Any) -> int | None:
    return value if type(value) is int and -INT64 <= value < INT64 else None


def _number(value: Any) -> float | None:
    return value if type(value) in (int, float) else None


def _numbers(value: Any) -> list[float | None] | None:
    return [_number(v) for v in value] if type(value) is list else None


def _text(value: Any) -> str | None:
    return value if type(value) is str else None


def _flag(value: Any) -> bool | None:
    return value if type(value) is bool else None


def _texts(value: Any) -> list[str] | None:
    return [v if type(v) is str else "" for v in value] if type(value) is list else None


_TIDY: Final[dict[pa.DataType, Tidy]] = {
    pa.int64(): _integer,
    pa.float64(): _number,
    pa.string(): _text,
    pa.bool_(): _flag,
    pa.list_(pa.float64()): _numbers,
    pa.list_(pa.string()): _texts,
}
