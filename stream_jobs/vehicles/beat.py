"""What one frame says of its vehicle, and what a part that remembers makes of it; pure.

Beats and readings are msgspec structs: they are made by the hundred thousand, and a beat that is held back
until the one before it comes crosses a checkpoint as it is. To change one: ``msgspec.structs.replace``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

Plain = int | float | str | bool | None | tuple["Plain", ...]
"""What a memory is made of: it must cross a checkpoint as plain values."""
Memory = tuple[Plain, ...]

if TYPE_CHECKING:
    Stored = Memory | None
else:
    _Leaf = int | float | str | bool | None
    _Tuple1 = tuple[_Leaf, ...]
    _Tuple2 = tuple[_Leaf | _Tuple1, ...]
    _Tuple3 = tuple[_Leaf | _Tuple2, ...]
    _Tuple4 = tuple[_Leaf | _Tuple3, ...]
    _Tuple5 = tuple[_Leaf | _Tuple4, ...]
    _Tuple6 = tuple[_Leaf | _Tuple5, ...]
    Stored = tuple[_Leaf | _Tuple6, ...] | None
"""A memory as a checkpoint gives it back: tuples up to seven deep (a baseline that is armed has six), so that
no Python has to make them of lists.
"""


class Reading(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One rule over one frame; None where the frame does not tell.

    ``holds``: its condition is true and its value beyond the limit (kinds that work on a value of their own:
    the condition alone). ``clears``: the value is back behind the level that ends it. ``armed``: what the
    rule calls ``while``. ``learns``: whether a baseline takes the value in. ``names``: what the reading is
    about: trouble codes, the gear, the wheel.
    """

    holds: bool | None
    clears: bool | None
    value: float | None
    limit: float | None
    armed: bool | None = None
    learns: bool | None = None
    names: tuple[str, ...] = ()


class Said(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What all rules say of one frame, in their order; said.py makes a rule's Reading of it.

    ``codes``: a byte a rule, its flags and whether its value is known; ``values`` and ``limits``: NaN where
    not known; ``names``: those of all rules, ``named``: how many are each rule's. All empty without rules.
    """

    codes: bytes = b""
    values: list[float] = []
    limits: list[float] = []
    named: list[int] = []
    names: list[str] = []


NOTHING_SAID: Final = Said()


class HarshRun(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Samples of one frame on end that are beyond the class's threshold for ``what``; of any length.

    ``peak_mps2`` is a magnitude, ``speed_kmh`` that of the first sample.
    """

    what: str
    from_ms: int
    to_ms: int
    peak_mps2: float
    speed_kmh: float


class Beat(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One frame, its samples reduced; times in ms since 1970, None where not known.

    ``end_ms`` is where its last sample's time ends (``t0_ms + n * dt_ms``); position, heading and speed are
    the last known ones in it. ``said`` is what the rules of the query say.
    ``moving_from_ms`` and ``moving_to_ms``: when its first sample on the move begins, its last one ends.
    """

    vehicle_id: str
    boot_id: int
    seq: int
    t0_ms: int
    end_ms: int
    received_ms: int
    ignition_on: bool | None
    lat_deg: float | None
    lon_deg: float | None
    heading_deg: float | None
    speed_kmh: float | None
    speed_max_kmh: float | None
    distance_m: float | None
    fuel_l: float | None
    energy_kwh: float | None
    said: Said
    odometer_m: float | None = None
    moving_ms: int | None = None
    moving_from_ms: int | None = None
    moving_to_ms: int | None = None
    speeding_ms: int | None = None
    vehicle_class: str | None = None
    powertrain: str | None = None
    harsh: tuple[HarshRun, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """What a detector found at ``event_ms``; ``since_ms`` is when it began to hold."""

    event_ms: int
    since_ms: int
    value: float | None
    limit: float | None
    severity: str | None = None
    """None: the rule's own."""
    detail: str | None = None
    """Words for people that the rule's message does not have: the fence's name, the wheel."""
    apart: str | None = None
    """What of the rule is an alert of its own (a trouble code, a fence): that alert is ``rule.apart``."""
    ended: bool = False
    """No finding but an end: the alert, if one is active, is over at ``event_ms``."""


class Detector(Protocol):
    """One rule over one vehicle's beats, which come in the order of the vehicle's time, each once.

    A memory is None before the first beat, and where there is nothing to remember. While a rule is raised it
    is found again often enough that ``clear_for`` (stream_jobs/alerts.py) does not end its alert.
    """

    @property
    def always(self) -> bool:
        """False: a beat need not be shown to it while its memory is None and the reading does not hold."""
        ...

    def mute(self, reading: Reading) -> bool:
        """True: whatever its memory, it changes nothing and finds nothing. Decided by flags and whether there
        is a value alone, not by what numbers there are.
        """
        ...

    @property
    def unordered(self) -> bool:
        """True: it is shown every frame once as it arrives, before the sequencer, those left out too."""
        ...

    @property
    def timed(self) -> bool:
        """False: ``due_ms`` is never anything."""
        ...

    def step(
        self, memory: Memory | None, beat: Beat, reading: Reading
    ) -> tuple[Memory | None, Sequence[Found]]:
        """The memory after one more beat, and what it found."""
        ...

    def after_pause(self, memory: Memory | None, pause_ms: int) -> Memory | None:
        """The memory of a rule that holds and waits, after a pause that does not count; else None."""
        ...

    def due_ms(self, memory: Memory | None) -> int | None:
        """When (receive clock) it wants to be asked again although no beat came; None: never."""
        ...

    def expire(self, memory: Memory, now_ms: int) -> tuple[Memory | None, Sequence[Found]]:
        """The memory and what it found once the receive clock has reached ``now_ms`` without a beat."""
        ...
