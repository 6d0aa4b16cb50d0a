"""The crash table, and what the command makes of it."""

from __future__ import annotations

import numpy as np
import orjson
import pytest
import typer
from typer.testing import CliRunner

from edge_simulator.edr import pulse, recorder
from load_tests import cli, crash_table
from load_tests.crash_table import Line

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["us563_2006", "us563_2024"])
def table(request: pytest.FixtureRequest) -> list[Line]:
    return crash_table.table(recorder.PROFILES[request.param], range(8))


def test_every_pulse_is_judged_right_and_every_record_is_whole(table: list[Line]) -> None:
    assert sum(line.wrong for line in table) == 0
    assert sum(line.triggered for line in table) == sum(line.complete for line in table) > 200


def test_below_the_threshold_and_for_knocks_nothing_triggers(table: list[Line]) -> None:
    quiet = [line for line in table if line.delta_v_kmh in (None, 6.0)]
    assert {line.kind for line in quiet} == {*pulse.KINDS, *crash_table.KNOCKS}
    assert {line.triggered for line in quiet} == {0}


def test_from_10_kmh_on_every_type_triggers_and_air_bags_follow_severity(table: list[Line]) -> None:
    hard = [line for line in table if (line.delta_v_kmh or 0) >= 10]
    assert all(line.triggered == line.cases == 8 for line in hard)
    bags = {line.delta_v_kmh: line.air_bags for line in table if line.kind == "barrier"}
    assert bags == {6.0: 0, 8.0: 0, 10.0: 0, 16.0: 0, 25.0: 8, 40.0: 8, 56.0: 8}


def test_half_of_the_pole_pulses_of_8_kmh_last_too_long(table: list[Line]) -> None:
    (line,) = (line for line in table if (line.kind, line.delta_v_kmh) == ("pole", 8.0))
    assert 0 < line.wanted == line.triggered < 8


def test_the_threshold_is_found_without_the_recorders_help() -> None:
    wide = np.zeros(600)
    assert crash_table.reaches_threshold(pulse.Pulse(pulse.haversine(-8.0, 140), wide))
    assert not crash_table.reaches_threshold(pulse.Pulse(pulse.haversine(-7.9, 140), wide))
    assert crash_table.reaches_threshold(pulse.Pulse(wide, np.r_[np.zeros(200), np.full(400, 15.0)]))


def command(*arguments: str) -> tuple[int, str]:
    app = typer.Typer()
    app.command("table")(cli.edr_table)
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.stdout


def test_the_command_prints_the_table_and_ends_with_0() -> None:
    code, out = command("--seeds", "1")
    assert code == 0
    assert ["barrier", "40.0", "1", "1", "1", "0"] in [line.split()[:6] for line in out.splitlines()]
    code, out = command("--seeds", "1", "--json")
    rows = orjson.loads(out)
    assert (code, len(rows)) == (0, 5 * 7 + 1 + 5)
    assert {row["wrong"] for row in rows} == {0}


def test_the_command_ends_with_1_when_a_knock_triggers(monkeypatch: pytest.MonkeyPatch) -> None:
    knock = crash_table.KNOCKS["pothole"]

    def hard(rng: np.random.Generator) -> pulse.Pulse:
        return knock(rng)._replace(long=pulse.haversine(-20.0, 110), lat=np.zeros(570))

    monkeypatch.setattr(crash_table, "KNOCKS", {"pothole": hard})
    assert command()[0] == 1
