"""The simulated queues against what theory says of them, and against the figures they are fitted to."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
import pytest
import simpy

from load_tests.queues import (
    FITTED,
    MEASURED,
    PARCEL_S,
    READ_SHARE,
    TELEMETRY,
    Batch,
    Cores,
    Log,
    Query,
    Site,
    batches,
    cluster,
    figures,
    one_application,
    scaled_out,
    simulated,
)  # fmt: skip

SERVED_S = 0.1
PLAN_S, TASK_US, TRIGGER_S = 1.0, 500.0, 2.0


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.5, 0.8])
def test_one_core_with_random_arrivals_is_an_m_d_1_queue(share: float) -> None:
    env, rng, waits = simpy.Environment(), np.random.default_rng(1), list[float]()
    core = Cores(env, 1)

    def customer() -> Generator[simpy.Event, Any, None]:
        begun = env.now
        yield from core.work(SERVED_S)
        waits.append(env.now - begun - SERVED_S)

    def arrivals() -> Generator[simpy.Event, Any, None]:
        while True:
            yield env.timeout(rng.exponential(SERVED_S / share))
            env.process(customer())

    env.process(arrivals())
    env.run(10_000)
    assert np.mean(waits) == pytest.approx(share * SERVED_S / (2 * (1 - share)), rel=0.06)
    assert core.busy_s / 10_000 == pytest.approx(share, rel=0.02)


def test_cores_are_shared_in_equal_parts() -> None:
    env, ends = simpy.Environment(), dict[str, float]()
    cores = Cores(env, 2, slice_s=0.01, slower=2.0)

    def thread(name: str, cpu_s: float) -> Generator[simpy.Event, Any, None]:
        yield from cores.work(cpu_s)
        ends[name] = env.now

    for name, cpu_s in (("a", 1.0), ("b", 1.0), ("c", 1.0), ("d", 2.0)):
        env.process(thread(name, cpu_s))
    env.run()
    assert ends == pytest.approx({"a": 4.0, "b": 4.0, "c": 4.0, "d": 6.0}, abs=0.05)


def run_batches(query: Query, rate: float, seconds: float, slots: int = 1) -> tuple[Log, list[Batch]]:
    """Frames at an even pace, and nothing else on the cores."""
    env, log, done = simpy.Environment(), Log(), list[Batch]()

    def frames() -> Generator[simpy.Event, Any, None]:
        while True:
            yield env.timeout(PARCEL_S)
            log.append(env.now, round(rate * PARCEL_S))

    env.process(frames())
    env.process(batches(env, query, log, Cores(env, 1), Cores(env, slots), Cores(env, 1), done))
    env.run(seconds)
    return log, done


def test_a_batch_that_fits_into_its_trigger_begins_with_it() -> None:
    _, done = run_batches(Query(TRIGGER_S, 10**6, 1, PLAN_S, 0.0, TASK_US), rate=800, seconds=60)
    assert [batch.begun_s for batch in done[3:6]] == pytest.approx([8, 10, 12])
    assert [batch.records for batch in done[3:6]] == pytest.approx([1600] * 3, abs=20)
    assert done[-1].done_s - done[-1].begun_s == pytest.approx(PLAN_S + 1600 * TASK_US / 1e6, abs=0.01)


@pytest.mark.parametrize(
    ("partitions", "slots", "read_by", "kept_by"),
    [(1, 1, 1, 1), (1, 2, 1, 2), (2, 1, 1, 1), (2, 2, 2, 2), (3, 2, 1.5, 2)],
)
def test_executors_share_what_there_are_partitions_and_buckets_for(
    partitions: int, slots: int, read_by: float, kept_by: int
) -> None:
    query = Query(TRIGGER_S, 10**6, 2, PLAN_S, 0.0, TASK_US, read_us=300.0, readers=partitions)
    _, done = run_batches(query, rate=400, seconds=60, slots=slots)
    expected = PLAN_S + 800 * (300.0 / read_by + TASK_US / kept_by) / 1e6
    assert done[-1].done_s - done[-1].begun_s == pytest.approx(expected, abs=0.01)


def test_batches_beyond_their_trigger_grow_to_where_fixed_cost_is_spread_enough() -> None:
    """Length t takes in rate t records: t = plan + cost rate t."""
    _, done = run_batches(Query(TRIGGER_S, 10**6, 1, PLAN_S, 0.0, TASK_US), rate=1600, seconds=300)
    lengths = [batch.done_s - batch.begun_s for batch in done[-5:]]
    assert lengths == pytest.approx([PLAN_S / (1 - 1600 * TASK_US / 1e6)] * 5, rel=0.02)  # 5 s


def test_more_than_a_batch_takes_grows_by_the_difference() -> None:
    query = Query(TRIGGER_S, 4000, 1, PLAN_S, 0.0, TASK_US)
    log, done = run_batches(query, rate=1600, seconds=600)
    first, last = done[5], done[-1]
    taken_per_s = (last.end - first.end) / (last.done_s - first.done_s)
    assert taken_per_s == pytest.approx(4000 / (PLAN_S + 4000 * TASK_US / 1e6))
    assert log.end - last.end == pytest.approx((1600 - taken_per_s) * 600, rel=0.05)


@pytest.mark.parametrize(
    ("partitions", "executors", "read_by", "kept_by"), [(1, 1, 1, 1), (1, 2, 1, 2), (2, 2, 2, 2)]
)
def test_what_executors_take_out_of_a_full_topic(
    partitions: int, executors: int, read_by: int, kept_by: int
) -> None:
    us = {"executors": 300.0, "driver": 120.0, "PostgreSQL": 40.0}
    rate = scaled_out(us, 4000, partitions, executors, slower=2.0)
    tasks_us = 300 * (READ_SHARE / read_by + (1 - READ_SHARE) / kept_by)
    assert rate == pytest.approx(1e6 / 2 / (tasks_us + 160), rel=0.01)


@pytest.mark.slow
def test_the_fitted_figures_are_those_of_the_cards() -> None:
    for rate, name in sorted(FITTED):
        found = figures(simulated(Site(), rate, 60.0))[name]
        assert found == pytest.approx(MEASURED[rate][name], rel=0.1), (rate, name)


@pytest.mark.slow
def test_one_writer_is_the_limit_that_more_executors_do_not_move() -> None:
    limit = 1e6 / TELEMETRY.write_us
    for share, holds in ((0.7, True), (1.1, False)):
        assert simulated(one_application(256), share * limit, 60.0).holds is holds


@pytest.mark.slow
def test_a_fleet_is_given_as_many_applications_as_its_writers_need() -> None:
    small, large = cluster(1_000, 0.6), cluster(1_000_000, 0.6)
    assert (small.applications, large.applications) == (1, 68)
    assert simulated(large.site, 1_000_000 / 68, 30.0).holds
