"""Outages and the store on board: who is offline, what is kept, dropped and uploaded, and in which order."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import orjson
import pytest

from edge_simulator import scenario
from edge_simulator.telemetry.outbox import Outgoing
from edge_simulator.truth import TruthLog
from edge_simulator.wireless.outage import Outages, Store
from edge_simulator.wireless.settings import LinkShares
from infra.contract.errors import ConfigError

HERE = np.zeros(10)
ONLINE = np.zeros(3, dtype=np.bool_)


class Away(Outages):
    """Outages of ``n`` vehicles in a run of ``span_ms``, counted and told."""

    def __init__(self, settings: LinkShares, n: int, span_ms: int) -> None:
        self.counts: Counter[str] = Counter()
        self.truth = TruthLog([str(k) for k in range(n)], 0)
        super().__init__(settings, np.random.default_rng(3), n, span_ms, self.counts, self.truth)

    def told(self) -> list[tuple[int, int, int | None, str]]:
        """Vehicle, begin, end and cause of each outage that was over since the last call."""
        return [
            (int(row["vehicle_id"]), row["from_ms"], row["to_ms"], row["details"]["cause"])
            for row in self.truth.take()
        ]


class Kept(Store):
    """A store with one frame of vehicle 1 made at each time."""

    def __init__(self, settings: LinkShares, times_ms: list[int], size: int = 0) -> None:
        self.counts: Counter[str] = Counter()
        super().__init__(settings, lambda _, now_ms: now_ms, self.counts)
        for seq, made_ms in enumerate(times_ms):
            payload = orjson.dumps({"seq": seq, "sent_ms": made_ms, "x": "x" * size})
            self.put(Outgoing(made_ms, seq, 1, "telemetry", payload))


def uploaded(store: Store, from_ms: int, until_ms: int = 10**9) -> list[tuple[int, int]]:
    """Sequence number and time of each frame that leaves once the link is back at ``from_ms``."""
    store.link_back([1], from_ms)
    left = list(store.release(until_ms, ONLINE))
    for item in left:
        assert orjson.loads(item.payload)["sent_ms"] == item.due_ms
    return [(orjson.loads(item.payload)["seq"], item.due_ms) for item in left]


def test_stored_frames_leave_oldest_first_at_the_upload_rate() -> None:
    store = Kept(LinkShares(upload_rate=10), [1000, 2000, 3000])
    assert uploaded(store, 5000) == [(0, 5000), (1, 5100), (2, 5200)]
    assert (store.counts["stored_on_board"], store.counts["dropped_on_board"], len(store)) == (3, 0, 0)


def test_newest_first_turns_the_order_of_the_upload() -> None:
    store = Kept(LinkShares(upload_rate=4, upload_order="newest"), [1000, 2000, 3000])
    assert uploaded(store, 5000) == [(2, 5000), (1, 5250), (0, 5500)]


@pytest.mark.parametrize(("full", "left"), [("oldest", [2, 3, 4]), ("newest", [0, 1, 2])])
def test_a_full_store_drops_what_the_setting_says_and_counts_it(full: str, left: list[int]) -> None:
    settings = LinkShares.model_validate({"store_frames": 3, "store_full": full})
    store = Kept(settings, [1000, 2000, 3000, 4000, 5000])
    assert [seq for seq, _ in uploaded(store, 6000)] == left
    assert (store.counts["stored_on_board"], store.counts["dropped_on_board"]) == (5, 2)


def test_the_bytes_kept_are_bounded_too() -> None:
    one = len(orjson.dumps({"seq": 0, "sent_ms": 1000, "x": "x" * 100}))
    store = Kept(LinkShares(store_bytes=2 * one), [1000, 2000, 3000], size=100)
    large = orjson.dumps({"seq": 3, "sent_ms": 4000, "x": "x" * 3 * one})
    store.put(Outgoing(4000, 3, 1, "telemetry", large))  # no room for it, and none is made
    assert [seq for seq, _ in uploaded(store, 6000)] == [1, 2]
    assert store.counts["dropped_on_board"] == 2


def test_what_is_too_old_when_its_turn_comes_is_dropped() -> None:
    store = Kept(LinkShares(store_age_s=4, upload_rate=1), [1000, 5000, 6000])
    assert uploaded(store, 5500) == [(1, 5500), (2, 6500)]
    assert store.counts["dropped_on_board"] == 1


def test_an_upload_pauses_in_the_next_outage_and_goes_on_after_it() -> None:
    store = Kept(LinkShares(upload_rate=1), [1000, 2000, 3000])
    store.link_back([1], 5000)
    assert len(list(store.release(5500, ONLINE))) == 1
    assert list(store.release(9000, ~ONLINE)) == []
    assert len(store) == 2
    assert uploaded(store, 20_000) == [(1, 20_000), (2, 21_000)]


def test_a_crash_record_leaves_before_the_frames_and_untouched() -> None:
    store = Kept(LinkShares(store_frames=1), [1000])
    store.put(Outgoing(1500, 9, 1, "crash", b"sealed"))
    store.link_back([1], 5000)
    first, second = store.release(6000, ONLINE)
    assert (first.channel, first.payload, first.due_ms) == ("crash", b"sealed", 5000)
    assert second.channel == "telemetry"
    assert (store.counts["stored_on_board"], store.counts["dropped_on_board"]) == (1, 0)


def test_only_the_sending_time_is_rewritten() -> None:
    store = Kept(LinkShares(), [])
    store.put(Outgoing(1000, 1, 1, "telemetry", b'{"seq":5,"sent_ms":123,"a":1}'))
    (item,) = store.flush(99_999)
    assert item.payload == b'{"seq":5,"sent_ms":99999,"a":1}'


def test_the_share_of_vehicles_is_met_and_lengths_lie_in_the_range() -> None:
    settings = LinkShares(outage_share=0.3, outage_min_s=2, outage_max_s=4, outage_gap_s=10_000)
    outages = Away(settings, 10, 60_000)
    for now_ms in range(0, 60_000, 100):
        outages.step(now_ms, HERE, HERE)
    told = outages.told()
    assert outages.counts["outages"] == len({vehicle for vehicle, *_ in told}) == 3
    for _, from_ms, to_ms, cause in told:
        assert to_ms is not None
        assert 2000 <= to_ms - from_ms <= 4100
        assert cause == "loss"


def test_outages_come_again_after_the_gap() -> None:
    settings = LinkShares(outage_share=1, outage_median_s=2, outage_gap_s=20)
    outages = Away(settings, 10, 600_000)
    for now_ms in range(0, 600_000, 500):
        outages.step(now_ms, HERE, HERE)
    assert 150 < outages.counts["outages"] < 400  # 10 vehicles, one every 20 s and its length


def test_a_scheduled_outage_takes_all_of_them_at_once() -> None:
    settings = LinkShares(outage_share=1, outage_at_s=5, outage_min_s=10, outage_max_s=10)
    outages = Away(settings, 10, 60_000)
    outages.step(4900, HERE, HERE)
    assert not outages.some
    outages.step(5000, HERE, HERE)
    assert outages.offline.all()
    assert outages.step(15_000, HERE, HERE) == list(range(10))
    assert outages.told() == [(vehicle, 5000, 15_000, "scheduled") for vehicle in range(10)]


def test_a_dead_zone_takes_the_link_within_its_radius_only() -> None:
    settings = LinkShares(dead_zone_lat_deg=48.0, dead_zone_lon_deg=11.0, dead_zone_radius_m=500)
    outages = Away(settings, 3, 60_000)
    lat = np.array([48.0, 48.0, 48.004])  # 445 m north
    lon = np.array([11.0, 11.007, 11.0])  # 522 m east
    outages.step(0, lat, lon)
    assert outages.offline.tolist() == [True, False, True]
    assert outages.step(3000, lat + 0.01, lon) == [0, 2]
    assert {cause for *_, cause in outages.told()} == {"dead_zone"}


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"outage_shares": 1}, "link.outage_shares: unknown key; did you mean outage_share"),
        ({"outage_share": 1.5}, "link.outage_share 1.5: at most 1 is wanted"),
        ({"outage_share": "much"}, "link.outage_share 'much': a number is wanted"),
        ({"store_frames": 2.5}, "link.store_frames 2.5: a whole number is wanted"),
        ({"store_full": "both"}, "link.store_full 'both': 'oldest' or 'newest' is wanted"),
        ({"upload_rate": 0}, "link.upload_rate 0: more than 0 is wanted"),
        ({"outage_min_s": 9, "outage_max_s": 5}, "link: outage_min_s 9 is more than outage_max_s 5"),
        ({"dead_zone_lat_deg": 91}, "link.dead_zone_lat_deg 91: at most 90 is wanted"),
        ({"dead_zone_lon_deg": math.nan}, "link.dead_zone_lon_deg nan: a finite number is wanted"),
        ({"outage_at_s": -1}, "link.outage_at_s -1: at least 0 is wanted"),
    ],
)
def test_a_wrong_link_setting_is_named(raw: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        scenario.load(None, {"link": raw})
