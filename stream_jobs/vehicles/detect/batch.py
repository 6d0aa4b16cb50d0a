"""Beats of stored records in a batch: what the rules' expressions say of each frame. Spark; no state.

Only what rules need is filled in: no distance, fuel or energy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention
from pyspark.sql import types as T  # noqa: N812  Spark's own convention

from infra.contract.verdict import QUARANTINED, UNREADABLE, ClockLimits
from stream_jobs.findings import LOOKED_UP, last_there, plausible
from stream_jobs.quality import parse, with_verdict
from stream_jobs.rules import Rule
from stream_jobs.schema import HEAD, IDENTITY, frame_schema
from stream_jobs.vehicles.beat import Beat, Reading
from stream_jobs.vehicles.detect.readings import readings

ALWAYS: Final = ("ignition_on", "lat_deg", "lon_deg", "heading_deg", "speed_kmh")
"""Signals that a beat has whatever the rules look at."""


def beat_rows(records: DataFrame, rules: Sequence[Rule], limits: ClockLimits, known: DataFrame) -> DataFrame:
    """A row a believed frame, each identity once, by vehicle, boot and number.

    ``known`` has a row a vehicle with ``vehicle_id`` and what rules may look up of it.
    """
    names = {*HEAD, *ALWAYS}.union(*(rule.words() for rule in rules))
    schema = T.StructType([field for field in frame_schema() if field.name in names])
    judged = with_verdict(parse(records, schema), limits)
    believed = judged.where(~F.col("verdict").isin(*QUARANTINED, UNREADABLE))
    frames = believed.select(
        *("vehicle_id", "boot_id", "seq", "t0_ms", "received_ms", "dt_ms", "n"),
        *(plausible(field.name) for field in schema if field.name not in HEAD),
    )
    looked_up = frames.join(F.broadcast(known.select("vehicle_id", *LOOKED_UP)), "vehicle_id", "left")
    rows = looked_up.select(
        *("vehicle_id", "boot_id", "seq", "t0_ms", "received_ms", "ignition_on"),
        (F.col("t0_ms") + F.col("n") * F.col("dt_ms")).alias("end_ms"),
        *(last_there(name).alias(name) for name in ("lat_deg", "lon_deg", "heading_deg", "speed_kmh")),
        F.array_max("speed_kmh").alias("speed_max_kmh"),
        _readings(rules),
    )
    return rows.dropDuplicates(list(IDENTITY)).orderBy("vehicle_id", "boot_id", "seq")


def beats(rows: DataFrame) -> Iterator[Beat]:
    """The rows as beats, a vehicle after the other, each in its order."""
    return (beat_of(row.asDict(recursive=True)) for row in rows.toLocalIterator())


def beat_of(row: dict[str, Any]) -> Beat:
    """One row as a beat."""
    said = tuple(Reading(**each | {"names": tuple(each["names"] or ())}) for each in row.pop("readings"))
    return Beat(**row, distance_m=None, fuel_l=None, energy_kwh=None, readings=said)


def _readings(rules: Sequence[Rule]) -> Column:
    return readings(rules).alias("readings")
