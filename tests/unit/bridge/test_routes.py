"""What a topic's messages teach: their sample count, and when the vehicle was heard."""

from __future__ import annotations

import pytest

from bridge.uplink import translate
from bridge.uplink.translate import Record, Rejection, Route, Translator, VehicleLimit
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


def test_a_million_invented_vehicles_are_forgotten_one_by_one_but_not_one_that_is_over_its_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(translate, "ROUTES_KEPT", 50)
    ours = Translator("odograph/v1", "test.", limit=VehicleLimit(rate_per_s=1, burst=3))
    outcomes = [ours.translate(TOPIC, frame(), 0) for _ in range(4)]
    assert [type(outcome) for outcome in outcomes] == [Record] * 3 + [Rejection]
    for number in range(1000):
        ours.route(TOPIC)
        ours.translate(f"odograph/v1/1HGCM82633A{number:06d}/telemetry".encode(), b"{", 0)
    assert (len(ours.routes()), ours.forgotten) == (50, 951)
    again = ours.translate(TOPIC, frame(), 0)
    assert isinstance(again, Rejection)
    assert again.reason == "rate_limited"
