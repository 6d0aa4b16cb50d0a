"""The frame: what one telemetry message carries.

Columnar JSON: a head (identity and clock), fast signals as arrays of ``n`` samples, slow signals as scalars.
``null`` or an absent key says "not available", never 0. Sample ``i`` was taken at ``t0_ms + i * dt_ms``.
A frame's identity is (vehicle_id, boot_id, seq): at-least-once delivery repeats frames, never identities.

What a device sends is bounded: the bridge enforces it, the event store once more for what came into Kafka by
another way, and the tables' CHECKs repeat it. PostgreSQL stores no U+0000.
"""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain
from typing import Annotated, Any, Final

import orjson
from msgspec import DecodeError, Meta, defstruct, json

from infra.contract.errors import ContractError
from infra.contract.signals import FAST, SLOW
from infra.contract.topics import VEHICLE_ID

SCHEMA: Final = 1
MAX_BYTES: Final = 64 * 1024
MAX_SAMPLES: Final = 100
MAX_DT_MS: Final = 60_000
MAX_DEPTH: Final = 32  # levels of objects and arrays; a crash record has four

HEAD: Final = ("schema", "vehicle_id", "boot_id", "seq", "t0_ms", "dt_ms", "n", "sent_ms")
_FAST_NAMES: Final = tuple(s.name for s in FAST)
_NUMERIC: Final = frozenset((int, float, type(None)))
_BY_KIND: Final = {
    "number": (_NUMERIC, "a number or null"), "flag": (frozenset((bool, type(None))), "true, false or null"),
}  # fmt: skip
_PLAIN: Final = tuple((s.name, *_BY_KIND[s.kind]) for s in SLOW if s.kind in _BY_KIND)
_CODES: Final = tuple(s.name for s in SLOW if s.kind == "codes")

Frame = dict[str, Any]

MAX_INT: Final = 2**53  # integers above this lose digits in other JSON readers
LAST_MS: Final = 253_402_300_799_999  # end of the year 9999, ms since 1970: many a reader knows no later time
ID_CHARS: Final = 64  # of a crash id, a model, a profile
RULE_CHARS: Final = 128  # of a rule with the part of it that a finding is about, and of an alert's id
MESSAGE_CHARS: Final = 1000  # of an alert's message
CODES: Final = 64  # trouble codes in a frame
CODE_CHARS: Final = 16  # of a trouble code: SAE J2012 has 5, with its failure type 7
ITEMS: Final = 4096  # elements of an array or keys of an object in a crash record
TEXT_CHARS: Final = 256  # of any other text in a crash record, keys too
SHOWN: Final = 40


def encode(frame: Frame) -> bytes:
    """The frame's bytes on the wire. Floats are written as they are: round to the signal's step before."""
    return orjson.dumps(frame)


def decode(raw: bytes) -> Frame:
    """The frame in ``raw``, checked whole; unknown keys are allowed and kept (a newer device may say more).

    Raises ContractError with the reason ``too_large``, ``bad_json``, ``bad_schema``, ``bad_identity``,
    ``bad_clock``, ``bad_shape`` or ``bad_value``.
    """
    frame = load_object(raw, MAX_BYTES)
    check_identity(frame)
    require_int(frame, "t0_ms", 0, MAX_INT, "bad_clock")
    require_int(frame, "sent_ms", 0, MAX_INT, "bad_clock")
    require_int(frame, "dt_ms", 1, MAX_DT_MS, "bad_clock")
    require_int(frame, "n", 1, MAX_SAMPLES, "bad_shape")
    _check_signals(frame, frame["n"])
    return frame


def load_object(raw: bytes, max_bytes: int) -> Frame:
    """The JSON object in ``raw``: size first, then strict JSON (no NaN, no bad UTF-8, bounded depth)."""
    if len(raw) > max_bytes:
        raise ContractError("too_large", f"{len(raw)} bytes, at most {max_bytes}")
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise ContractError("bad_json", str(error)) from error
    if type(value) is not dict:
        raise ContractError("bad_json", f"a JSON object was expected, not {type(value).__name__}")
    deep = raw.count(b"[") + raw.count(b"{") > MAX_DEPTH
    if deep and any(depth == MAX_DEPTH for depth, _ in enumerate(_levels(value))):
        raise ContractError("bad_json", f"nested deeper than {MAX_DEPTH} levels")
    return value


def _levels(message: Frame) -> Iterator[list[Any]]:
    """The objects and arrays of a message, level by level: by calls one could be too deep for us."""
    level: list[Any] = [message]
    while level:
        yield level
        inner = (child for node in level for child in (node.values() if type(node) is dict else node))
        level = [child for child in inner if type(child) in (dict, list)]


def check_identity(message: Frame) -> None:
    """Schema number, vehicle id, boot id and sequence number of any uplink message."""
    check_schema(message)
    check_vehicle(message)
    require_int(message, "boot_id", 0, MAX_INT, "bad_identity")
    require_int(message, "seq", 0, MAX_INT, "bad_identity")


def check_schema(message: Frame) -> None:
    """The schema number of any message."""
    if message.get("schema") != SCHEMA or type(message["schema"]) is not int:
        raise ContractError("bad_schema", f"schema {shown(message.get('schema'))}, {SCHEMA} is supported")


def check_vehicle(message: Frame) -> None:
    """The vehicle id of any message."""
    vehicle_id = message.get("vehicle_id")
    if type(vehicle_id) is not str or VEHICLE_ID.fullmatch(vehicle_id) is None:
        raise ContractError("bad_identity", f"vehicle_id {shown(vehicle_id)} is not a 17-character VIN")


def require_int(message: Frame, key: str, low: int, high: int, reason: str) -> int:
    """The integer under ``key``, within low..high; raises ContractError with ``reason`` otherwise."""
    value = message.get(key)
    if type(value) is not int or not low <= value <= high:
        raise ContractError(reason, f"{key} {shown(value)} is not an integer in {low}..{high}")
    return value


def _check_signals(frame: Frame, n: int) -> None:
    for name in _FAST_NAMES:
        values = frame.get(name)
        if values is None:
            continue
        if type(values) is not list or len(values) != n:
            raise ContractError("bad_shape", f"{name} is not an array of {n} samples")
        if not _NUMERIC.issuperset(map(type, values)):
            raise ContractError("bad_value", f"{name} holds something that is not a number or null")
    for name, kinds, what in _PLAIN:
        if type(frame.get(name)) not in kinds:
            raise ContractError("bad_value", f"{name} {shown(frame[name])} is not {what}")
    for name in _CODES:
        if frame.get(name) is not None:
            _check_codes(name, frame[name])


def shown(value: Any) -> str:
    """A value as it stands in the detail of a dead letter: no longer than can be read."""
    text = repr(value)
    length = len(value) if type(value) is str else len(text)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}... ({length} characters)"


def check_text(message: dict[str, Any], key: str, most: int, *, reason: str = "bad_value") -> None:
    """Raise ContractError unless ``key`` holds a text of 1 to ``most`` characters that a database stores."""
    value = message.get(key)
    if type(value) is not str or not 0 < len(value) <= most or "\0" in value:
        detail = f"{key} {shown(value)} is not a text of 1 to {most} characters without U+0000"
        raise ContractError(reason, detail)


def _check_codes(name: str, codes: Any) -> None:
    if type(codes) is not list or not all(type(code) is str for code in codes):
        raise ContractError("bad_value", f"{name} is not an array of strings")
    if len(codes) > CODES or any(len(code) > CODE_CHARS or "\0" in code for code in codes):
        most = f"{CODES} codes of {CODE_CHARS} characters without U+0000"
        raise ContractError("bad_value", f"{name}: at most {most}")


def check_bounded(message: dict[str, Any]) -> None:
    """Raise ContractError for a text, an array or a number anywhere in ``message`` that is out of bounds."""
    for node in chain.from_iterable(_levels(message)):
        if len(node) > ITEMS:
            raise ContractError("bad_shape", f"{len(node)} elements together, at most {ITEMS}")
        for child in [*node, *node.values()] if type(node) is dict else node:
            kind = type(child)
            if kind is str and (len(child) > TEXT_CHARS or "\0" in child):
                what = f"not a text of at most {TEXT_CHARS} characters without U+0000"
                raise ContractError("bad_value", f"{shown(child)} is {what}")
            if kind in (int, float) and not -MAX_INT <= child <= MAX_INT:
                raise ContractError("bad_value", f"{shown(child)} is not a number within 2^53")


Validator = Callable[[bytes], bool]
USUAL_SAMPLES: Final = 10

_NO: Final = (DecodeError, UnicodeDecodeError, RecursionError)


def validator(vehicle_id: str, samples: int = USUAL_SAMPLES) -> Validator:
    """Whether a frame of ``samples`` samples is valid, checked as it is parsed: for who needs no values.

    It says yes only where ``decode`` would. A no proves nothing (an unknown key, an escape, other samples):
    ask ``decode`` then, which has the reason. ``vehicle_id`` is known to be well formed.
    """
    decode = decoder(samples)

    def passes(raw: bytes) -> bool:
        try:
            plain = len(raw) <= MAX_BYTES and raw.isascii() and b"\\" not in raw
            return plain and decode(raw).vehicle_id == vehicle_id
        except _NO:
            return False

    return passes


@cache
def decoder(samples: int) -> Callable[[bytes], Any]:
    """Reads sound frames of exactly ``samples`` samples; raises for all others.

    ``vehicle_id`` may be any string: the caller compares it. A key that comes twice must be right twice.
    """

    def whole(low: int, high: int) -> Any:
        return Annotated[int, Meta(ge=low, le=high)]

    number: Any = whole(0, MAX_INT)
    code: Any = Annotated[str, Meta(max_length=CODE_CHARS)]
    head = [
        ("schema", whole(SCHEMA, SCHEMA)), ("vehicle_id", str), ("boot_id", number), ("seq", number),
        ("t0_ms", number), ("dt_ms", whole(1, MAX_DT_MS)),
        ("n", whole(max(samples, 1), min(samples, MAX_SAMPLES))), ("sent_ms", number),
    ]  # fmt: skip
    column: Any = Annotated[list[float | None], Meta(min_length=samples, max_length=samples)]
    codes: Any = Annotated[list[code], Meta(max_length=CODES)]
    kinds: dict[str, Any] = {"number": float, "flag": bool, "codes": codes}
    signals = [(s.name, column | None, None) for s in FAST]
    signals += [(s.name, kinds[s.kind] | None, None) for s in SLOW]
    sound = defstruct(f"SoundFrame{samples}", [*head, *signals], forbid_unknown_fields=True, gc=False)
    return json.Decoder(sound).decode
