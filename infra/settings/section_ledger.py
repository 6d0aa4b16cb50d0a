"""The sections of the settings for the conservation ledger and for how long tables are kept."""

from __future__ import annotations

from itertools import pairwise
from typing import Final, Self

from pydantic import Field, model_validator

from infra.settings.sections import Section

APART_DAYS: Final = 2
"""A bucket that is made anew needs all of the level below: a day and a chunk of windows."""


class Ledger(Section):
    """The conservation ledger by hour."""

    interval_s: float = Field(
        300.0, gt=0, description="pause between two audits of the hours that changed, s"
    )
    hours: int = Field(
        48, ge=1, description="hours of first samples that are audited again when late frames come, at most"
    )


class Retention(Section):
    """How long tables are kept; whole chunks go, so up to a chunk longer."""

    windows_days: int = Field(
        90,
        ge=0,
        description="windows of vehicles (10 s), lists of late and quarantined frames, days; 0: for ever",
    )
    roads_days: int = Field(
        90, ge=0, description="windows and 5-minute intervals of roads, days; 0: for ever"
    )
    minutes_days: int = Field(400, ge=0, description="minutes of vehicles, days; 0: for ever")
    hours_days: int = Field(1830, ge=0, description="hours of vehicles, days; 0: for ever")
    days_days: int = Field(0, ge=0, description="days of vehicles, days; 0: for ever")
    progress_days: int = Field(30, ge=0, description="progress of the streaming queries, days; 0: for ever")
    watch_days: int = Field(7, ge=0, description="what the watch measured of each part, days; 0: for ever")
    interval_s: float = Field(3600.0, gt=0, description="pause between two looks for what may go, s")

    @model_validator(mode="after")
    def _longer_above(self) -> Self:
        """Each level is kept longer than the one that it is made of."""
        levels = ("windows_days", "minutes_days", "hours_days", "days_days")
        for below, above in pairwise(levels):
            low, high = getattr(self, below), getattr(self, above)
            if high and (not low or high < low + APART_DAYS):
                raise ValueError(
                    f"{above} {high}: 0, or {APART_DAYS} days or more above {below} ({low or 'for ever'})"
                )
        return self

    def days_by_table(self) -> dict[str, int]:
        """Days that each table of odograph.retention is kept; 0: for ever."""
        return {
            "vehicle_window": self.windows_days,
            "vehicle_minute": self.minutes_days,
            "vehicle_hour": self.hours_days,
            "vehicle_day": self.days_days,
            "road_cell_window": self.roads_days,
            "road_edge_window": self.roads_days,
            "road_cell_interval": self.roads_days,
            "road_edge_interval": self.roads_days,
            "query_progress": self.progress_days,
            "stage_sample": self.watch_days,
            "storage_sample": self.progress_days,
        }
