"""A simulated fleet past the shipped rules, without services: as a backtest runs it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from edge_simulator.faults import Wanted
from edge_simulator.scenario import Cadence, LinkShares, Scenario
from edge_simulator.vehicle.vehicles import MODELS
from edge_simulator.world import World
from infra.contract.verdict import clock_limits
from infra.settings.settings import Settings
from stream_jobs.alerts.derive import AlertRow
from stream_jobs.archive.writer import indexed
from stream_jobs.reprocess.feed import WHOLE, Remake
from stream_jobs.rules.model import Rule
from stream_jobs.rules.rule_set import of_rules
from stream_jobs.vehicles import lookups
from stream_jobs.vehicles.rows import unpack
from tests.support_frames import Record
from tests.unit.stream_jobs.window_support import recorded

T0 = 1_790_000_000_000


def findings(home: Path, records: Sequence[Record], rules: Sequence[Rule], until_ms: int) -> list[AlertRow]:
    """What stateful rules find in records, as a backtest has it; lookups lie in ``home``."""
    settings = Settings(paths={"home": str(home)})  # type: ignore[arg-type]
    stored = indexed(recorded([*records]), clock_limits(settings))
    made = Remake(settings, of_rules(rules), None, until_ms)(stored)
    rows = [unpack(each["body"]) for each in made.to_pylist() if each["kind"] == WHOLE]
    return [row for row in rows if isinstance(row, AlertRow)]


class Told(NamedTuple):
    """What a vehicle says of itself."""

    model: str
    powertrain: str
    vehicle_class: str


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
        self.told = [
            Told(m.name, m.powertrain, m.vehicle_class) for m in (MODELS[k] for k in world.specs.model)
        ]

    @property
    def faulty(self) -> dict[str, str]:
        """Vehicles with a fault, and its name."""
        return {row["vehicle_id"]: row["fault"] for row in self.truth if row["kind"] == "fault"}

    def alerts(self, home: Path, rules: Sequence[Rule]) -> list[AlertRow]:
        """All findings; ``home`` is where the lookup of vehicles is put."""
        told = [tuple(m) for m in self.told]
        columns = dict(zip(lookups.COLUMNS, zip(*told, strict=True), strict=True))
        table = pa.table({"vehicle_id": self.ids, **{name: list(values) for name, values in columns.items()}})
        lookups.write(home / "lookups" / lookups.VEHICLE_FILE, table)
        return findings(home, self.records, rules, max(at for at, _ in self.records))
