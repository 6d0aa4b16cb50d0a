"""The section of the settings for the batch layer: what is made anew from the archive."""

from __future__ import annotations

from pydantic import Field

from infra.settings.sections import Section


class Recompute(Section):
    """Windows, journeys and alerts made anew from the archive: engineering defaults."""

    hour_utc: int = Field(
        2, ge=-1, le=23, description="hour of the day at which what came late is recomputed, UTC; -1: never"
    )
    look_s: float = Field(60.0, gt=0, description="pause between two looks whether it is time for it, s")
    slice_min: int = Field(
        10, ge=1, le=1440, description="so much event time is restated in one transaction, min"
    )
    lead_h: int = Field(
        1, ge=0, description="frames from so long before a span are read first, for rules that last, h"
    )
    late_h: int = Field(
        24, ge=0, description="frames of a vehicle are looked for up to so long after their time, h"
    )
    parts: int = Field(
        8, ge=1, description="parts into which vehicles are divided: more parts, less memory at once"
    )
    attempt_s: float = Field(120.0, gt=0, description="time for one transaction, s")
    history_s: float = Field(
        300.0, gt=0, description="pause between two readings of history for the live jobs, s"
    )
    history_days: int = Field(28, ge=1, description="usual values are medians of so many days, days")
    history_hours: int = Field(5, ge=1, description="hours of a vehicle that make a usual value, at least")
    driver_mb: int = Field(1536, ge=512, description="memory of the driver of `odograph recompute`, MiB")
