"""Published cycles, and what the fleet's own machine consumes along them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edge_simulator.vehicle import thermal
from edge_simulator.vehicle.vehicles import MODELS
from load_tests import cycles
from load_tests.cycles import CYCLES, Driven

pytestmark = pytest.mark.slow

UDDS, HWFET, US06, WLTC = CYCLES
NAMES = [m.name for m in MODELS]


@pytest.fixture(scope="module")
def driven() -> dict[str, Driven]:
    """All models along all cycles, warm."""
    return {cycle.name: cycles.drive(MODELS, cycle) for cycle in CYCLES}


def consumption(driven: dict[str, Driven], cycle: str, model: str) -> float:
    result, k = driven[cycle], NAMES.index(model)
    electric = MODELS[k].powertrain == "electric"
    return float((result.kwh_per_100km if electric else result.fuel_l_per_100km)[k])


def test_the_wltc_trace_has_the_checksum_that_the_regulation_gives() -> None:
    assert WLTC.v_mps().sum() * 3.6 == pytest.approx(83_758.6, abs=1e-6)
    assert len(WLTC.v_mps()) == 1801


@pytest.mark.parametrize(
    ("cycle", "seconds", "km", "top_kmh", "idle_share"),
    [
        (UDDS, 1369, 11.990, 91.25, 0.191),
        (HWFET, 765, 16.507, 96.40, 0.008),
        (US06, 600, 12.888, 129.23, 0.078),
        (WLTC, 1800, 23.266, 131.30, 0.133),
    ],
)
def test_a_trace_has_its_published_length_way_top_speed_and_idling(
    cycle: cycles.Cycle, seconds: int, km: float, top_kmh: float, idle_share: float
) -> None:
    v = cycle.v_mps()
    assert len(v) - 1 == seconds == cycle.duration_s
    assert v.sum() / 1000 == pytest.approx(km, abs=0.001)
    assert v.max() * 3.6 == pytest.approx(top_kmh, abs=0.01)
    assert (v < 0.1).mean() == pytest.approx(idle_share, abs=0.001)


def test_us06_is_as_harsh_as_published() -> None:
    a = np.diff(US06.v_mps())
    assert a.max() == pytest.approx(3.76, abs=0.01)
    assert a.min() == pytest.approx(-3.08, abs=0.01)


def test_a_car_drives_the_whole_way_and_stops_17_times_in_udds(driven: dict[str, Driven]) -> None:
    for cycle in CYCLES:
        assert driven[cycle.name].distance_m[0] / 1000 == pytest.approx(cycle.distance_km, rel=0.001)
        assert driven[cycle.name].mean_kmh[0] == pytest.approx(cycle.mean_kmh, rel=0.002)
    assert driven["UDDS"].stops[0] == 17


@pytest.mark.parametrize(
    ("cycle", "litres"), [("UDDS", 6.5), ("HWFET", 5.2), ("US06", 7.2), ("WLTC-3b", 6.4)]
)
def test_the_1_8_litre_car_burns_its_reference_within_10_percent(
    driven: dict[str, Driven], cycle: str, litres: float
) -> None:
    assert consumption(driven, cycle, "compact-1.8") == pytest.approx(litres, rel=0.10)


def test_the_1_8_litre_car_idles_at_0_68_litres_an_hour() -> None:
    assert cycles.idle_l_per_h(MODELS[:1])[0] == pytest.approx(0.68, rel=0.02)


def test_a_hybrid_burns_far_less_than_the_petrol_car_in_town(driven: dict[str, Driven]) -> None:
    assert consumption(driven, "UDDS", "sedan-hybrid-2.4") < 0.75 * consumption(driven, "UDDS", "compact-1.8")


def test_an_electric_car_needs_less_in_town_and_more_when_driven_hard(driven: dict[str, Driven]) -> None:
    need = [consumption(driven, name, "hatch-ev-24") for name in ("UDDS", "HWFET", "US06")]
    assert need == sorted(need)
    assert need[0] == pytest.approx(10.8, rel=0.1)


def test_a_loaded_truck_cannot_follow_us06_and_the_table_says_so(driven: dict[str, Driven]) -> None:
    truck = NAMES.index("line-haul-12.8d")
    assert driven["US06"].missed_share[truck] > 0.5
    assert driven["US06"].missed_share[0] == 0
    told = cycles.of_drive(MODELS[truck], US06, driven["US06"], truck)
    assert {c.ok for c in told} == {None}
    assert all("too slow" in c.source for c in told)


def test_a_car_that_is_too_weak_for_a_cycle_of_which_there_are_figures_fails(
    driven: dict[str, Driven],
) -> None:
    weak = replace(
        driven["US06"], distance_m=0.9 * driven["US06"].distance_m, missed_share=np.ones(len(MODELS))
    )
    told = cycles.of_drive(MODELS[0], US06, weak, 0)
    assert cycles.failed(told)[0].quantity == "distance"


def test_a_cold_start_costs_fuel(driven: dict[str, Driven]) -> None:
    cold = cycles.drive(MODELS[:1], HWFET, cold=True)
    assert 1.03 < cold.fuel_l_per_100km[0] / driven["HWFET"].fuel_l_per_100km[0] < 1.15


def test_front_pads_of_a_car_last_50_000_km_of_town(driven: dict[str, Driven]) -> None:
    way_km, work_j = driven["UDDS"].distance_m[0] / 1000, driven["UDDS"].friction_j[0]
    cool, disc_kg = np.full((4, 1), 100.0), np.full(1, 7.0)
    life_km = 100 * way_km / thermal.pad_wear_pct(thermal.WHEEL_SHARE * work_j, cool, disc_kg)
    assert life_km[0, 0] == pytest.approx(50_000, rel=0.25)
    assert life_km[2, 0] > 1.5 * life_km[0, 0]


def test_a_figure_out_of_its_limits_fails_the_checks() -> None:
    checks = cycles.run(MODELS[:1], [US06])
    assert cycles.failed(checks) == []
    off = cycles.Check("x", "US06", "consumption", 8.0, "l/100km", 6.5, 7.9, 7.2, "reference")
    nothing = cycles.Check("x", "idle", "warm-up", float("nan"), "C/min", 6.0, 9.0, None, "band")
    assert cycles.failed([*checks, off, nothing]) == [off, nothing]
    assert off.deviation_pct == pytest.approx(11.11, abs=0.01)
