"""Dead letters beyond a limit are counted, exactly; sessions that went are told."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson

from bridge.uplink.in_flight import AckFifo, InFlightBatch
from bridge.uplink.lane import WHOLE, AtMostOnceLane, Inlet, translated
from bridge.uplink.metrics import LaneStats
from bridge.uplink.mqtt_source import MqttSource, SourceConfig
from bridge.uplink.translate import Letters, Record, Rejection, SessionLoss, Translator
from infra.clients.mqtt_broker import MqttBroker

NOW = 1_790_000_000_000
KEY = b"1HGCM82633A004352"
OTHER = b"1HGCM82633A004353"


def kept(letters: Letters, count: int, key: bytes | None = KEY, size: int = 10, at_ms: int = NOW) -> int:
    return sum(letters.keep(Rejection("bad_json", "why", key), size, at_ms) for _ in range(count))


def told(letters: Letters) -> dict[tuple[str, bytes | None], int]:
    return {
        (dict(record.headers)["reason"].decode(), record.key): orjson.loads(record.value)["messages"]
        for record in letters.counts(NOW)
    }


def test_one_vehicle_takes_a_fifth_of_the_letters_of_a_minute_and_the_rest_is_counted() -> None:
    letters = Letters("dead-letter", 100)
    assert kept(letters, 1000) == 20
    assert kept(letters, 5, OTHER) == 5
    assert told(letters) == {("bad_json", KEY): 980}
    assert told(letters) == {}
    assert kept(letters, 1000, at_ms=NOW + 60_000) == 20


def test_all_vehicles_together_take_no_more_than_the_letters_of_a_minute() -> None:
    letters = Letters("dead-letter", 100)
    invented = [b"1HGCM82633A%06d" % n for n in range(20_000)]
    assert sum(kept(letters, 1, key) for key in invented) == 100
    counts = told(letters)
    assert (len(counts), sum(counts.values())) == (51, 19_900)
    assert counts["bad_json", None] == 19_850


def test_a_large_message_takes_a_token_for_each_four_kilobytes() -> None:
    letters = Letters("dead-letter", 1000)
    assert kept(letters, 30, size=40_000) == 20
    assert kept(letters, 10, OTHER, size=900_000) == 1, "more than all of a vehicle's tokens count as all"


def test_without_a_limit_every_message_is_kept() -> None:
    assert kept(Letters("dead-letter", 0), 5000) == 5000


def test_a_lane_counts_what_is_not_kept_and_says_so_in_a_record() -> None:
    letters, stats = Letters("dead-letter", 10), LaneStats()
    translator = Translator("odograph/v1", "test.")
    found = [(b"odograph/v1/%s/telemetry" % KEY, n, b"{") for n in range(1, 101)]
    records, _ = translated(found, translator, letters, stats, NOW)
    assert [record.topic for record in records] == ["test.dead-letter"] * 2
    assert (stats.rejected["bad_json"], stats.not_kept["bad_json"], stats.skipped) == (100, 98, 0)
    (count,) = letters.counts(NOW)
    assert dict(count.headers)["messages"] == b"98"


def test_at_most_once_what_was_counted_last_is_told_at_the_end() -> None:
    stop, produced = threading.Event(), list[Record]()

    def poll(*_: object) -> list[tuple[bytes, int, bytes]]:
        stop.set()
        return [(b"odograph/v1/%s/telemetry" % KEY, 0, b"{")] * 100

    def produce(records: Sequence[Record]) -> tuple[int, str]:
        produced.extend(records)
        return len(records), ""

    source: Any = SimpleNamespace(poll=poll, close=lambda: None, epoch=1)
    sink: Any = SimpleNamespace(
        produce=produce, poll=lambda: 0, queued=0, failed={}, given_up=0, close=lambda: None
    )
    lane = AtMostOnceLane(
        "telemetry", lambda _: [source], WHOLE, sink, Translator("odograph/v1", "test."), 1000, 1 << 20, 0.0,
        10, 0.0,
    )  # fmt: skip
    lane._count_s = time.monotonic()
    assert lane.run(stop.is_set, 0.0) == 0
    told = [dict(record.headers).get("messages") for record in produced]
    assert (told, lane.stats.produced) == ([None, None, b"98"], 3)


def test_a_lost_session_is_told_with_the_time_in_which_it_went() -> None:
    loss = SessionLoss("odograph-bridge-telemetry", "another client came", NOW - 5000, NOW)
    letter = Letters("dead-letter", 10).lost(loss)
    headers = dict(letter.headers)
    assert (headers["reason"], headers["messages"], headers["since_ms"]) == (
        b"session_lost",
        b"0",
        b"%d" % (NOW - 5000),
    )
    assert letter.timestamp_ms == NOW


def test_a_counted_message_is_acknowledged_only_when_its_number_is_stored() -> None:
    fifo = AckFifo()
    fifo.open(1)
    ticket = fifo.add([1, 2], 0, [], 0.0)
    ticket.held = True
    fifo.add([3], 0, [], 0.0)
    assert fifo.take() == []
    ticket.held = False
    assert fifo.take() == [1, 2, 3]


def test_a_quarter_of_a_sessions_own_window_waits_no_longer_for_its_number() -> None:
    source = MqttSource(SourceConfig(MqttBroker("h", 1), "c", ("r/#",), 156, Path("none")))
    source.connected = True
    inlet = Inlet(5, source, Letters("dead-letter", 1), AckFifo())
    tickets = [inlet.fifo.add(ids, 0, [], 0.0) for ids in (range(1, 40), [40])]
    inlet.hold(tickets[0])
    assert (inlet.due, inlet.report(0.0, NOW, at_once=False)) == (False, [])
    inlet.hold(tickets[1])
    assert inlet.due
    (told,) = inlet.report(0.0, NOW, at_once=False)
    assert (told.frees, inlet.due) == (tickets, False)


def test_with_the_session_goes_the_right_to_forget_what_was_read() -> None:
    record = Record("t", KEY, b"v", [], NOW)
    fifo, batch = AckFifo(), InFlightBatch()
    for epoch in (1, 2, 3):
        fifo.open(epoch)
        batch.waiting.append(fifo.add([7], 1, [record], 0.0))
    told = fifo.add([], 0, [record], 0.0)
    batch.waiting.append(told)
    fifo.open(4)
    dropped = batch.drop_stale(fifo, since=2)
    assert [ticket.epoch for ticket in dropped] == [2, 3], "what came before the session comes no more"
    assert [ticket.epoch for ticket in batch.waiting] == [1, 3]
