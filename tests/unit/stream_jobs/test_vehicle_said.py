"""What rules say of a frame in its narrow form: nothing is lost, what is passed over would change nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from infra.contract.settings import Settings
from stream_jobs.rules import load_rules
from stream_jobs.vehicles.beat import Memory, Reading
from stream_jobs.vehicles.core import Core
from stream_jobs.vehicles.limits import core_limits
from stream_jobs.vehicles.lookout import Lookout
from stream_jobs.vehicles.plugged import of_rules
from stream_jobs.vehicles.said import as_said, reading
from stream_jobs.vehicles.state import dump_vehicle, load_vehicle
from tests.unit.stream_jobs.detect.traces import beat

DETECTION = of_rules(load_rules())
FLAG = st.sampled_from([None, False, True])
NUMBER = st.none() | st.floats(-1e6, 1e6)
NAMES = st.lists(st.text(max_size=3), max_size=3).map(tuple)
READING = st.builds(Reading, FLAG, FLAG, NUMBER, NUMBER, FLAG, FLAG, NAMES)


@settings(max_examples=50)
@given(st.lists(READING, min_size=1, max_size=5))
def test_every_reading_comes_out_as_it_went_in(readings: list[Reading]) -> None:
    said = as_said(readings)
    assert [reading(said, place) for place in range(len(readings))] == readings


def test_a_frame_with_more_names_than_a_byte_counts_keeps_them_apart() -> None:
    many = tuple(f"P{k:04}" for k in range(300))
    readings = [Reading(True, None, None, None, names=names) for names in (("a",), many, ("z",))]
    assert [reading(as_said(readings), place).names for place in range(3)] == [("a",), many, ("z",)]


def any_readings(rng: random.Random, count: int) -> list[Reading]:
    """Flags of all sorts; values that wander about a limit."""
    flags = [None, False, False, True, True]
    return [
        Reading(
            rng.choice(flags), rng.choice(flags), rng.choice([None, rng.gauss(10, 5)]), 10.0,
            rng.choice([None, False, True, True, True]), rng.choice(flags),
            rng.choice([(), ("a",), ("a", "b")]),
        )
        for _ in range(count)
    ]  # fmt: skip


def lived(place: int, rng: random.Random) -> Iterator[tuple[Memory | None, Reading, float]]:
    """Memories of a shipped detector that any readings led to, and the reading that comes then."""
    memory: Memory | None = None
    at_s = 0.0
    for each in any_readings(rng, 300):
        yield memory, each, at_s
        memory, _ = DETECTION.detectors[place].step(memory, beat(at_s), each)
        at_s += rng.choice([1, 1, 5, 30, 200])


def test_what_the_lookout_leaves_out_would_change_nothing() -> None:
    left_out = 0
    for place, detector in enumerate(DETECTION.detectors):
        lookout = Lookout((detector,))
        for memory, each, at_s in lived(place, random.Random(place)):
            chosen = dict(lookout.places(as_said([each]).codes))
            if detector.unordered or (chosen.get(0, False) or (0 in chosen and memory is not None)):
                continue
            left_out += 1
            assert detector.step(memory, beat(at_s), each) == (memory, ()), DETECTION.rules[place].id
    assert left_out > 2000


def test_memories_of_all_shipped_detectors_come_back_from_a_checkpoint_as_they_were() -> None:
    core = Core(core_limits(Settings()), DETECTION)
    state = core.new()
    rng = random.Random(5)
    for second in range(0, 600, 3):
        list(core.step(state, beat(second, said=as_said(any_readings(rng, len(DETECTION.rules))))))
    before = list(state.memories)
    assert sum(memory is not None for memory in before) > 25
    after = load_vehicle(dump_vehicle(state)).memories
    assert after == before
    assert not any(isinstance(value, list) for memory in after for value in leaves(memory))


def leaves(value: object) -> Iterator[object]:
    if isinstance(value, tuple):
        for each in value:
            yield from leaves(each)
    else:
        yield value
