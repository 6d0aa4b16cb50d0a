"""Which events a recorder keeps."""

from __future__ import annotations

from edge_simulator.edr.recorder import Memory


def held(memory: Memory) -> list[str]:
    return [event.crash_id for event in memory.events]


def test_of_events_without_deployment_the_oldest_goes_when_a_third_comes() -> None:
    memory = Memory()
    for k in range(3):
        assert memory.store(f"c{k}", 60_000 * k, locked=False) is not None
    assert held(memory) == ["c1", "c2"]


def test_a_deployment_is_never_overwritten() -> None:
    memory = Memory()
    memory.store("airbag", 0, locked=True)
    for k in range(9):
        memory.store(f"c{k}", 60_000 * (k + 1), locked=False)
    assert held(memory) == ["airbag", "c7", "c8"]


def test_a_deployment_takes_the_place_of_the_oldest_event_without() -> None:
    memory = Memory()
    memory.store("a0", 0, locked=True)
    memory.store("a1", 60_000, locked=True)
    memory.store("c0", 120_000, locked=False)
    memory.store("c1", 180_000, locked=False)
    memory.store("a2", 240_000, locked=True)
    assert held(memory) == ["a0", "a1", "c1", "a2"]


def test_a_memory_full_of_deployments_takes_nothing_more() -> None:
    memory = Memory()
    for k in range(4):
        memory.store(f"a{k}", 60_000 * k, locked=True)
    assert memory.store("a4", 300_000, locked=True) is None
    assert memory.store("c0", 300_000, locked=False) is None
    assert held(memory) == ["a0", "a1", "a2", "a3"]


def test_a_second_event_within_5_s_belongs_to_the_first() -> None:
    memory = Memory()
    first = memory.store("c0", 1000, locked=False)
    second = memory.store("c1", 6000, locked=True)
    assert first is not None
    assert second is not None
    assert (first.number, second.number, second.first) == (1, 2, first)


def test_an_event_more_than_5_s_later_is_a_crash_of_its_own() -> None:
    memory = Memory()
    memory.store("c0", 1000, locked=False)
    later = memory.store("c1", 6001, locked=False)
    assert later is not None
    assert (later.number, later.first) == (1, None)


def test_a_third_event_of_one_crash_is_kept_only_with_a_deployment() -> None:
    memory = Memory()
    memory.store("c0", 0, locked=False)
    memory.store("c1", 1000, locked=False)
    assert memory.store("c2", 2000, locked=False) is None
    third = memory.store("a0", 3000, locked=True)
    assert third is not None
    assert third.number == 2
