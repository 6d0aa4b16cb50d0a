"""Options of a run, checked before anything starts; stages: how many vehicles report as it goes on."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import orjson
import pytest

from edge_simulator import faults, scenario
from edge_simulator.scenario import Cadence, LinkShares, Scenario, Stage, cadence, rate_at
from edge_simulator.telemetry.emitter import ReportingSchedule
from edge_simulator.truth import TruthLog
from edge_simulator.wireless import radio
from edge_simulator.world import World
from infra.contract.errors import ConfigError
from infra.settings.settings import Settings
from infra.settings.values import duration_ms


@pytest.mark.parametrize(
    ("vehicles", "rate", "interval_ms", "found"),
    [
        (500, 500.0, None, Cadence(100, 10)),
        (100, None, None, Cadence(100, 10)),
        (100, 1000.0, None, Cadence(10, 10)),
        (5000, 1000.0, None, Cadence(500, 10)),
        (60, 1.0, None, Cadence(1000, 60)),
        (3, None, 250, Cadence(25, 10)),
    ],
)
def test_rate_and_vehicles_give_the_spacing_of_samples(
    vehicles: int, rate: float | None, interval_ms: int | None, found: Cadence
) -> None:
    assert cadence(vehicles, rate, interval_ms) == found


@pytest.mark.parametrize(
    ("vehicles", "rate", "interval_ms", "message"),
    [
        (5, 5.0, 1000, "exclude each other"),
        (7, 1000.0, None, "cannot report every 7 ms"),
    ],
)
def test_what_cannot_be_met_is_refused(
    vehicles: int, rate: float | None, interval_ms: int | None, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        cadence(vehicles, rate, interval_ms)


@pytest.mark.parametrize(
    ("text", "ms"), [("500ms", 500), ("10s", 10_000), ("1.5m", 90_000), ("2h", 7_200_000)]
)
def test_durations(text: str, ms: int) -> None:
    assert duration_ms(text, "--duration") == ms


@pytest.mark.parametrize("text", ["", "5", "-5s", "0s", "0.5ms", "5 weeks", "s", "40000d", "9" * 400 + "d"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--duration"):
        duration_ms(text, "--duration")


@pytest.mark.parametrize(
    "text", ["nonsense=1", "crash", "crash=", "crash=-1", "crash=1.5", "crash=x", "crash@0"]
)
def test_a_fault_nobody_knows_or_can_count_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--fault"):
        scenario.load(None, {"faults": (text,)})


def test_faults_by_count_by_share_and_at_a_rate() -> None:
    found = scenario.load(None, {"faults": ("crash=3", "overheating=0.02", "pothole@2.5")}).faults
    assert found == (
        faults.Wanted("crash", count=3), faults.Wanted("overheating", share=0.02),
        faults.Wanted("pothole", rate=2.5),
    )  # fmt: skip


def test_shares_beyond_one_are_refused() -> None:
    with pytest.raises(ConfigError, match="exceed 1"):
        scenario.load(None, {"link": {"late": 0.6, "lost": 0.6}})
    with pytest.raises(ConfigError, match=r"link\.late 2: at most 1 is wanted"):
        scenario.load(None, {"link": {"late": 2}})


def test_fates_come_in_the_shares_asked_for_and_delays_on_their_side_of_the_bound() -> None:
    shares = LinkShares(late=0.1, late_beyond=0.1, duplicate=0.1, disorder=0.1)
    run = Scenario(
        seed=5, vehicles=10_000, cadence=Cadence(100, 10), start_ms=0, frames_per_vehicle=1, link=shares,
    )  # fmt: skip
    link = radio.Radio(run, [], [], np.random.default_rng(5), Counter(), TruthLog([], 0))
    fate, delay = link.fates(np.arange(10_000))
    assert np.bincount(fate, minlength=8).tolist() == [1035, 998, 974, 1000, 0, 0, 0, 5993]
    assert 2000 <= delay[fate == 0].min() <= delay[fate == 0].max() <= 25_000
    assert delay[fate == 1].min() > 30_000
    assert (delay[fate == radio.PLAIN] == 0).all()


def stages(*entries: dict[str, Any]) -> tuple[Stage, ...]:
    return scenario.load(None, {"stages": entries, "vehicles": 1000}).stages


UP_AND_DOWN = stages({"for": "10s", "ramp_to": 40}, {"for": "5s", "rate": 40}, {"for": "4s", "ramp_to": 0})


def test_a_ramp_rises_evenly_from_where_the_last_stage_ended() -> None:
    rates = [rate_at(UP_AND_DOWN, ms) for ms in (0, 5_000, 9_999, 12_000, 16_000, 18_000, 60_000)]
    assert rates == [0.0, 20.0, 36.0, 40.0, 30.0, 10.0, 0.0]


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ([{"for": "1s"}], r"stages\.0: either rate or ramp_to"),
        ([{"for": "1s", "rate": 1}, {"for": "1s", "rate": 2, "ramp_to": 3}], r"stages\.1: either rate or"),
        ([{"for": "1s", "rate": -1}], r"stages\.0\.rate -1: at least 0 is wanted"),
    ],
)
def test_a_stage_that_says_too_little_or_too_much_is_named(entries: list[dict[str, Any]], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        stages(*entries)


def test_a_rate_that_the_fleet_cannot_meet_is_refused() -> None:
    with pytest.raises(ConfigError, match="40 frames/s are wanted, but all vehicles together report 30/s"):
        scenario.read(None, Settings(), {"vehicles": 30, "stages": UP_AND_DOWN}, 0, None)


def test_those_on_line_are_spread_over_the_fleet() -> None:
    whole = Scenario(
        seed=5, vehicles=1000, cadence=cadence(1000, None, 1000), start_ms=0, frames_per_vehicle=None,
        stages=stages(*({"for": "1s", "rate": rate} for rate in (100, 250, 1000))),
    )  # fmt: skip
    schedule = ReportingSchedule(whole)
    first = schedule.on_line()
    assert len(first) == 100
    assert set(np.histogram(first, bins=10, range=(0, 1000))[0].tolist()) <= {9, 10, 11}
    assert [len(schedule.advance(ms)[0]) for ms in (1000, 2000)] == [150, 750]
    assert schedule.on_line().tolist() == list(range(1000))


@pytest.mark.slow
def test_a_staged_run_sends_what_its_stages_ask_for_each_second_and_tells_of_births_and_ends() -> None:
    staged = Scenario(
        seed=5, vehicles=40, cadence=cadence(40, None, 1000), start_ms=1_760_000_000_000,
        frames_per_vehicle=19, stages=UP_AND_DOWN,
    )  # fmt: skip
    world = World(staged)
    assert world.emitter.births() == []
    messages = [m for slot in world.slots() for m in slot.messages]
    frames = [m for m in messages if m.channel == "telemetry"]
    by_second = np.bincount([(m.due_ms - staged.start_ms) // 1000 for m in frames], minlength=20).tolist()
    assert by_second[1:11] == [4, 8, 12, 16, 20, 24, 28, 32, 36, 40]
    assert by_second[11:15] == [40, 40, 40, 40]
    assert by_second[15:19] == [40, 30, 20, 10]
    states = [orjson.loads(m.payload)["state"] for m in messages if m.channel == "status"]
    assert states.count("online") == 40
    assert states.count("offline") == 40
    assert world.counts["generated"] == len(frames)


def test_a_parked_vehicle_reports_at_its_own_interval_and_once_when_it_parks() -> None:
    sc = Scenario(
        seed=5, vehicles=2, cadence=cadence(2, None, 1000), start_ms=0, frames_per_vehicle=None,
        parked_every_ms=10_000,
    )  # fmt: skip
    schedule = ReportingSchedule(sc)
    parked = np.array([False, False])
    reports: list[list[int]] = []
    for second in range(30):
        parked[1] = second >= 3
        reports.append(schedule.reporting(slice(0, 2), parked, 1000 * second).tolist())
    assert all(0 in rows for rows in reports)
    assert [second for second, rows in enumerate(reports) if 1 in rows] == [0, 1, 2, 3, 13, 23]


@pytest.mark.slow
def test_the_limit_holds_in_a_staged_run_too() -> None:
    sc = Scenario(
        seed=5, vehicles=40, cadence=cadence(40, None, 1000), start_ms=0, frames_per_vehicle=None, limit=57,
    )  # fmt: skip
    world = World(sc.model_copy(update={"stages": UP_AND_DOWN}))
    assert sum(m.channel == "telemetry" for slot in world.slots() for m in slot.messages) == 57
