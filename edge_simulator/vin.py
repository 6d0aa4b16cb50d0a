"""Vehicle identification numbers by form (ISO 3779), with the check digit in position 9."""

import hashlib

ALPHABET = "ABCDEFGHJKLMNPRSTUVWXYZ0123456789"  # without I, O and Q, which look like digits

_VALUES = dict(zip("ABCDEFGHJKLMNPRSTUVWXYZ", "12345678123457923456789", strict=True))
_WEIGHTS = (8, 7, 6, 5, 4, 3, 2, 10, 0, 9, 8, 7, 6, 5, 4, 3, 2)


def check_digit(vin: str) -> str:
    """The check digit of a 17-character number; what stands in position 9 does not matter (49 CFR 565.15)."""
    total = sum(w * int(_VALUES.get(c, c)) for w, c in zip(_WEIGHTS, vin, strict=True))
    return "0123456789X"[total % 11]


def make(key: str, maker: str = "WDG") -> str:
    """A number that follows from ``key`` alone. ``maker`` is the world manufacturer identifier (made up)."""
    digest = hashlib.sha256(key.encode()).digest()
    tail = "".join(ALPHABET[byte % len(ALPHABET)] for byte in digest[:13])
    draft = f"{maker}{tail[:5]}0{tail[5:]}"
    return draft[:8] + check_digit(draft) + draft[9:]
