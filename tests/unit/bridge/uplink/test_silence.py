"""Who is called silent, when, and who is not."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from bridge.uplink import silence
from bridge.uplink.silence import Calm, Watch

VIN = "WDDWF4KB0FR000001"


def status(state: str = "online", **more: Any) -> bytes:
    head = {"schema": 1, "vehicle_id": VIN, "boot_id": 7, "seq": 0, "state": state, "at_ms": 500}
    return orjson.dumps(head | {"model": "city", "powertrain": "petrol", "vehicle_class": "car"} | more)


def said(
    watch: Watch, now_ms: int, seen: dict[str, int] | None = None, calm_ms: int | None = 0
) -> list[dict[str, Any]]:
    """What the watch says, which the log then gives back to it."""
    for vehicle_id, at_ms in (seen or {}).items():
        watch.hear(vehicle_id, at_ms)
    words = list(watch.judge(now_ms, calm_ms))
    for vehicle_id, value in words:
        watch.note(vehicle_id, value, now_ms)
    return [orjson.loads(value) for _, value in words]


def a_watch(*words: bytes) -> Watch:
    watch = Watch(60_000)
    for word in words:
        watch.note(VIN, word, 1000)
    return watch


def test_an_online_vehicle_that_sends_nothing_is_called_silent_once_with_all_that_is_known_of_it() -> None:
    watch = a_watch(status())
    assert said(watch, 60_999) == []
    assert said(watch, 61_000) == [orjson.loads(status("silent", since_ms=1000))]
    assert watch.silent == 1
    assert said(watch, 200_000) == []


def test_when_it_sends_again_its_own_word_stands_again_and_silence_may_come_anew() -> None:
    watch = a_watch(status())
    said(watch, 61_000)
    assert said(watch, 62_000, {VIN: 61_500}) == [orjson.loads(status())]
    assert watch.silent == 0
    assert said(watch, 121_499, {VIN: 61_500}) == []
    assert said(watch, 121_500, {VIN: 61_500})[0]["since_ms"] == 61_500


def test_a_vehicle_that_sends_is_never_called_silent() -> None:
    watch = a_watch(status())
    assert all(said(watch, now, {VIN: now - 59_999}) == [] for now in range(61_000, 400_000, 5000))


def test_nothing_is_said_for_the_whole_time_after_a_break_of_our_own() -> None:
    watch = a_watch(status())
    assert said(watch, 500_000, calm_ms=None) == []
    assert said(watch, 500_000, calm_ms=440_001) == []
    assert said(watch, 500_001, calm_ms=440_001)[0]["state"] == "silent"


def test_a_vehicle_that_left_is_not_called_silent() -> None:
    assert said(a_watch(status(), status("offline")), 900_000) == []


def test_after_a_restart_the_silent_stay_silent_until_they_send() -> None:
    watch = a_watch(status("silent", since_ms=400))
    assert said(watch, 900_000) == []
    assert said(watch, 900_000, {VIN: 890_000}) == [orjson.loads(status())]


def test_a_last_will_that_our_word_overtook_is_put_right() -> None:
    watch = a_watch(status())
    (word,) = watch.judge(61_000, 0)
    watch.note(VIN, status("offline"), 61_000)
    watch.note(*word, 61_001)
    assert said(watch, 61_002) == [orjson.loads(status("offline"))]
    assert said(watch, 500_000) == []


@pytest.mark.parametrize("older", [status("offline"), status(boot_id=6), status("silent", since_ms=1000)])
def test_an_older_status_that_comes_behind_changes_nothing_and_the_log_is_put_right(older: bytes) -> None:
    watch = a_watch(status())
    watch.note(VIN, status(vehicle_class="van"), 50_000)
    watch.note(VIN, older, 40_000, "B")
    assert watch.of_classes(("van",)) == {VIN}
    assert said(watch, 50_001) == [orjson.loads(status(vehicle_class="van"))]
    assert said(watch, 109_999) == []
    assert said(watch, 110_000) == [orjson.loads(status("silent", vehicle_class="van", since_ms=50_000))]


def test_an_older_birth_does_not_bring_back_a_vehicle_that_left() -> None:
    watch = a_watch(status())
    watch.note(VIN, status("offline"), 50_000)
    watch.note(VIN, status(boot_id=6), 40_000, "B")
    assert said(watch, 900_000) == [orjson.loads(status("offline"))]


def test_a_word_by_a_clock_that_goes_behind_is_no_older_one_in_its_own_region() -> None:
    watch = Watch(60_000)
    watch.note(VIN, status(), 50_000, "A")  # by a bridge whose clock goes ahead
    watch.note(VIN, status("offline"), 40_000, "A")
    assert said(watch, 500_000) == []
    watch.note(VIN, status(boot_id=6), 39_000, "B")
    assert said(watch, 500_000) == [orjson.loads(status("offline"))]


def test_a_vehicle_that_a_clock_ahead_called_silent_is_on_line_when_it_sends() -> None:
    watch = Watch(60_000)
    watch.note(VIN, status("silent", since_ms=500_000), 70_000)  # the record is no later than now
    assert said(watch, 70_000, {VIN: 70_000}) == []
    assert said(watch, 71_000, {VIN: 70_500}) == [orjson.loads(status())]


def test_a_birth_said_again_is_as_new_as_it_was_received() -> None:
    watch = a_watch(status(), status())
    watch.note(VIN, status(), 50_000)  # to another broker: in that region's log it was not alone
    watch.note(VIN, status("offline"), 40_000, "B")
    assert said(watch, 60_000) == [orjson.loads(status())]


def test_a_status_that_our_own_record_overtook_is_no_older_one() -> None:
    watch = a_watch(status())
    said(watch, 61_000)
    watch.hear(VIN, 61_500)
    (word,) = watch.judge(62_000, 0)
    watch.note(*word, 62_001)
    watch.note(VIN, status("offline"), 62_000)
    assert said(watch, 62_100) == []
    assert said(watch, 500_000) == []


def test_a_word_on_its_way_is_not_said_twice_and_a_lost_one_is_said_again() -> None:
    watch = a_watch(status())
    assert len(list(watch.judge(61_000, 0))) == 1
    assert len(list(watch.judge(90_999, 0))) == 0
    assert len(list(watch.judge(91_000, 0))) == 1


def test_a_forgotten_vehicle_and_what_is_no_status_are_left_alone() -> None:
    watch = a_watch(status(), b"")
    watch.note(VIN, b"no json", 1000)
    assert said(watch, 900_000) == []


def test_a_new_birth_begins_anew() -> None:
    watch = a_watch(status())
    said(watch, 61_000)
    watch.note(VIN, status(boot_id=8), 62_000)
    assert watch.silent == 0
    assert said(watch, 121_999) == []
    assert said(watch, 122_000)[0] == orjson.loads(status("silent", boot_id=8, since_ms=62_000))


def test_a_connection_that_broke_between_two_looks_is_a_break() -> None:
    calm = Calm()
    calm.look(10, None)
    assert calm.since_ms is None
    calm.look(20, 1)
    calm.look(30, 1)
    assert calm.since_ms == 20
    calm.look(40, 2)
    assert calm.since_ms == 40
    calm.look(50, None)
    calm.look(60, 2)
    assert calm.since_ms == 60


def test_more_vehicles_than_are_watched_over_take_the_place_of_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(silence, "VEHICLES_KEPT", 2)
    watch = Watch(60_000)
    for vehicle in ("1HGCM82633A000001", "1HGCM82633A000002", "1HGCM82633A000003"):
        watch.note(vehicle, status(vehicle_id=vehicle), 1)
    assert watch.of_classes(["car"]) == {f"1HGCM82633A00000{n}" for n in (2, 3)}
    assert watch.forgotten == 1


def test_the_vehicles_of_classes_are_known_by_their_last_status() -> None:
    watch = a_watch(status())
    watch.note("WDDWF4KB0FR000002", status(vehicle_class="van").replace(b"R000001", b"R000002"), 1000)
    assert watch.of_classes(("car",)) == {VIN}
    assert watch.of_classes(("car", "van")) == {VIN, "WDDWF4KB0FR000002"}
    assert watch.of_classes(()) == frozenset()
