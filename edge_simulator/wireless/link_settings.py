"""What the radio, the on-board store and the device clocks do wrong: plain fields, checked when made."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from infra.contract.errors import ConfigError

Which = Literal["oldest", "newest"]


@dataclass(frozen=True, slots=True)
class LinkShares:
    """Mishaps of link and clock; all are off by default.

    The first seven are shares of frames, 0..1, and exclude each other: a frame meets at most one.
    """

    late: float = 0.0
    late_beyond: float = 0.0
    duplicate: float = 0.0
    disorder: float = 0.0
    lost: float = 0.0
    clock_ahead: float = 0.0
    clock_unset: float = 0.0
    poison: float = 0.0
    """Share of messages added that nobody can understand; not part of the frames."""

    outage_share: float = 0.0
    """Share of vehicles that lose the link, again and again (once with ``outage_at_s``)."""
    outage_at_s: float | None = None
    """When all of them lose it, after the run's start; None: each at its own times."""
    outage_gap_s: float = 600.0
    """Mean time from the end of a vehicle's outage to its next one."""
    outage_median_s: float = 45.0
    """Median length of an outage, log-normal ..."""
    outage_spread: float = 0.8
    """... with this standard deviation of its logarithm."""
    outage_min_s: float = 0.0
    outage_max_s: float = 0.0
    """More than 0: lengths are drawn evenly from ``outage_min_s`` to this instead."""
    dead_zone_lat_deg: float = 0.0
    dead_zone_lon_deg: float = 0.0
    dead_zone_radius_m: float = 0.0
    """More than 0: no vehicle has a link within this of the point."""
    dead_zone_from_s: float = 0.0
    dead_zone_to_s: float = math.inf

    store_frames: int = 3600
    """Frames a vehicle keeps while it has no link."""
    store_bytes: int = 0
    """Bytes it keeps at most; 0: only the frames count."""
    store_age_s: float = 86_400.0
    """What is older is dropped."""
    store_full: Which = "oldest"
    """Which frame goes when the store is full."""
    upload_rate: float = 20.0
    """Stored frames a second that a vehicle sends beside its live ones, once the link is back."""
    upload_order: Which = "oldest"

    clock_offset_s: float = 0.0
    """Standard deviation of the error of a clock that runs free."""
    clock_drift_ppm: float = 0.0
    """Standard deviation of every clock's rate."""
    clock_far_share: float = 0.0
    """Share of the free clocks that are off by ``clock_far_s`` and ``clock_far_ppm`` instead."""
    clock_far_s: float = 180.0
    clock_far_ppm: float = 200.0
    gnss_sync: float = 0.8
    """Share of devices that set their clock by GNSS time; the others run free."""
    clock_boot_share: float = 0.0
    """Share of starts after which the clock says 1970 until the first fix."""
    clock_fix_min_s: float = 5.0
    clock_fix_max_s: float = 60.0

    clone_share: float = 0.0
    """Share of vehicles whose identity a second device uses, elsewhere."""

    def __post_init__(self) -> None:
        for name in _SHARES:
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{_option(name)} {getattr(self, name)}: a share of 0..1 is wanted")
        if sum(self.fates) > 1:
            raise ConfigError(
                "the shares of late, duplicate, disorder, lost and clock faults exceed 1 together"
            )
        for name in _AMOUNTS:
            if not getattr(self, name) >= 0:
                raise ConfigError(f"{_option(name)} {getattr(self, name)}: 0 or more is wanted")
        for name in _POSITIVE:
            if not getattr(self, name) > 0:
                raise ConfigError(f"{_option(name)} {getattr(self, name)}: more than 0 is wanted")
        for name in ("store_full", "upload_order"):
            if getattr(self, name) not in ("oldest", "newest"):
                raise ConfigError(f"{_option(name)} {getattr(self, name)}: oldest or newest is wanted")
        self._check_spans()

    def _check_spans(self) -> None:
        if self.outage_at_s is not None and not self.outage_at_s >= 0:
            raise ConfigError(f"--outage-at-s {self.outage_at_s:g}: 0 or more is wanted")
        pairs = (
            ("clock_fix_min_s", "clock_fix_max_s"),
            ("dead_zone_from_s", "dead_zone_to_s"),
            *((("outage_min_s", "outage_max_s"),) if self.outage_min_s or self.outage_max_s else ()),
        )
        for low, high in pairs:
            least, most = getattr(self, low), getattr(self, high)
            if least > most:
                raise ConfigError(f"{_option(low)} {least:g} is more than {_option(high)} {most:g}")
        if not (abs(self.dead_zone_lat_deg) <= 90 and abs(self.dead_zone_lon_deg) <= 180):
            raise ConfigError(
                f"dead zone at {self.dead_zone_lat_deg}, {self.dead_zone_lon_deg}: no such coordinate"
            )

    @property
    def fates(self) -> tuple[float, ...]:
        """The exclusive shares in the order of :data:`edge_simulator.wireless.link.FATES`."""
        return (
            self.late, self.late_beyond, self.duplicate, self.disorder, self.lost,
            self.clock_ahead, self.clock_unset,
        )  # fmt: skip

    @property
    def has_outages(self) -> bool:
        """Whether any vehicle can lose its link."""
        return self.outage_share > 0 or self.dead_zone_radius_m > 0

    @property
    def has_clock_errors(self) -> bool:
        """Whether any device's clock can be wrong on its own (not by a frame's fate)."""
        free = self.gnss_sync < 1 and (self.clock_offset_s > 0 or self.clock_far_share > 0)
        return free or self.clock_drift_ppm > 0 or self.clock_boot_share > 0


_SHARES = (
    "late", "late_beyond", "duplicate", "disorder", "lost", "clock_ahead", "clock_unset", "poison",
    "outage_share", "clock_far_share", "gnss_sync", "clock_boot_share", "clone_share",
)  # fmt: skip
_AMOUNTS = (
    "outage_spread", "outage_min_s", "outage_max_s", "dead_zone_radius_m", "dead_zone_from_s", "store_bytes",
    "clock_offset_s", "clock_drift_ppm", "clock_far_s", "clock_far_ppm", "clock_fix_min_s",
)  # fmt: skip
_POSITIVE = ("outage_gap_s", "outage_median_s", "store_frames", "store_age_s", "upload_rate")


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def from_mapping(raw: Mapping[str, Any], where: str) -> LinkShares:
    """The settings in a mapping of field names, as a scenario file has them.

    Raises ConfigError naming ``where`` and the key for an unknown key or a value of the wrong kind.
    """
    known = {f.name: f.default for f in fields(LinkShares)}
    for key, value in raw.items():
        if key not in known:
            near = difflib.get_close_matches(str(key), known, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ConfigError(f"{where}: there is no link setting {key!r}{hint}")
        wanted = (str,) if isinstance(known[key], str) else (int, float)
        whole = type(known[key]) is int and type(value) is not int
        if whole or isinstance(value, bool) or not isinstance(value, wanted):
            kind = "a word" if wanted == (str,) else "a whole number" if whole else "a number"
            raise ConfigError(f"{where}: {key} {value!r}: {kind} is wanted")
    try:
        return LinkShares(**raw)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
