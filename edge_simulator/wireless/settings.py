"""What the radio, the on-board store and the device clocks do wrong: plain fields, checked when made."""

import math
from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, model_validator

Amount = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]
Share = Annotated[Amount, Field(le=1)]
Positive = Annotated[float, Field(gt=0)]
Which = Literal["oldest", "newest"]

FATES = ("late", "late_beyond", "duplicate", "disorder", "lost", "clock_ahead", "clock_unset")
"""What can happen to a frame; the settings of these names are their shares."""


class LinkShares(BaseModel, frozen=True, strict=True, extra="forbid"):
    """Mishaps of link and clock; all are off by default.

    The first seven are shares of frames and exclude each other: a frame meets at most one.
    """

    late: Share = 0.0
    late_beyond: Share = 0.0
    duplicate: Share = 0.0
    disorder: Share = 0.0
    lost: Share = 0.0
    clock_ahead: Share = 0.0
    clock_unset: Share = 0.0
    poison: Share = 0.0  # share of messages added that nobody can understand; not part of the frames

    outage_share: Share = 0.0  # share of vehicles that lose the link, again and again or at ``outage_at_s``
    outage_at_s: Amount | None = None  # when all of them lose it once; None: each at its own times
    outage_gap_s: Positive = 600.0  # mean time from the end of a vehicle's outage to its next one
    outage_median_s: Positive = 45.0  # median length of an outage, log-normal ...
    outage_spread: Amount = 0.8  # ... with this standard deviation of its logarithm.
    outage_min_s: Amount = 0.0
    outage_max_s: float = 0.0  # more than 0: lengths are drawn evenly from ``outage_min_s`` to this instead
    dead_zone_lat_deg: float = Field(0.0, ge=-90, le=90, allow_inf_nan=False)
    dead_zone_lon_deg: float = Field(0.0, ge=-180, le=180, allow_inf_nan=False)
    dead_zone_radius_m: Amount = 0.0  # more than 0: no vehicle has a link within this of the point
    dead_zone_from_s: Amount = 0.0
    dead_zone_to_s: float = math.inf

    store_frames: Annotated[int, Field(gt=0)] = 3600  # frames a vehicle keeps while it has no link
    store_bytes: Annotated[int, Field(ge=0)] = 0  # bytes it keeps at most; 0: only the frames count
    store_age_s: Positive = 86_400.0  # what is older is dropped
    store_full: Which = "oldest"  # which frame goes when the store is full
    upload_rate: Positive = 20.0  # stored frames/s of a vehicle beside its live ones, once the link is back
    upload_order: Which = "oldest"

    clock_offset_s: Amount = 0.0  # standard deviation of the error of a clock that runs free
    clock_drift_ppm: Amount = 0.0  # standard deviation of every clock's rate
    clock_far_share: Share = 0.0  # share of the free clocks that are off by the next two figures instead
    clock_far_s: Amount = 180.0
    clock_far_ppm: Amount = 200.0
    gnss_sync: Share = 0.8  # share of devices that set their clock by GNSS time; the others run free
    clock_boot_share: Share = 0.0  # share of starts after which the clock says 1970 until the first fix
    clock_fix_min_s: Amount = 5.0
    clock_fix_max_s: float = 60.0

    clone_share: Share = 0.0  # share of vehicles whose identity a second device uses, elsewhere

    @model_validator(mode="after")
    def _together(self) -> Self:
        if sum(self.fates) > 1:
            raise ValueError("shares of late, duplicate, disorder, lost and clock faults exceed 1 together")
        pairs = [("clock_fix_min_s", "clock_fix_max_s"), ("dead_zone_from_s", "dead_zone_to_s")]
        if self.outage_min_s or self.outage_max_s:
            pairs.append(("outage_min_s", "outage_max_s"))
        for low, high in pairs:
            least, most = getattr(self, low), getattr(self, high)
            if least > most:
                raise ValueError(f"{low} {least:g} is more than {high} {most:g}")
        return self

    @property
    def fates(self) -> list[float]:
        """The exclusive shares in the order of FATES."""
        return [getattr(self, name) for name in FATES]
