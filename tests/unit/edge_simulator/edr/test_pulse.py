"""Crash pulses by type, and the knocks that are none: what the recorder makes of each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_simulator.edr import pulse
from load_tests import crash_table
from load_tests.crash_table import KNOCKS, judge, reaches_threshold

SEEDS = st.integers(0, 9999)
KINDS = st.sampled_from(sorted(pulse.KINDS))


@given(kind=KINDS, delta_v=st.floats(9.5, 90.0), seed=SEEDS)
def test_every_type_of_crash_triggers_and_its_delta_v_is_recorded(
    kind: str, delta_v: float, seed: int
) -> None:
    drawn = crash_table.drawn(pulse.KINDS[kind], delta_v, np.random.default_rng(seed))
    finding = judge(drawn.long, drawn.lat)
    assert finding is not None
    axis = finding.lat if kind == "side" else finding.long
    # 5 ms of a lateral change must be fast to begin an event
    before_zero_kmh = 2.5 if kind == "side" else 1.5
    assert abs(axis.max_kmh) == pytest.approx(delta_v, rel=0.05, abs=before_zero_kmh)
    if kind != "side":
        assert np.sign(axis.max_kmh) == pulse.KINDS[kind].sign


@given(kind=KINDS, delta_v=st.floats(0.0, 10.0), seed=SEEDS)
def test_a_crash_triggers_if_and_only_if_it_takes_8_kmh_within_150_ms(
    kind: str, delta_v: float, seed: int
) -> None:
    drawn = crash_table.drawn(pulse.KINDS[kind], delta_v, np.random.default_rng(seed))
    assert (judge(drawn.long, drawn.lat) is not None) == reaches_threshold(drawn)


@given(name=st.sampled_from(sorted(KNOCKS)), seed=SEEDS)
def test_no_pothole_kerb_braking_door_or_speed_bump_triggers(name: str, seed: int) -> None:
    knock = KNOCKS[name](np.random.default_rng(seed))
    assert judge(knock.long, knock.lat) is None


@given(peak_g=st.floats(2.0, 6.0), width=st.integers(5, 20))
def test_a_kerb_takes_less_than_2_kmh(peak_g: float, width: int) -> None:
    speed_kmh = np.cumsum(pulse.kerb(peak_g, width)) / 1000 * 3.6
    assert np.ptp(speed_kmh) < 2.0


@given(kind=KINDS, seed=SEEDS)
def test_a_pulse_lasts_as_long_as_its_type_and_ringing_keeps_its_delta_v(kind: str, seed: int) -> None:
    drawn = crash_table.drawn(pulse.KINDS[kind], 40.0, np.random.default_rng(seed))
    along = drawn.lat if kind == "side" else drawn.long
    low, high = pulse.KINDS[kind].width_ms
    assert low - 2 <= np.count_nonzero(along) <= high
    assert abs(along.sum() / 1000 * 3.6) == pytest.approx(40.0, abs=1e-6)


@pytest.mark.parametrize(
    ("delta_v_kmh", "width_ms", "peak_g"), [(16.0, 100, 9.1), (40.0, 110, 20.6), (62.0, 100, 35.1)]
)
def test_the_haversine_has_the_published_peak(delta_v_kmh: float, width_ms: int, peak_g: float) -> None:
    assert pulse.haversine(delta_v_kmh, width_ms).max() / pulse.G_MPS2 == pytest.approx(peak_g, abs=0.06)


def test_ringing_is_between_40_and_100_hz() -> None:
    drawn = pulse.with_ringing(np.ones(4000), np.random.default_rng(3), 0.2)
    spectrum = np.abs(np.fft.rfft(drawn - drawn.mean()))
    hz = np.fft.rfftfreq(4000, 1 / pulse.SAMPLE_HZ)
    loud = hz[spectrum > 0.2 * spectrum.max()]
    assert len(loud) > 0
    assert loud.min() >= 39
    assert loud.max() <= 101
