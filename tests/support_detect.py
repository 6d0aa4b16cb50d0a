"""A simulated fleet past the shipped rules, without services: frames, one Spark batch, then the detectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
from pyspark.sql import DataFrame, SparkSession

from edge_simulator.faults import Wanted
from edge_simulator.scenario import Cadence, LinkShares, Scenario
from edge_simulator.vehicle.vehicles import MODELS
from edge_simulator.world import World
from infra.contract.verdict import ClockLimits
from stream_jobs.rules import Rule
from stream_jobs.vehicles.detect.batch import beat_rows, beats
from stream_jobs.vehicles.detect.walk import Rules, walk
from stream_jobs.vehicles.rows import AlertRow

T0 = 1_790_000_000_000
LIMITS = ClockLimits(floor_ms=1_420_070_400_000, ahead_ms=10_000, lateness_ms=30_000)
RECORD = "topic string, partition int, log_offset long, key binary, received_ms long, value string"
KNOWN = "vehicle_id string, vehicle_class string, powertrain string, model string"


class Fleet:
    """A run of the simulator: its frames in order of receipt, its truth, and what its vehicles are."""

    def __init__(
        self, seed: int, vehicles: int, seconds: int, faults: Sequence[Wanted] = (), *,
        ambient_c: float = 16.0, interval_ms: int = 5000, link: LinkShares | None = None,
        **more: Any,
    ) -> None:  # fmt: skip
        cadence = Cadence(interval_ms // 10, 10)
        scenario = Scenario(
            seed=seed, vehicles=vehicles, cadence=cadence, start_ms=T0, ambient_c=ambient_c,
            frames_per_vehicle=1000 * seconds // interval_ms, faults=tuple(faults),
            longest_step_ms=500, link=link or LinkShares(), **more,
        )  # fmt: skip
        world = World(scenario)
        self.truth: list[dict[str, Any]] = []
        self.records: list[tuple[int, bytes]] = []
        for slot in world.slots():
            self.truth += slot.truth
            self.records += [(m.due_ms, m.payload) for m in slot.messages if m.channel == "telemetry"]
        self.ids = world.vehicle_ids
        self.models = [MODELS[k] for k in world.specs.model]

    @property
    def faulty(self) -> dict[str, str]:
        """Vehicles with a fault, and its name."""
        return {row["vehicle_id"]: row["fault"] for row in self.truth if row["kind"] == "fault"}

    def known(self, spark: SparkSession) -> DataFrame:
        """What is looked up of the vehicles."""
        rows = [
            (vehicle_id, model.vehicle_class, model.powertrain, model.name)
            for vehicle_id, model in zip(self.ids, self.models, strict=True)
        ]
        return spark.createDataFrame(rows, KNOWN)

    def alerts(self, spark: SparkSession, rules: Sequence[Rule]) -> list[AlertRow]:
        """All findings, a record each."""
        rows = [("t", 0, k, None, at, raw.decode()) for k, (at, raw) in enumerate(self.records)]
        said = beat_rows(spark.createDataFrame(rows, RECORD), rules, LIMITS, self.known(spark))
        return list(walk(beats(said), Rules.of(rules)))


def reduced(payload: bytes) -> dict[str, Any]:
    """A frame's JSON."""
    frame: dict[str, Any] = orjson.loads(payload)
    return frame
