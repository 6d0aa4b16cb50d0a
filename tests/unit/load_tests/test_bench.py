"""What the load test concludes from its figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from load_tests.bench.card import Card, Carried, as_json, text
from load_tests.bench.load import STAGE_GROWTH, Seen, verdict_of
from load_tests.bench.parts import MachineTime
from load_tests.bench.search import Tried, Verdict, after_failed_confirmation, next_rate
from load_tests.bench.ticks import Load, Tick, memories, pause_s, trend
from load_tests.probes import Percentiles


def stages(*tried: tuple[float, Verdict, float]) -> list[Tried]:
    return [Tried(*one) for one in tried]


def ticks(lags: list[int], memory: list[float] | None = None, every_s: float = 1.0) -> list[Tick]:
    """A tick each ``every_s`` with 100 records/s coming in."""
    return [
        Tick(
            at_s=1000 + k * every_s,
            appended=5000 + 100 * k,
            committed={"windows": 5000 + 100 * k - lag},
            queued=0,
            dropped=0,
            in_flight=0,
            load=Load(),
            memory_mb=None if memory is None else {"jobs": memory[k]},
        )
        for k, lag in enumerate(lags)
    ]


def test_rates_go_up_by_a_factor_until_the_lag_grows() -> None:
    assert next_rate([], 1000, 20_000) == 1000
    assert next_rate(stages((1000, "held", 1000)), 1000, 20_000) == 1600
    assert next_rate(stages((1000, "held", 1000), (1500, "held", 1500)), 1000, 20_000) == 2400


def test_the_highest_rate_wanted_is_tried_and_ends_the_search() -> None:
    assert next_rate(stages((1000, "held", 1000)), 1000, 1200) == 1200
    assert next_rate(stages((1200, "held", 1200)), 1000, 1200) is None


def test_what_was_taken_in_under_overload_is_tried_once_when_it_is_worth_it() -> None:
    tried = stages((2000, "held", 2000), (3000, "grew", 2800))
    assert next_rate(tried, 1000, 20_000) == 2550
    assert next_rate([*tried, Tried(2550, "grew", 2400)], 1000, 20_000) is None
    assert next_rate(stages((2000, "held", 2000), (3000, "grew", 2200)), 1000, 20_000) is None


def test_where_the_first_rate_is_too_much_a_lower_one_is_tried() -> None:
    assert next_rate(stages((1000, "grew", 600)), 1000, 20_000) == 550
    assert next_rate(stages((1000, "void", 0)), 1000, 20_000) == 900
    assert next_rate(stages((1000, "grew", 0), (50, "grew", 0)), 1000, 20_000) is None, "nothing is lower"
    assert next_rate(stages((1000, "grew", 20)), 1000, 20_000) == 500, "a cold start tells little"
    assert [after_failed_confirmation(rate) for rate in (2000, 50)] == [1750, 0]


def test_a_lag_that_only_swings_with_its_trigger_does_not_grow() -> None:
    sawtooth = [100 * (k % 10) for k in range(121)]
    assert trend(ticks(sawtooth), "windows", block_s=30.0) == pytest.approx(0.0)
    assert trend(ticks([lag + 5 * k for k, lag in enumerate(sawtooth)]), "windows", 30.0) == pytest.approx(5)


def test_a_growing_lag_grows_by_records_a_second() -> None:
    assert trend(ticks([7 * k for k in range(30)]), "windows") == pytest.approx(7.0)


def seen(ticks_seen: list[Tick], rate: float = 100.0) -> Seen:
    """A load at ``rate`` whose simulator kept its rate."""
    noted = [replace(t, load=Load(int(rate * k), 0, 1000.0 + k)) for k, t in enumerate(ticks_seen)]
    return Seen(rate, 100, noted, {}, MachineTime(0, 0, 0), 0.0, 0.0, "held")


def test_a_load_holds_with_a_flat_lag_only_and_if_some_query_runs_and_nothing_was_dropped() -> None:
    flat, growing = ticks([50] * 40), ticks([4 * k for k in range(40)])
    assert verdict_of(seen(flat), STAGE_GROWTH) == "held"
    assert verdict_of(seen(growing), STAGE_GROWTH) == "grew"
    assert verdict_of(seen([replace(t, committed={}) for t in flat]), STAGE_GROWTH) == "grew"
    dropped = [replace(t, dropped=k) for k, t in enumerate(flat)]
    assert verdict_of(seen(dropped), STAGE_GROWTH) == "grew"


def test_a_lag_that_swings_by_one_batch_holds_and_one_that_gains_more_than_a_batch_grows() -> None:
    def batches(taken_in_of_100: int, batch_s: int = 5) -> list[Tick]:
        return [
            replace(t, appended=100 * k, committed={"windows": taken_in_of_100 * (k // batch_s * batch_s)})
            for k, t in enumerate(ticks([0] * 34))
        ]

    even, behind = batches(100), batches(60)
    assert pause_s(even, "windows") == 5.0
    assert verdict_of(seen(even), 0.0) == "held"
    assert verdict_of(seen(behind), STAGE_GROWTH) == "grew"
    assert verdict_of(seen(batches(70, 12)), STAGE_GROWTH) == "grew", "as long as batches of an overload are"


def test_a_simulator_that_was_late_makes_the_load_void() -> None:
    on_time = seen(ticks([50] * 40))
    late = replace(on_time.ticks[-1], load=Load(3900, 100, 1039.0))
    assert verdict_of(replace(on_time, ticks=[*on_time.ticks[:-1], late]), STAGE_GROWTH) == "void"
    assert verdict_of(replace(on_time, rate=120.0), STAGE_GROWTH) == "void", "100/s were sent of 120/s"


def test_memory_that_filled_in_the_first_half_is_flat_and_a_leak_is_not() -> None:
    filling = [min(800.0, 500.0 + 10 * k) for k in range(120)]
    leaking = [500.0 + 2 * k for k in range(120)]
    judged = [memories(ticks([0] * 120, series, every_s=5.0))["jobs"] for series in (filling, leaking)]
    assert [m.flat for m in judged] == [True, False]
    assert judged[1].slope_mb_per_min == pytest.approx(24.0)
    packing = [500.0 + (250 if 110 < k < 118 else 0) for k in range(120)]
    packed = memories(ticks([0] * 120, packing, every_s=5.0))["jobs"]
    assert (packed.flat, packed.most_mb) == (True, 750.0), "what is given back is no growth"


def card(secure: bool, jobs_us: float, verdict: Verdict = "held") -> Card:
    """Of a run whose pipeline is ``jobs`` and a bridge of 30 us."""
    none = Percentiles.of([])
    us = {"jobs": jobs_us, "bridge": 30.0, "simulate": 500.0, "bench": 50.0}
    held = Carried(
        300.0, 3000.0, 300, 30.0, verdict, 300.0, 0.0, {}, {}, {}, 0, 0, none, none, dict.fromkeys(us, 0.1),
        us, 0.0, 1.0, {}, (),
    )  # fmt: skip
    return Card("today", "", "odograph bench", {}, {}, "", held, (), 300.0, (), None, 0, secure=secure)


@pytest.mark.parametrize(
    ("plain", "secure", "times", "good"),
    [
        (card(False, 170.0), card(True, 230.0), 1.3, True),
        (card(False, 170.0), card(True, 231.0), 1.305, False),
        (card(False, 170.0, "grew"), card(True, 170.0), 1.0, False),
        (card(False, 170.0), card(True, 170.0, "void"), 1.0, False),
    ],
)
def test_a_secure_card_holds_beside_an_open_one_that_holds_and_costs_at_most_1_3_times_that(
    plain: Card, secure: Card, times: float, good: bool
) -> None:
    both = replace(secure, beside=plain)
    assert (both.times_cpu, both.good) == (times, good)
    told = as_json(both)
    assert (told["secure"], told["beside"]["secure"], told["times_cpu"]) == (True, False, times)
    assert told["beside"]["times_cpu"] is None, "it stands beside none"
    line = next(line for line in text(both).splitlines() if line.startswith("    the pipeline"))
    assert [float(word) for word in line.split()[2:4]] == [200.0, secure.sustained.pipeline_us]  # type: ignore[union-attr]


def test_a_short_run_tells_nothing_of_memory() -> None:
    assert memories(ticks([0] * 60, [500.0] * 60))["jobs"].flat is None
