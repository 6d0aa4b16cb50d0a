"""Options of a run, checked before anything starts."""

from __future__ import annotations

import numpy as np
import pytest

from edge_simulator import faults
from edge_simulator.scenario import Cadence, LinkShares, cadence
from edge_simulator.wireless import link
from edge_simulator.wireless.settings import from_mapping
from infra.contract.errors import ConfigError
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
        (5, -1.0, None, "--rate -1"),
        (5, 0.0, None, "--rate 0"),
        (5, 5.0, 1000, "exclude each other"),
        (0, None, None, "--vehicles 0"),
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


@pytest.mark.parametrize("text", ["", "5", "-5s", "0s", "5 weeks", "s"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--duration"):
        duration_ms(text, "--duration")


@pytest.mark.parametrize(
    "text", ["nonsense=1", "crash", "crash=", "crash=-1", "crash=1.5", "crash=x", "crash@0"]
)
def test_a_fault_nobody_knows_or_can_count_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--fault"):
        faults.parse(text)


def test_faults_by_count_by_share_and_at_a_rate() -> None:
    assert faults.parse("crash=3") == faults.Wanted("crash", count=3)
    assert faults.parse("overheating=0.02") == faults.Wanted("overheating", share=0.02)
    assert faults.parse("pothole@2.5") == faults.Wanted("pothole", rate=2.5)


def test_shares_beyond_one_are_refused() -> None:
    with pytest.raises(ConfigError, match="exceed 1"):
        from_mapping({"late": 0.6, "lost": 0.6}, "link")
    with pytest.raises(ConfigError, match="--late 2"):
        from_mapping({"late": 2}, "link")


def test_fates_come_in_the_shares_asked_for_and_delays_on_their_side_of_the_bound() -> None:
    shares = LinkShares(late=0.1, late_beyond=0.1, duplicate=0.1, disorder=0.1)
    fate, delay = link.Fates(shares, np.random.default_rng(5), 1000, 30_000).draw(10_000)
    assert np.bincount(fate, minlength=8).tolist() == [1035, 998, 974, 1000, 0, 0, 0, 5993]
    assert 2000 <= delay[fate == 0].min() <= delay[fate == 0].max() <= 25_000
    assert delay[fate == 1].min() > 30_000
    assert (delay[fate == link.PLAIN] == 0).all()
