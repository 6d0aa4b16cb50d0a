"""What rules say of a frame over a checkpoint and beside other frames: nothing is lost."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from stream_jobs.frames.state import dump, load
from stream_jobs.vehicles.features import Features, joined
from tests.support_vehicles import Evaluation, evaluation, features_of, inputs_of

FLAG = st.sampled_from([None, False, True])
NUMBER = st.none() | st.floats(-1e6, 1e6)
NAMES = st.lists(st.text(max_size=3), max_size=3).map(tuple)
READING = st.builds(Evaluation, FLAG, FLAG, NUMBER, NUMBER, FLAG, FLAG, NAMES)
T0 = 1_790_000_000_000


def frame(at_s: float) -> dict[str, float]:
    end_ms = T0 + 1000 * at_s
    return {"boot_id": 1, "t0_ms": end_ms - 1000, "end_ms": end_ms, "received_ms": end_ms, "believed": 1}


@settings(max_examples=50)
@given(st.lists(READING, min_size=1, max_size=5))
def test_every_reading_comes_out_as_it_went_in_also_after_a_checkpoint(readings: list[Evaluation]) -> None:
    inputs = inputs_of([readings], named=range(len(readings)))
    assert [evaluation(inputs, place, 0) for place in range(len(readings))] == readings
    kept = load(dump(features_of([frame(0)], inputs)), Features)
    twice = joined([kept, features_of([frame(1)], inputs)])
    for row in (0, 1):
        assert [evaluation(twice.rules, place, row) for place in range(len(readings))] == readings
