"""Units that a recording may use, as factor and offset to the contract's unit of a signal."""

from __future__ import annotations

from infra.contract.errors import ConfigError
from infra.contract.signals import BY_NAME

_FAHRENHEIT = (5 / 9, -160 / 9)
_TO: dict[str, dict[str, tuple[float, float]]] = {
    "km/h": {
        "km/h": (1, 0), "kmh": (1, 0), "kph": (1, 0), "mph": (1.609344, 0), "m/s": (3.6, 0),
        "knots": (1.852, 0), "kn": (1.852, 0), "kt": (1.852, 0), "ft/s": (1.09728, 0),
    },
    "m": {
        "m": (1, 0), "km": (1000, 0), "miles": (1609.344, 0), "mi": (1609.344, 0), "ft": (0.3048, 0),
        "feet": (0.3048, 0),
    },
    "degC": {
        "c": (1, 0), "degc": (1, 0), "celsius": (1, 0), "f": _FAHRENHEIT, "degf": _FAHRENHEIT,
        "fahrenheit": _FAHRENHEIT, "k": (1, -273.15), "kelvin": (1, -273.15),
    },
    "kPa": {
        "kpa": (1, 0), "pa": (0.001, 0), "hpa": (0.1, 0), "mbar": (0.1, 0), "bar": (100, 0),
        "psi": (6.894757, 0),
    },
    "Pa": {"pa": (1, 0), "hpa": (100, 0), "mbar": (100, 0), "kpa": (1000, 0), "psi": (6894.757, 0)},
    "V": {"v": (1, 0), "mv": (0.001, 0)},
    "A": {"a": (1, 0), "ma": (0.001, 0)},
    "%": {"%": (1, 0), "percent": (1, 0), "ratio": (100, 0)},
    "deg": {"deg": (1, 0), "rad": (57.29577951308232, 0)},
    "deg/s": {"deg/s": (1, 0), "rad/s": (57.29577951308232, 0)},
    "m/s^2": {"m/s^2": (1, 0), "m/s2": (1, 0), "g": (9.80665, 0)},
    "l/h": {"l/h": (1, 0), "gal/h": (3.785411784, 0), "ml/s": (3.6, 0)},
    "g/s": {"g/s": (1, 0), "kg/h": (1 / 3.6, 0)},
    "rpm": {"rpm": (1, 0), "1/min": (1, 0), "1/s": (60, 0), "rad/s": (9.549296585513721, 0)},
}  # fmt: skip


def conversion(signal: str, unit: str) -> tuple[float, float]:
    """Factor and offset from ``unit`` to the signal's own; raises ConfigError with the units there are."""
    known = _TO.get(BY_NAME[signal].unit, {})
    found = known.get(unit.strip().lower())
    if found is None:
        choices = ", ".join(known) if known else "none: the signal has no unit"
        raise ConfigError(f"no such unit {unit!r} for {signal}; there are: {choices}")
    return found
