"""How long a text, an array and a crash record may be, how large a number: what a device sends is bounded.

The bridge enforces it, the event store once more for what came into Kafka by another way, and the tables'
CHECKs repeat it. PostgreSQL stores no U+0000; JSON's lone surrogates are refused with the JSON.
"""

from __future__ import annotations

from typing import Any, Final

from infra.contract.errors import ContractError

MAX_INT: Final = 2**53
"""Integers above this lose digits in other JSON readers."""
LAST_MS: Final = 253_402_300_799_999
"""The end of the year 9999, ms since 1970: Python and many a reader know no later time."""
ID_CHARS: Final = 64
"""Of a crash id, a model, a profile."""
RULE_CHARS: Final = 128
"""Of a rule with the part of it that a finding is about, and of an alert's id."""
MESSAGE_CHARS: Final = 1000
"""Of an alert's message."""
CODES: Final = 64
"""Trouble codes in a frame."""
CODE_CHARS: Final = 16
"""Of a trouble code: SAE J2012 has 5, with its failure type 7."""
ITEMS: Final = 4096
"""Elements of an array or keys of an object in a crash record."""
TEXT_CHARS: Final = 256
"""Of any other text in a crash record, keys too."""
SHOWN: Final = 40


def shown(value: Any) -> str:
    """A value as it stands in the detail of a dead letter: no longer than can be read."""
    text = repr(value)
    length = len(value) if type(value) is str else len(text)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}... ({length} characters)"


def check_text(message: dict[str, Any], key: str, most: int, *, reason: str = "bad_value") -> None:
    """Raise ContractError unless ``key`` holds a text of 1 to ``most`` characters that a database stores."""
    value = message.get(key)
    if type(value) is not str or not 0 < len(value) <= most or "\0" in value:
        raise ContractError(
            reason, f"{key} {shown(value)} is not a text of 1 to {most} characters without U+0000"
        )


def check_codes(name: str, codes: Any) -> None:
    """Raise ContractError unless ``codes`` is an array of trouble codes."""
    if type(codes) is not list or not all(type(code) is str for code in codes):
        raise ContractError("bad_value", f"{name} is not an array of strings")
    if len(codes) > CODES or any(len(code) > CODE_CHARS or "\0" in code for code in codes):
        raise ContractError(
            "bad_value", f"{name}: at most {CODES} codes of {CODE_CHARS} characters without U+0000"
        )


def check_bounded(message: dict[str, Any]) -> None:
    """Raise ContractError for a text, an array or a number anywhere in ``message`` that is out of bounds."""
    level: list[Any] = [message]
    while level:
        inner: list[Any] = []
        for node in level:
            if len(node) > ITEMS:
                raise ContractError("bad_shape", f"{len(node)} elements together, at most {ITEMS}")
            children = [*node, *node.values()] if type(node) is dict else node
            inner += [child for child in children if not _is_bounded(child)]
        level = inner


def _is_bounded(value: Any) -> bool:
    """Whether a plain value is within bounds; False for an array or object, which is looked into."""
    kind = type(value)
    if kind is str and (len(value) > TEXT_CHARS or "\0" in value):
        raise ContractError(
            "bad_value", f"{shown(value)} is not a text of at most {TEXT_CHARS} characters without U+0000"
        )
    if kind in (int, float) and not -MAX_INT <= value <= MAX_INT:
        raise ContractError("bad_value", f"{shown(value)} is not a number within 2^53")
    return kind not in (dict, list)
