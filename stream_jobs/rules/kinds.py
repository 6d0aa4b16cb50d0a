"""The kinds of rules that last: what each asks for in the rules file, and its figures; pure.

Seconds are event time unless said. Every kind remembers a bounded amount of each vehicle.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

PER_S: Final = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86_400.0}
GAP_S: Final = 120.0
"""Two frames further apart than this say nothing of the time between them."""


@dataclass(frozen=True, slots=True)
class Level:
    """Beyond the limit for ``raise_for_s``; each frame's value, or with ``mean_s`` the mean of so long."""

    raise_for_s: float = 0.0
    mean_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Slope:
    """The value's change over ``span_s``, per ``per_s`` s, beyond the limit by ``sure`` standard errors."""

    span_s: float
    per_s: float
    sure: float = 0.0


@dataclass(frozen=True, slots=True)
class Baseline:
    """The value against the vehicle's own history, by name where the rule has names.

    ``by``: ``z`` in standard deviations, ``share`` of it, ``difference``. ``against``: ``mean`` (moving, with
    the time constant ``memory_s``) or a quantile ``p01`` to ``p99`` of all that was learned. Pauses
    up to ``pause_s``, in which the condition lets no frame be judged, do not begin ``raise_for_s`` anew.
    """

    raise_for_s: float = 0.0
    by: str = "z"
    against: str = "mean"
    warm_up: int = 300
    memory_s: float = 604_800.0
    steady_s: float = 0.0
    mean_s: float = 0.0
    pause_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Count:
    """At least ``times`` beginnings within ``span_s``; absent for ``absent_s``, it begins anew.

    ``apart``: each name is an alert of its own. ``reversal``: what counts is each time that the value, having
    fallen by so much, rises by so much while the condition holds.
    """

    times: int = 1
    span_s: float = 86_400.0
    absent_s: float = 5.0
    apart: bool = False
    reversal: float | None = None


@dataclass(frozen=True, slots=True)
class Fence:
    """A circle (``radius_m`` around its one point) or a polygon of at least 3 points (lat, lon), degrees."""

    name: str
    points: tuple[tuple[float, float], ...]
    radius_m: float | None = None


@dataclass(frozen=True, slots=True)
class Geofence:
    """In (``enter``) or out of (``exit``) a fence; a border is crossed ``margin_m`` beyond it."""

    fences: tuple[Fence, ...]
    on: str = "enter"
    margin_m: float = 50.0


@dataclass(frozen=True, slots=True)
class Silence:
    """Nothing received for ``silent_for_s`` of the receive clock after a frame where the condition held."""

    silent_for_s: float


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The very same value for ``raise_for_s`` and in at least ``frames`` frames."""

    raise_for_s: float
    frames: int = 30


@dataclass(frozen=True, slots=True)
class Clone:
    """Two boots whose sample times and receive times both overlap by more than ``overlap_s``."""

    overlap_s: float


@dataclass(frozen=True, slots=True)
class Stateful:
    """What a rule of the query ``vehicles`` has besides its expressions.

    ``clear``: Spark SQL (plain level) that ends it; ``clear_level``: a number for kinds with a value of their
    own. ``armed``: Spark SQL that must have held for ``armed_for_s`` before the rule is raised;
    pauses of up to ``armed_pause_s`` do not begin that anew.
    ``escalate``: further limits with their severities, from the nearest on.
    """

    spec: Level | Slope | Baseline | Count | Geofence | Silence | Unchanged | Clone
    clear: str | None = None
    clear_level: float | None = None
    armed: str | None = None
    armed_for_s: float = 0.0
    armed_pause_s: float = 0.0
    learn: str | None = None
    names: str | None = None
    gap_s: float = GAP_S
    escalate: tuple[tuple[float, str], ...] = field(default=())


KINDS: Final[dict[str, type]] = {
    "level": Level, "slope": Slope, "baseline": Baseline, "count": Count, "geofence": Geofence,
    "silence": Silence, "unchanged": Unchanged, "clone": Clone,
}  # fmt: skip
NO_VALUE: Final = "CAST(NULL AS DOUBLE)"
"""The value of rules whose kind makes one itself."""
VALUELESS: Final = ("count", "geofence", "silence", "clone")
"""Kinds that make their own value: the rules file need not give one."""
