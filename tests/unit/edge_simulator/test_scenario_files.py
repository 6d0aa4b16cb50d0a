"""Scenario files: every key checked, options win, the ready ones are right."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from edge_simulator import scenario
from infra.contract.errors import ConfigError
from infra.settings.settings import Settings

BERLIN = Settings(tz="Europe/Berlin")


def written(folder: Path, text: str) -> str:
    path = folder / "mine.yaml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("name", sorted(scenario.ready()))
def test_each_ready_scenario_can_be_run(name: str) -> None:
    found = scenario.read(name, Settings(), {}, None, None)
    assert found.vehicles >= 1
    assert scenario.load(name, {}).title


def test_the_scenarios_that_were_promised_are_there() -> None:
    wanted = {"city-day", "rush-hour", "winter-morning", "radio-outage", "crash", "poison"}
    assert wanted <= set(scenario.ready())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("vehicels: 3", "vehicels: unknown key; did you mean vehicles?"),
        ("link: {lat: 0.1}", "link.lat: unknown key; did you mean late?"),
        ("place: {lot: 1}", "place.lot: unknown key; did you mean lon?"),
        ("stages: [{for: 3s, rat: 3}]", "stages.0.rat: unknown key; did you mean rate?"),
        ("rate: -5", "rate -5: more than 0 is wanted"),
        ("rate: 0.0", "rate 0: more than 0 is wanted"),
        ("rate: .inf", "rate inf: a finite number is wanted"),
        ("rate: 1.0e-300", "rate 1e-300: a vehicle would report less than once in 36525d"),
        ("link: {late: .nan}", "link.late nan: a finite number is wanted"),
        ("place: {lat: .nan}", "place.lat nan: a finite number is wanted"),
        ("vehicles: 0", "vehicles 0: at least 1 is wanted"),
        ("interval: fast", "interval 'fast': a duration such as 500ms"),
        ("{rate: 50, interval: 2s}", "--rate and --interval exclude each other: give one of them"),
        ("clock: {begins: '25:00'}", "clock.begins '25:00': '25:00' is no time of day such as 07:30"),
        ("- a\n- b", "a mapping of keys is wanted"),
        ("a: [", "cannot be read"),
        ("gnss: {tunels: 1}", "gnss.tunels: unknown key; did you mean tunnels?"),
        ("gnss: {tunnels: many}", "gnss.tunnels 'many': a whole number is wanted"),
        ("link: 3", "link 3: keys with values are wanted"),
        ("link: {late: much}", "link.late 'much': a number is wanted"),
        ("profile: nights", "profile 'nights': 'steady' or 'day' is wanted"),
    ],
)
def test_what_is_wrong_in_a_file_is_told_in_one_line(tmp_path: Path, text: str, told: str) -> None:
    name = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        scenario.read(name, Settings(), {}, None, None)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_told_with_the_ready_ones() -> None:
    with pytest.raises(ConfigError, match="no such scenario or file; ready ones: city-day, crash"):
        scenario.load("nowhere", {})


def test_options_win_over_the_file_and_what_is_not_given_stays(tmp_path: Path) -> None:
    name = written(
        tmp_path, "{vehicles: 30, interval: 2s, seed: 4, link: {late: 0.1, lost: 0.2}, place: {lat: 10}}"
    )
    options: dict[str, Any] = {
        "vehicles": None, "rate": 60.0, "faults": (), "link": {"late": 0.3, "lost": None},
        "place": {"lat": None},
    }  # fmt: skip
    found = scenario.read(name, Settings(), options, 0, None)
    assert (found.vehicles, found.seed, found.cadence.interval_ms) == (30, 4, 500)
    assert (found.link.late, found.link.lost, found.lat_deg) == (0.3, 0.2, 10.0)


@pytest.mark.parametrize(
    "text", ["clock: {begins: '07:30'}", "clock: {begins: 07:30}", "clock: {begins: 7:30}"]
)
def test_a_time_of_day_is_understood_with_and_without_quotes(tmp_path: Path, text: str) -> None:
    assert scenario.load(written(tmp_path, text), {}).clock.begins == 7.5 * 3600


def test_a_day_is_the_local_one_and_an_hour_short_when_clocks_go_forward() -> None:
    found = scenario.read(None, BERLIN, {"vehicles": 5}, None, "2026-03-29")
    begin = datetime.fromtimestamp(found.start_ms / 1000, UTC)
    assert begin == datetime(2026, 3, 28, 23, 0, tzinfo=UTC)
    assert found.span_ms == 23 * 3_600_000
    assert (found.weekday, found.begins_at_s, found.profile, found.longest_step_ms) == (6, 0.0, "day", 500)
    assert found.parked_every_ms == 600_000


def test_a_day_that_is_none_is_told() -> None:
    with pytest.raises(ConfigError, match="--day '2026-02-30': a day such as 2026-11-20 is wanted"):
        scenario.read(None, Settings(), {}, None, "2026-02-30")


def test_the_simulated_clock_is_the_local_time_of_the_start_unless_it_is_set() -> None:
    noon_ms = round(datetime(2026, 11, 20, 11, 0, tzinfo=UTC).timestamp() * 1000)
    found = scenario.read(None, BERLIN, {}, noon_ms, None)
    assert (found.begins_at_s, found.weekday) == (12 * 3600.0, 4)
    early = {"clock": {"begins": "06:30"}}
    assert scenario.read(None, BERLIN, early, noon_ms).begins_at_s == 6.5 * 3600


def test_stages_say_how_long_a_run_is() -> None:
    found = scenario.read("ramp", Settings(), {}, 0)
    assert found.span_ms == 270_000


def test_any_key_can_be_set_from_the_command_line_and_its_own_option_wins() -> None:
    given = scenario.settings_of(["link.outage_share=0.3", "ambient_c=-8", "gnss.tunnels=0", "seed=5"])
    options = scenario.over(given, {"seed": 9, "link": {"late": 0.1}, "vehicles": None})
    found = scenario.read(None, Settings(), options, 0, None)
    assert (found.seed, found.ambient_c, found.gnss.tunnels, found.vehicles) == (9, -8.0, 0, 100)
    assert (found.link.late, found.link.outage_share) == (0.1, 0.3)


@pytest.mark.parametrize("text", ["ambient_c", "=3", "nowhere.key=3", "ambient_c: 3"])
def test_a_setting_that_is_none_is_told(text: str) -> None:
    with pytest.raises(ConfigError, match="KEY=VALUE is wanted"):
        scenario.settings_of([text])


@pytest.mark.parametrize("texts", [["link=5"], ["place=abc"], ["link=", "link.late=0.1"]])
def test_a_part_that_is_set_to_no_keys_is_told(texts: list[str]) -> None:
    with pytest.raises(ConfigError, match=f"--set {texts[0]}: keys with values are wanted"):
        scenario.settings_of(texts)


def test_what_only_the_run_can_judge_names_its_file_too(tmp_path: Path) -> None:
    name = written(tmp_path, "gnss: {sigma: 3}")
    with pytest.raises(ConfigError, match=rf"--scenario {name}: gnss.sigma: unknown key"):
        scenario.read(name, Settings(), {})
