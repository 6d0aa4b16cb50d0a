"""The section of the settings for the archive."""

from __future__ import annotations

from pydantic import Field

from infra.settings.sections import Section


class Archive(Section):
    """The master data set: upkeep, retention, and a second place."""

    keep_days: int = Field(0, ge=0, description="records go so many days after their receipt; 0: never, days")
    pack_mb: int = Field(128, ge=1, description="files of an hour are packed into files of about this, MiB")
    pack_after_min: int = Field(90, ge=0, description="an hour is packed so long after its end, min")
    grace_min: int = Field(
        30, ge=0, description="files that were replaced or expired can be read for so long, min"
    )
    url: str = Field(
        "",
        description="a second place for the archive by Hadoop URL, as hdfs://host:port/odograph; empty: none",
    )
    upkeep_s: float = Field(300.0, gt=0, description="pause between two looks for hours to pack or expire, s")
