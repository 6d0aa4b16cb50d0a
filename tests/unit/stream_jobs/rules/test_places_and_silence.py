"""Fences, vehicles that fall silent, and two devices under one identity."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.contract.errors import ConfigError
from infra.settings.settings import Settings
from stream_jobs.alerts.derive import AlertRow
from stream_jobs.rules.detect.base import AGAIN
from stream_jobs.rules.model import load_rules
from stream_jobs.rules.rule_set import of_rules
from stream_jobs.vehicles.core import Core
from stream_jobs.vehicles.fleet import Fleet, dump, load
from stream_jobs.windows.open_windows import Memory
from tests.support_vehicles import Evaluation, features_of, inputs_of
from tests.unit.stream_jobs.rules.traces import T0, Frame, found, frame, rule, seconds

M = 1 / 111_194.93
"""Degrees of latitude in a metre."""
DEPOT: dict[str, Any] = {"name": "depot", "lat_deg": 0.0, "lon_deg": 0.0, "radius_m": 500}
YARD: dict[str, Any] = {"name": "yard", "polygon": [[0, 0], [0, 0.02], [0.01, 0.02], [0.01, 0]]}
ON = Evaluation(True, None, None, None)


def at(place_s: int, north_m: float, east_m: float = 0.0) -> Frame:
    return frame(place_s, ON, lat_deg=north_m * M, lon_deg=east_m * M)


def fence(folder: Path, on: str = "enter", fences: Any = (DEPOT,), **more: Any) -> Any:
    return rule(folder, kind="geofence", fences=list(fences), on=on, **more)


def test_entering_is_found_at_the_border_and_ends_at_leaving(tmp_path: Path) -> None:
    way = [at(0, 1000), at(10, 600), at(20, 400), at(30, 0), at(40, -400), at(50, -600)]
    rows = found(fence(tmp_path), way)
    assert [row.rule for row in rows] == ["mine.depot", "mine.depot"]
    assert seconds(rows) == [pytest.approx(15, abs=0.1), pytest.approx(-45, abs=0.1)]


def test_leaving_a_fence_is_found_only_by_one_that_was_inside(tmp_path: Path) -> None:
    mine = fence(tmp_path, "exit")
    assert found(mine, [at(0, 900), at(10, 1200)]) == []
    assert seconds(found(mine, [at(0, 0), at(10, 600)])) == [pytest.approx(8.33, abs=0.1)]


def test_noise_at_the_border_is_no_crossing(tmp_path: Path) -> None:
    wavering = [at(0, 600), *(at(s, 500 + (-1) ** s * 30) for s in range(1, 60))]
    assert found(fence(tmp_path), wavering) == []


def test_a_fence_passed_between_two_positions_is_entered_and_left(tmp_path: Path) -> None:
    rows = found(fence(tmp_path), [at(0, 1000, 100), at(60, -1000, 100)])
    assert seconds(rows) == [pytest.approx(30, abs=0.1), -60]
    assert rows[0].message == "Mine: depot, passed through"
    assert found(fence(tmp_path), [at(0, 1000), at(600, -1000)]) == []


def test_a_polygon_is_a_fence_too(tmp_path: Path) -> None:
    rows = found(fence(tmp_path, fences=[YARD]), [at(0, 500, -500), at(10, 500, 500)])
    assert seconds(rows) == [pytest.approx(5, abs=0.1)]


def test_a_narrow_fence_is_entered_whatever_way_it_lies(tmp_path: Path) -> None:
    to_east = [(-40, 0), (40, 0), (40, 2000), (-40, 2000)]
    to_north_east = [(-28, 28), (28, -28), (1442, 1386), (1386, 1442)]
    for corners, middle_m in ((to_east, (0, 1000)), (to_north_east, (700, 700))):
        road = {"name": "road", "polygon": [[north * M, east * M] for north, east in corners]}
        mine = fence(tmp_path, fences=[road])
        assert len(found(mine, [at(0, 1000, -500), at(10, *middle_m), at(20, *middle_m)])) == 1


@pytest.mark.parametrize(
    ("fences", "expected"),
    [
        ([{"name": "a", "radius_m": 5}], "`fences` 0 {'name': 'a', 'radius_m': 5}: is neither"),
        ([DEPOT, DEPOT], "has a name twice"),
        ([DEPOT | {"colour": "red"}], "is neither {name, lat_deg, lon_deg, radius_m}"),
        ([DEPOT | {"radius_m": None}], "`fences` 0.radius_m 0: more than 0 is wanted"),
        ([YARD | {"polygon": "abc"}], "{name, polygon} of 3 [lat, lon]"),
        ([DEPOT | {"lat_deg": 91}], "`fences` 0.points.0.0 91: at most 90 is wanted"),
        ([{"name": "a", "polygon": [[0, 0], [1, 1]]}], "{name, polygon} of 3 [lat, lon]"),
        ([], "`fences` []: Tuple should have at least 1 item"),
    ],
)
def test_a_wrong_fence_is_named(tmp_path: Path, fences: Any, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        fence(tmp_path, fences=fences)
    assert expected in str(caught.value)


def test_fences_may_lie_in_a_file_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "fences.yaml").write_text("- {name: depot, lat_deg: 0, lon_deg: 0, radius_m: 500}\n")
    mine = rule(tmp_path, kind="geofence", fences_file="fences.yaml", on="enter")
    assert len(found(mine, [at(0, 1000), at(10, 0)])) == 1


def test_what_was_known_of_fences_that_changed_without_a_version_is_forgotten(tmp_path: Path) -> None:
    before, after = (of_rules([fence(tmp_path, fences=fences)]) for fences in ((DEPOT,), (YARD, DEPOT)))
    fleet = Fleet(before)
    (place,) = fleet.places(["A"]).tolist()
    fleet.detectors[0].on[place], fleet.detectors[0].rare[place] = True, (0.0, 0.0, T0, (True,), (True,))
    blob = dump(fleet, Memory())
    for rules, known in ((before, [place]), (after, [])):
        assert [*load(blob, rules)[0].detectors[0].rare] == known


def test_the_side_of_a_fence_needs_no_quotes_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "rules:\n  - {id: mine, version: 1, severity: MAJOR, message: Mine, query: vehicles,\n"
        "     kind: geofence, on: exit, fences: [{name: depot, lat_deg: 0, lon_deg: 0, radius_m: 500}]}\n"
    )
    (mine,) = load_rules(path)
    assert seconds(found(mine, [at(0, 0), at(10, 600)])) == [pytest.approx(8.33, abs=0.1)]


def test_silence_is_found_by_its_timer_and_ended_by_the_next_frame(tmp_path: Path) -> None:
    mine = rule(tmp_path, kind="silence", silent_for_s=300, condition="ignition_on")
    rows = found(mine, [frame(0, ON), frame(1, ON), frame(1000, ON)])
    assert seconds(rows) == [301, -999]
    assert (rows[0].received_ms - T0, rows[0].since_ms) == (301_000, T0 + 1000)
    assert seconds(found(mine, [frame(0, ON)], until_s=299)) == []
    assert seconds(found(mine, [frame(0, ON)], until_s=900)) == [300]


def test_a_silence_ends_though_its_rule_was_changed_meanwhile(tmp_path: Path) -> None:
    fleet, rows, last = Fleet(()), list[AlertRow](), [frame(0, ON), frame(1000, ON)]
    for version, silent_for_s in ((1, 300), (2, 600)):
        head, said = last[version - 1]
        (mine,) = of_rules([rule(tmp_path, kind="silence", silent_for_s=silent_for_s, version=version)])
        fleet, _ = load(dump(fleet, Memory()), (mine,))
        core = Core(Settings().jobs, Settings().journeys, (mine,))
        found_now = core.take(fleet, features_of([head | {"seq": version - 1}], inputs_of([[said]], [])))
        found_now += core.expire(fleet, head["received_ms"] + 400_000)
        rows += [row for row in found_now if isinstance(row, AlertRow)]
    assert [(seconds([row]), row.rule_version) for row in rows] == [([300], 1), ([-999], 2)]


def test_what_only_its_detector_ends_is_over_when_the_vehicle_is_forgotten(tmp_path: Path) -> None:
    silent, inside = (
        rule(tmp_path, kind="silence", silent_for_s=300, condition="ignition_on"),
        fence(tmp_path),
    )
    week_s = 168 * 3600
    rows = found(silent, [frame(0, ON)], until_s=week_s)
    assert seconds(rows) == [300, -week_s]
    assert rows[1].message == "Mine: nothing came for 168 h, it is watched no longer"
    assert seconds(found(silent, [frame(0, ON)], until_s=week_s - 1)) == [300]
    rows = found(inside, [at(0, 1000), at(10, 0)], until_s=week_s + 10)
    assert [row.rule for row in rows] == ["mine.depot", "mine.depot"]
    assert seconds(rows) == [pytest.approx(5, abs=0.1), -week_s - 10]
    assert len(found(inside, [at(0, 1000), at(10, 0), at(20, 1000)], until_s=week_s + 20)) == 2


def test_a_vehicle_that_was_switched_off_may_be_silent(tmp_path: Path) -> None:
    mine = rule(tmp_path, kind="silence", silent_for_s=300, condition="ignition_on")
    off = Evaluation(False, None, None, None)
    assert found(mine, [frame(0, ON), frame(1, off)], until_s=5000) == []


def test_two_boots_at_once_are_a_clone_and_a_reboot_is_none(tmp_path: Path) -> None:
    mine = rule(tmp_path, kind="clone", overlap_s=30, clear_for_s=300)
    both = [frame(s, boot_id=boot) for s in range(60) for boot in (1, 2)]
    assert seconds(found(mine, both)) == [31]
    reboot = [frame(s, boot_id=1 + (s >= 60)) for s in range(120)]
    assert found(mine, reboot) == []


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 20), st.integers(0, 90)), min_size=1, max_size=25)
)
def test_clones_are_found_when_two_of_all_boots_spans_first_overlap_by_more(
    came: list[tuple[int, int, int]],
) -> None:
    """``came``: boot, seconds since the last receipt, seconds between the last sample and receipt."""
    spans, expected, received_s, frames = dict[int, list[int]](), list[int](), 0, []
    found_s, found_over_s = None, 0
    for boot, wait_s, late_s in came:
        received_s += wait_s
        frames.append(frame(received_s - late_s, boot_id=boot, received_ms=T0 + 1000 * received_s))
        end_s = received_s - late_s
        own = spans.setdefault(boot, [end_s - 1, end_s, received_s, received_s])
        own[:] = min(own[0], end_s - 1), max(own[1], end_s), own[2], received_s
        others = [each for other, each in spans.items() if other != boot]
        overlaps = [
            min(min(own[1], each[1]) - max(own[0], each[0]), each[3] - max(own[2], each[2]))
            for each in others
        ]
        over_s = max(overlaps, default=0)
        news = found_s is None or end_s - found_s >= AGAIN * 50
        if news and over_s > max(10, found_over_s):
            found_s, found_over_s = end_s, over_s
            expected.append(end_s)
    with TemporaryDirectory() as folder:
        mine = rule(Path(folder), kind="clone", overlap_s=10, clear_for_s=50)
    assert seconds(row for row in found(mine, frames) if not row.ended) == expected
