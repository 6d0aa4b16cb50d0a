"""The recorder judges impacts as 49 CFR 563 says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_simulator import pulse, trigger


@given(delta_v=st.floats(9.0, 90.0), width=st.integers(80, 150), seed=st.integers(0, 999), rear=st.booleans())
def test_every_crash_pulse_from_the_threshold_on_triggers(
    delta_v: float, width: int, seed: int, rear: bool
) -> None:
    signed = delta_v if rear else -delta_v
    burst = pulse.with_ringing(pulse.haversine(signed, width), np.random.default_rng(seed), 0.15)
    finding = trigger.judge(burst)
    assert finding is not None
    assert len(finding.long.delta_v_kmh) == 26
    assert finding.long.delta_v_kmh[0] == 0
    assert np.sign(finding.long.max_kmh) == np.sign(signed)
    assert finding.long.max_kmh == pytest.approx(signed, rel=0.12, abs=1.5)


@given(delta_v=st.floats(0.0, 7.5), width=st.integers(80, 150))
def test_a_bump_below_the_threshold_does_not_trigger(delta_v: float, width: int) -> None:
    assert trigger.judge(pulse.haversine(-delta_v, width)) is None


@given(peak_g=st.floats(2.0, 6.0), width=st.integers(5, 20))
def test_a_pothole_or_kerb_does_not_trigger(peak_g: float, width: int) -> None:
    assert trigger.judge(pulse.kerb(peak_g, width)) is None


def test_hard_braking_does_not_trigger() -> None:
    assert trigger.judge(np.full(2000, -10.5)) is None


def test_the_barrier_pulse_of_the_rule_has_its_table() -> None:
    finding = trigger.judge(pulse.haversine(-40.0, 110))
    assert finding is not None
    assert finding.zero_ms == 57
    assert finding.long.delta_v_kmh[:12] == (0, 0, -1, -3, -8, -14, -21, -28, -34, -38, -40, -40)
    assert finding.long.delta_v_kmh[-1] == -40
    assert finding.long.max_kmh == -40.0


def test_the_event_ends_when_20_ms_change_nothing_more() -> None:
    finding = trigger.judge(pulse.haversine(-40.0, 110))
    assert finding is not None
    assert finding.zero_ms < 60 < finding.end_ms < 60 + 110 + 20
