"""What the watch makes of parts' own metrics and of two readings of one part."""

from __future__ import annotations

from collections import Counter

from infra.settings.sections import Watch
from infra.settings.settings import Settings
from infra.stack.mosquitto import BrokerFigures
from infra.stack.watch import samples
from infra.stack.watch.samples import Figures, Metrics, Place, Reading, Skew, places, sample, top_keys

BRIDGE = """
odograph_bridge_produced_total{lane="frames"} 900
odograph_bridge_produced_total{lane="crashes"} 100
odograph_bridge_rejected_total{lane="frames",reason="bad_json"} 7
odograph_bridge_in_flight_messages{lane="frames"} 500
odograph_bridge_in_flight_bytes{lane="frames"} 750
"""
JOBS = """
odograph_query_input_records_total{query="telemetry"} 4000
odograph_query_input_records_total{query="archive"} 3000
odograph_query_lag_records{query="telemetry"} 12
odograph_query_lag_records{query="archive"} 90
odograph_query_dropped_late_total{query="telemetry"} 0
"""
SETTINGS = Settings(bridge={"max_in_flight": 1000, "max_in_flight_bytes": 100_000}, jobs={"max_offsets": 120})  # type: ignore[arg-type]


def test_a_bridge_is_as_full_as_the_fuller_of_its_two_limits() -> None:
    assert samples.of_process("bridge-2", BRIDGE, SETTINGS) == Figures(1000, 7, 500, 0.5)


def test_the_jobs_are_as_full_as_what_waits_for_the_slowest_query_fills_a_batch() -> None:
    assert samples.of_process("jobs", JOBS, SETTINGS) == Figures(4000, 0, 90, 0.75)


def test_a_part_that_does_not_answer_tells_nothing_not_zero() -> None:
    assert samples.of_process("bridge", "", SETTINGS) == Figures()
    assert samples.of_process("events", "", SETTINGS) == Figures()
    assert samples.of_process("somebody", BRIDGE, SETTINGS) == Figures()


def test_the_broker_is_as_full_as_the_queue_that_it_may_hold() -> None:
    told = BrokerFigures(queued=250_000, dropped=3, received=9000, sent=8000, clients=4)
    assert samples.broker(told, SETTINGS) == Figures(9000, 3, 250_000, 0.25)


def reading(at_s: float, passed: float | None, errors: float | None = None, cpu_s: float = 0.0) -> Reading:
    return Reading("bridge", at_s, None, Figures(passed, errors), cpu_s)


def test_a_rate_is_what_came_in_between_two_readings() -> None:
    found = sample(reading(110.0, 1500, 9, 3.0), reading(100.0, 1000, 4, 1.0))
    assert [found[key] for key in ("rate_per_s", "errors", "cores", "ready")] == [50.0, 5, 0.2, True]


def test_the_first_reading_and_a_process_begun_anew_have_no_rate() -> None:
    first, anew = sample(reading(100.0, 1000), None), sample(reading(110.0, 3), reading(100.0, 1000))
    assert (first["rate_per_s"], anew["rate_per_s"], anew["errors"]) == (None, None, None)


def test_a_part_in_trouble_is_not_ready_and_says_why() -> None:
    found = sample(Reading("jobs", 1.0, "starting"), None)
    assert (found["ready"], found["reason"]) == (False, "starting")


def test_a_reader_stands_where_it_committed_and_at_the_beginning_of_what_it_never_read() -> None:
    found = places("telemetry", "telemetry", {0: 120, 1: 50}, {0: 100}, {0: 80, 1: 50}, 10.0)
    assert found == [
        Place("telemetry", "telemetry", 0, 120, 100, 4.0),
        Place("telemetry", "telemetry", 1, 50, 0, 0.0),
    ]


def test_a_log_begun_anew_is_not_less_than_read() -> None:
    assert places("telemetry", "telemetry", {0: 5}, {0: 100}, {}, 0.0)[0].read_to == 5


def test_the_keys_that_send_most_are_weighed_by_the_rate_of_their_partition() -> None:
    tails = {0: Counter(A=75, B=25), 1: Counter(C=100), 2: Counter[str]()}
    found = top_keys("telemetry", tails, {0: 80.0, 1: 20.0, 2: 0.1}, 2)
    assert [(key.vehicle_id, key.partition, round(key.share, 3), key.rate_per_s) for key in found] == [
        ("A", 0, 0.599, 60.0), ("B", 0, 0.2, 20.0)
    ]  # fmt: skip
    unknown = top_keys("telemetry", tails, {0: 80.0}, 9)
    assert [(key.vehicle_id, round(key.share, 3), key.rate_per_s) for key in unknown] == [
        ("C", 0.5, None), ("A", 0.375, None), ("B", 0.125, None)
    ]  # fmt: skip


def test_a_partition_is_hot_by_its_ratio_and_by_what_waits() -> None:
    terms = Watch(hot_ratio=4, hot_records=100)
    skew = Skew("archive", "telemetry", 4, 400, 3, 100, 4.0)
    assert [skew.hot(terms), skew._replace(ratio=3.9).hot(terms), skew._replace(most=99).hot(terms)] == [
        True, False, False
    ]  # fmt: skip
    assert str(skew) == (
        "archive is 400 records behind in partition 3 of telemetry, 4.0 times the median of 4 partitions"
    )


def test_a_metric_by_one_of_its_labels_is_summed_over_the_others() -> None:
    page = Metrics('m_total{lane="a",why="x"} 1\nm_total{lane="b",why="x"} 2\nm_total{lane="b",why="y"} 4\n')
    assert (page.by("m_total", "why"), page.by("m_total", "lane")) == ({"x": 3, "y": 4}, {"a": 1, "b": 6})
    assert page.by("none", "why") == {}
