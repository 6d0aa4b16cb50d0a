"""Which faults a run shall have: by count, share, rate or vehicle; checked before anything starts."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from edge_simulator.faults.fault_kind import Span
from edge_simulator.faults.fault_table import KINDS
from infra.contract.errors import ConfigError

SEVERITY: Span = (0.6, 1.0)
HOW_MANY = ("count", "share", "rate", "vehicle")
FORMS = "NAME=3 (vehicles), NAME=0.02 (share of the fleet) or NAME@5 (a 1000 vehicle-hours)"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Faults of one name. Exactly one of ``count``, ``share``, ``rate`` and ``vehicle`` says how many.

    ``share`` is of the fleet, 0..1; ``rate`` is events in 1000 vehicle-hours of vehicles that can have it, by
    a Poisson process over the whole run; ``vehicle`` is the index of one that has it. ``onset_s`` counts
    from the run's start. ``lasts_s`` after full effect the fault is gone. Raises ConfigError.
    """

    name: str
    count: int | None = None
    share: float | None = None
    rate: float | None = None
    onset_s: Span | None = None
    severity: Span = SEVERITY
    vehicle: int | None = None
    lasts_s: Span | None = None

    def __post_init__(self) -> None:
        if self.name not in KINDS:
            raise ConfigError(f"faults: no fault {self.name!r}; there are {', '.join(KINDS)}")
        given = [key for key in HOW_MANY if getattr(self, key) is not None]
        if len(given) != 1:
            raise ConfigError(f"fault {self.name}: exactly one of {', '.join(HOW_MANY)} is wanted")
        for key in ("count", "vehicle"):
            self._refuse(
                key, lambda v: isinstance(v, int) and not isinstance(v, bool) and v >= 0, "0, 1, 2 ..."
            )
        self._refuse("share", lambda v: _is_number(v) and 0 <= v <= 1, "a share of 0..1")
        self._refuse("rate", lambda v: _is_number(v) and v > 0, "events in 1000 vehicle-hours, more than 0,")
        self._refuse("onset_s", _is_span, "(from, to) in seconds after the start")
        self._refuse("lasts_s", _is_span, "(from, to) in seconds")
        self._refuse("severity", lambda v: _is_span(v) and v[1] <= 1, "(from, to) within 0..1")
        if self.rate is not None and self.onset_s is not None:
            raise ConfigError(
                f"fault {self.name}: a rate goes on all the time, onset_s has no meaning with it"
            )

    def _refuse(self, key: str, fits: Any, wanted: str) -> None:
        value = getattr(self, key)
        if value is not None and not fits(value):
            raise ConfigError(f"fault {self.name}: {key} {value!r}: {wanted} is wanted")


def parse(text: str) -> Wanted:
    """``crash=3`` (vehicles), ``crash=0.02`` (share) or ``crash@5`` (rate); raises ConfigError."""
    name, sign, amount = text.partition("@" if "@" in text else "=")
    if name not in KINDS:
        raise ConfigError(f"--fault {text}: no fault {name!r}; there are {', '.join(KINDS)}")
    try:
        value = float(amount)
    except ValueError:
        value = -1.0
    if sign == "@" and 0 < value < float("inf"):
        return Wanted(name, rate=value)
    if sign == "=" and 0 < value < 1:
        return Wanted(name, share=value)
    if sign == "=" and value >= 0 and value.is_integer():
        return Wanted(name, count=int(value))
    raise ConfigError(f"--fault {text}: wanted is {FORMS.replace('NAME', name)}")


def read(entry: str | Mapping[str, Any]) -> Wanted:
    """An entry of a scenario file: text as for ``parse``, or Wanted's keys; raises ConfigError."""
    if isinstance(entry, str):
        return parse(entry)
    known = list(Wanted.__dataclass_fields__)
    for key in entry:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise ConfigError(f"faults: unknown key {key!r}; {hint}")
    if "name" not in entry:
        raise ConfigError(f"faults: an entry without a name; there are {', '.join(KINDS)}")
    values: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in entry.items()}
    return Wanted(**values)


def read_all(entries: Iterable[str | Mapping[str, Any]]) -> tuple[Wanted, ...]:
    """All entries of a scenario file."""
    return tuple(read(entry) for entry in entries)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value < float("inf")


def _is_span(value: Any) -> bool:
    pair = isinstance(value, tuple) and len(value) == 2 and all(_is_number(v) for v in value)
    return pair and 0 <= value[0] <= value[1]
