"""A scenario in parts: nothing is lost or doubled by splitting, and the sums are those of the whole."""

from __future__ import annotations

from typing import Any

import pytest

from edge_simulator.faults.plan import Wanted
from edge_simulator.scenario import Scenario, Stage, cadence
from edge_simulator.sending import fleet_processes
from edge_simulator.world import World
from infra.contract.errors import ConfigError

pytestmark = pytest.mark.slow


def stages(*entries: dict[str, Any]) -> tuple[Stage, ...]:
    return tuple(map(Stage.model_validate, entries))


WHOLE = Scenario(
    seed=3, vehicles=11, cadence=cadence(11, None, 1000), start_ms=1_760_000_000_000, frames_per_vehicle=2,
    limit=20, stages=stages({"for": "1s", "rate": 2.2}, {"for": "4s", "ramp_to": 11}),
    faults=(Wanted("crash", count=3), Wanted("overheating", share=0.1), Wanted("pothole", vehicle=7)),
)  # fmt: skip


def test_vehicles_limits_counted_faults_and_rates_add_up_to_the_whole() -> None:
    found = fleet_processes.split(WHOLE, 3)
    assert [(p.first, p.vehicles) for p in found] == [(0, 3), (3, 4), (7, 4)]
    assert [p.limit for p in found] == [6, 7, 7]
    assert [[w.count for w in p.faults if w.name == "crash"] for p in found] == [[1], [1], [1]]
    assert [sum(p.stages[k].ends_at for p in found) for k in (0, 1)] == pytest.approx([2.2, 11.0])
    assert sum(p.full_rate for p in found) == pytest.approx(WHOLE.full_rate)


def test_shares_go_to_all_parts_and_a_named_vehicle_to_the_one_it_is_in() -> None:
    found = fleet_processes.split(WHOLE, 3)
    assert [[w.share for w in p.faults if w.name == "overheating"] for p in found] == [[0.1], [0.1], [0.1]]
    assert [[w.vehicle for w in p.faults if w.name == "pothole"] for p in found] == [[], [], [0]]


def test_the_parts_identities_are_those_of_the_whole_fleet_each_once() -> None:
    whole = World(WHOLE).vehicle_ids
    found = [World(p) for p in fleet_processes.split(WHOLE, 3)]
    assert [name for world in found for name in world.vehicle_ids] == whole
    assert len(set(whole)) == 11
    first, second = (world.fleet.state for world in found[1:])
    assert (first.lat != second.lat).all()
    assert found[0].net.node_lat.tolist() == found[2].net.node_lat.tolist()


def test_more_processes_than_vehicles_are_refused() -> None:
    with pytest.raises(ConfigError, match="--processes 12"):
        fleet_processes.split(WHOLE, 12)


def test_a_merged_summary_adds_counts_and_keeps_the_slowest_acknowledgements() -> None:
    one = {
        "run_id": "r.0", "seed": 3, "boot_id": 9, "vehicles": 3, "generated": 10, "link": {"lost": 1},
        "puback_ms": {"p50": 1.5, "p99": None}, "started_ms": 100, "ended_ms": 900, "finished": True,
    }  # fmt: skip
    two = one | {
        "run_id": "r.1", "vehicles": 4, "generated": 20, "link": {"lost": 2}, "started_ms": 90,
        "puback_ms": {"p50": 2.5, "p99": None}, "ended_ms": None, "finished": False,
    }  # fmt: skip
    assert fleet_processes.merged("r", [one, two]) == {
        "run_id": "r", "seed": 3, "boot_id": 9, "vehicles": 7, "generated": 30, "link": {"lost": 3},
        "puback_ms": {"p50": 2.5, "p99": None}, "started_ms": 90, "ended_ms": None, "finished": False,
        "processes": 2, "parts": ["r.0", "r.1"],
    }  # fmt: skip
