"""What a query remembers between batches as bytes: plain values, dataclasses, arrays and Arrow columns."""

import ast
from functools import cache
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
import pyarrow as pa

CODEC: Final = pa.Codec("zstd", 3)
LENGTH: Final = 8  # bytes before what is compressed: how long that is
Kind = TypeVar("Kind")


def dump(value: object) -> bytes:
    """The value compressed: it passes from Java to Python and back with each batch."""
    plain = _ENCODER.encode(value)
    small: bytes = CODEC.compress(plain, asbytes=True)
    return len(plain).to_bytes(LENGTH, "little") + small


def load(raw: bytes, kind: type[Kind]) -> Kind:
    """The value of this type that ``dump`` was given; its arrays may be changed."""
    plain: bytes = CODEC.decompress(raw[LENGTH:], int.from_bytes(raw[:LENGTH], "little"), asbytes=True)
    if kind not in _DECODERS:
        _DECODERS[kind] = msgspec.msgpack.Decoder(kind, dec_hook=_made)
    found: Kind = _DECODERS[kind].decode(plain)
    return found


def _plain(value: object) -> Any:
    """An array with bytes of equal weight side by side, since most numbers are small."""
    if isinstance(value, np.ndarray):
        planes = np.frombuffer(value.tobytes(), np.uint8).reshape(value.size, value.itemsize).T
        return _text_of(value.dtype), value.shape, planes.tobytes()
    if isinstance(value, pa.Array):
        return value.to_pylist()
    raise NotImplementedError(type(value))


def _made(kind: Any, plain: Any) -> Any:
    if kind in _COLUMNS:
        return pa.array(plain, _COLUMNS[kind])
    text, shape, planes = plain
    dtype = _dtype_of(text)
    if not planes:
        return np.zeros(shape, dtype)
    rows = np.frombuffer(planes, np.uint8).reshape(dtype.itemsize, -1).T.copy()
    return rows.view(dtype).reshape(shape)


_COLUMNS: Final = {pa.StringArray: pa.string(), pa.ListArray: pa.list_(pa.string())}
_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=_plain)
_DECODERS: Final[dict[Any, Any]] = {}


@cache
def _text_of(dtype: np.dtype[Any]) -> str:
    return repr(np.lib.format.dtype_to_descr(dtype))


@cache
def _dtype_of(text: str) -> np.dtype[Any]:
    found: np.dtype[Any] = np.lib.format.descr_to_dtype(ast.literal_eval(text))
    return found
