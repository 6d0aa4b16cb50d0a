"""What is wanted is checked and drawn from the seed; faults begin, end and leave their vehicle sound."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest

from edge_simulator import faults, scenario
from edge_simulator.faults.kinds import KINDS, markdown_table
from edge_simulator.vehicle import vehicles
from edge_simulator.vehicle.machine import Machine
from infra.contract.errors import ConfigError
from tests.support_faults import drive

pytestmark = pytest.mark.slow

Wanted = faults.Wanted


def a_machine(n: int = 40) -> Machine:
    specs = vehicles.Specs(vehicles.draw(np.random.default_rng(1), n))
    return Machine(specs, np.random.default_rng(2), 16.0)


def planned(*wanted: Wanted, n: int = 40, span_s: int = 600) -> list[faults.Fault]:
    return faults.plan(wanted, a_machine(n), np.random.default_rng(3), 1000 * span_s)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"name": "nonsense", "count": 1}, "no fault 'nonsense'; there are overheating, "),
        ({"count": 1}, r"faults\.0\.name: the key is missing"),
        ({"name": "crash"}, "exactly one of count, share, rate, vehicle"),
        ({"name": "crash", "count": 1, "rate": 2}, "exactly one of"),
        ({"name": "crash", "count": -1}, r"faults\.0\.count -1: at least 0"),
        ({"name": "crash", "count": 1.5}, r"faults\.0\.count 1\.5: a whole number"),
        ({"name": "crash", "share": 1.2}, r"share 1\.2: at most 1 is wanted"),
        ({"name": "crash", "rate": 0}, "rate 0: more than 0 is wanted"),
        ({"name": "crash", "rate": "often"}, "rate 'often'"),
        ({"name": "crash", "count": 1, "severity": [0.5, 1.5]}, "severity"),
        ({"name": "crash", "count": 1, "onset_s": [9, 3]}, "onset_s"),
        ({"name": "crash", "count": 1, "onset_s": 30}, "onset_s 30"),
        ({"name": "crash", "rate": 1, "onset_s": [1, 2]}, "no meaning"),
        ({"name": "crash", "cuont": 1}, "cuont: unknown key; did you mean count?"),
        ("crash", "--fault crash: wanted is crash=3"),
        ("crash@-2", "--fault crash@-2"),
        ("crash@inf", "--fault crash@inf"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(entry: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        scenario.load(None, {"faults": (entry,)})
    assert "\n" not in str(refused.value)


def test_a_scenario_file_says_the_same_in_words_or_in_keys() -> None:
    entries = [
        "crash=2",
        {"name": "hot_tyre", "rate": 4, "severity": [0, 1]},
        {"name": "crash", "vehicle": 7},
    ]
    assert scenario.load(None, {"faults": entries}).faults == (
        Wanted("crash", count=2), Wanted("hot_tyre", rate=4, severity=(0, 1)), Wanted("crash", vehicle=7),
    )  # fmt: skip


def test_onsets_fall_in_the_first_half_and_the_effect_is_full_well_before_the_end() -> None:
    found = planned(Wanted("worn_pads", count=20))
    assert len({f.vehicle for f in found}) == 20
    for fault in found:
        assert 60_000 <= fault.onset_ms <= 270_000
        assert fault.onset_ms < fault.full_ms <= fault.onset_ms + 90_000
        assert 0.6 <= fault.severity <= 1.0
        assert fault.end_ms is None


def test_onset_severity_vehicle_and_length_may_be_given() -> None:
    want = Wanted("pothole", vehicle=3, onset_s=(30, 30), severity=(0.25, 0.25))
    long = Wanted("hot_tyre", vehicle=4, onset_s=(10, 10), lasts_s=(60, 60))
    first, second = planned(want, long)
    assert (first.vehicle, first.onset_ms, first.end_ms) == (4, 10_000, first.full_ms + 60_000)
    assert (second.vehicle, second.onset_ms, second.severity) == (3, 30_000, 0.25)


def test_only_vehicles_that_can_have_a_fault_get_it() -> None:
    machine = a_machine(200)
    diesel = machine.diesel & ~machine.electric
    able = {"lean_mixture": ~machine.diesel & ~machine.electric, "dpf_blocked": diesel}
    able |= {"thermal_runaway": machine.specs("motor_kw") > 0, "overheating": ~machine.electric}
    wanted = [Wanted(name, count=20) for name in able]
    for fault in faults.plan(wanted, machine, np.random.default_rng(3), 600_000):
        assert able[fault.name][fault.vehicle]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ((Wanted("thermal_runaway", share=0.5),), "20 wanted, but only 13 are left"),
        ((Wanted("pothole", vehicle=40),), "vehicle 40 cannot have it"),
        ((Wanted("pothole", vehicle=4), Wanted("crash", vehicle=4)), "has a fault already"),
    ],
)
def test_more_than_the_fleet_can_have_is_refused(wanted: tuple[Wanted, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        planned(*wanted)


def test_the_same_seed_plans_the_same() -> None:
    wanted = [Wanted(name, count=1) for name in KINDS]
    assert planned(*wanted, n=80) == planned(*wanted, n=80)


def test_a_rate_is_met_by_a_poisson_process_that_never_ends_and_is_the_seeds_own() -> None:
    machine, free = a_machine(1000), np.ones(1000, dtype=np.bool_)

    def begun() -> list[tuple[int, int, float]]:
        (process,) = faults.arrivals([Wanted("pothole", rate=36.0)], machine, np.random.default_rng(11))
        found = []
        while process.next_ms <= 100 * 3_600_000:
            fault = process.draw(free, process.next_ms)
            assert fault is not None
            found.append((fault.onset_ms, fault.vehicle, fault.severity))
        return found

    found = begun()
    gaps = np.diff([onset_ms for onset_ms, _, _ in found])
    assert len(found) == pytest.approx(3600, rel=0.05)  # 100 h, 1000 vehicles, 36 in 1000 vehicle-hours
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.06)  # as an exponential has it
    assert begun() == found


def test_what_comes_at_a_rate_is_repaired_and_may_come_again() -> None:
    want = Wanted("overcharge", rate=6000.0, lasts_s=(60, 120))
    there = drive([want], 12, 900)
    assert len(there.begun) > len({f.vehicle for f in there.begun})
    for fault in there.begun:
        assert fault.end_ms is not None
        assert fault.full_ms + 60_000 <= fault.end_ms <= fault.full_ms + 120_000
        end_s = fault.end_ms // 1000 + 1
        others = [f for f in there.begun if f.vehicle == fault.vehicle and f.onset_ms > fault.onset_ms]
        until_s = min([f.onset_ms // 1000 for f in others], default=900)
        assert (there["battery_voltage_v"][end_s:until_s, fault.vehicle] < 14.3).all()
        assert not any(fault.vehicle in codes for codes in there.codes[end_s:until_s])


def test_truth_tells_how_long_the_engine_ran_with_a_fault_of_it_up_to_the_repair_or_the_end() -> None:
    petrol, hybrid = 0, 9
    mended = Wanted("overheating", vehicle=petrol, onset_s=(100, 100), lasts_s=(300, 300))
    stays = Wanted("low_oil_pressure", vehicle=hybrid, onset_s=(100, 100))
    seen = drive([mended, stays, Wanted("worn_pads", count=2)], 60, 900)
    assert (seen.machine.specs("motor_kw")[[petrol, hybrid]] > 0).tolist() == [False, True]
    ran = [row for row in seen.truth if row["kind"] == "engine"]
    mended_ms = next(fault.end_ms for fault in seen.begun if fault.vehicle == petrol)
    assert [(row["what"], row["from_ms"], row["to_ms"]) for row in ran] == [
        ("overheating", 100_000, mended_ms), ("low_oil_pressure", 100_000, 900_000),
    ]  # fmt: skip
    for row in ran:
        runs = seen["rpm"][100 : row["to_ms"] // 1000, int(row["vehicle_id"])] > 0
        assert row["engine_s"] == pytest.approx(runs.sum(), abs=2)
        warm = seen["coolant_temp_c"][100 : row["to_ms"] // 1000, int(row["vehicle_id"])] > 65
        assert row["warm_s"] == pytest.approx((runs & warm).sum(), abs=2)
    assert 0 < ran[1]["engine_s"] < 600  # of 800 s
    assert orjson.loads(orjson.dumps(ran)) == ran


def test_a_repair_leaves_no_defect_behind() -> None:
    names = [name for name, kind in KINDS.items() if not kind.on_road and not kind.for_good]
    wanted = [Wanted(name, count=1, onset_s=(5, 5), lasts_s=(1, 1)) for name in names]
    mended = drive(wanted, 60, 920)
    assert len(mended.begun) == len(names)
    for name in vars(mended.machine.defects):
        left = np.nan_to_num(getattr(mended.machine.defects, name))
        assert not left.any(), name
    assert mended.codes[-1] == {}


WHO = {
    "any": "all", "engine": "petrol, diesel, hybrid", "petrol": "petrol, hybrid", "diesel": "diesel",
    "gears": "petrol, diesel, hybrid with gears", "pack": "electric, hybrid",
}  # fmt: skip


def test_the_table_that_people_read_has_a_row_for_each_fault_with_who_can_have_it_and_its_code() -> None:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in markdown_table().splitlines()]
    assert {len(row) for row in rows} == {7}
    assert [(name, who, code) for name, who, _, _, _, code, _ in rows[2:]] == [
        (f"`{kind.name}`", WHO[kind.needs], kind.code or "") for kind in KINDS.values()
    ]
    assert all(row[2] and row[3] and row[4] and row[6] for row in rows)
