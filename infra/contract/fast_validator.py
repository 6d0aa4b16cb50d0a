"""Whether a frame is valid, checked while it is parsed: for those that forward it and need no values.

``frame.decode`` builds a dictionary and then looks at each key; here the contract is a type, and a decoder in
C checks it as it reads. A validator says yes only where ``decode`` would say yes. Where it says no, nothing
is proven: there may be a key that is not of this schema, an escape in a string, a text that is not plain
ASCII, another number of samples, or a wrong value. Ask ``decode`` then: it decides, and has the reason.
"""

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Final

from msgspec import DecodeError, Meta, defstruct, json

from infra.contract.frame import CODE_CHARS, CODES, MAX_BYTES, MAX_DT_MS, MAX_INT, MAX_SAMPLES, SCHEMA
from infra.contract.signals import FAST, SLOW

Validator = Callable[[bytes], bool]
USUAL_SAMPLES: Final = 10

_NO: Final = (DecodeError, UnicodeDecodeError, RecursionError)


def validator(vehicle_id: str, samples: int = USUAL_SAMPLES) -> Validator:
    """The validator for frames of ``samples`` samples of one vehicle, whose id is known to be well formed."""
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
    kinds: dict[str, Any] = {
        "number": float,
        "flag": bool,
        "codes": Annotated[list[code], Meta(max_length=CODES)],
    }
    signals = [(s.name, column | None, None) for s in FAST] + [
        (s.name, kinds[s.kind] | None, None) for s in SLOW
    ]
    sound = defstruct(f"SoundFrame{samples}", [*head, *signals], forbid_unknown_fields=True, gc=False)
    return json.Decoder(sound).decode
