"""The section of the settings for comparing vehicles with their like."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pydantic import Field, field_validator

from infra.settings.sections import Section

MINUTES: Final = 60
"""Of an hour."""


class Cohort(Section):
    """A vehicle against its like: engineering defaults."""

    metrics: Path | None = Field(None, description="metrics that are compared; none: those that ship")
    interval_s: float = Field(20.0, gt=0, description="pause between two looks for closed buckets, s")
    bucket_min: int = Field(
        5,
        ge=1,
        le=60,
        description="vehicles are compared over so many minutes, of which an hour has a whole number, min",
    )
    least_others: int = Field(
        5,
        ge=2,
        description="other vehicles that a cohort needs at least; with fewer the last hour's, or none",
    )
    load_edges_pct: tuple[float, ...] = Field(
        (20.0, 40.0, 60.0), description="where a cohort's bands of mean engine load end, percent"
    )
    ambient_step_c: int = Field(
        10, ge=1, description="width of a cohort's bands of ambient temperature, degC"
    )
    keep_z: float = Field(
        2.0, ge=0, description="residuals are stored from this robust z on, either side; 0: all of them"
    )
    kept_days: int = Field(
        14, ge=1, description="how long residuals are kept, and how far back is looked, days"
    )
    gap_min: int = Field(
        60, ge=1, description="an alert ends when its vehicle cannot be compared for so long, min"
    )

    @field_validator("bucket_min")
    @classmethod
    def _fits_an_hour(cls, minutes: int) -> int:
        """The last hour is a whole number of buckets."""
        if MINUTES % minutes:
            raise ValueError(
                f"{minutes} min do not fit into an hour: 1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30 or 60"
            )
        return minutes
