"""What a topic's messages teach: their sample count, and when the vehicle was heard."""

from __future__ import annotations

from bridge.translate import Record, Rejection, Route
from tests.unit.bridge.test_translate import OTHER, TOPIC, VIN, frame, translator


def test_a_vehicle_and_those_that_come_after_it_are_expected_to_keep_their_sample_count() -> None:
    ours = translator()
    first = frame(n=3, speed_kmh=[1.0, 2.0, 3.0])
    assert isinstance(ours.translate(TOPIC, first, 0), Record)
    other = f"odograph/v1/{OTHER}/telemetry".encode()
    assert isinstance(ours.translate(other, frame(vehicle_id=OTHER), 0), Record)
    passes = [route.passes for route in ours.routes()]
    assert [gate is not None and gate(first) for gate in passes] == [True, False]
    late = ours.route(f"odograph/v1/{VIN[:-1]}9/telemetry".encode())
    assert isinstance(late, Route)
    assert late.passes is not None
    assert late.passes(frame(vehicle_id=VIN[:-1] + "9"))


def test_an_unsound_frame_teaches_nothing_and_is_rejected_each_time() -> None:
    ours = translator()
    for _ in range(2):
        outcome = ours.translate(TOPIC, frame(n=3), 0)
        assert isinstance(outcome, Rejection)
        assert outcome.reason == "bad_shape"


def test_a_route_knows_when_its_vehicle_was_heard_last() -> None:
    ours = translator()
    ours.translate(TOPIC, frame(), 1000)
    ours.translate(TOPIC, b"junk", 2000)
    assert [route.seen_ms for route in ours.routes()] == [1000]
