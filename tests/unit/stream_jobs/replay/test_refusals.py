"""What a replay refuses before anything is begun, and what a killed one left that it does not believe."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from infra.clients.db import system_user
from infra.clients.locks import locked
from infra.contract.errors import ArchiveError, ConfigError, ServiceError
from infra.contract.verdict import ClockLimits
from infra.settings.settings import ENDPOINTS_FILE, Endpoints, load
from stream_jobs.archive.manifest import archive_of
from stream_jobs.archive.upkeep import expire
from stream_jobs.replay import command, databases, shadow
from stream_jobs.replay.cli import replays
from stream_jobs.replay.command import Wanted
from stream_jobs.replay.records import ARCHIVE, Bounds, Stored, of_day
from stream_jobs.replay.runs import LOCK, Run, all_runs, save
from stream_jobs.replay.shadow import Shadow
from tests.unit.stream_jobs.archive.archive_support import HOUR_MS, batches

LIMITS = ClockLimits(0, 10_000, 30_000)
DAY = "1970-01-01"
NOWHERE = Endpoints("127.0.0.1", 1, "127.0.0.1:1", *["postgresql://x@127.0.0.1:1/x"] * 3, {})
RUN = Run("r1", ARCHIVE, 0, 10, 0, 10, 10, (), None, ("stream",), {}, "c0de")


def test_a_run_of_another_version_is_named(tmp_path: Path) -> None:
    save(tmp_path, RUN)
    assert all_runs(tmp_path) == [RUN]
    file = tmp_path / "replays" / "r0" / "run.json"
    file.parent.mkdir()
    file.write_text('{"run_id": "r0"}')
    with pytest.raises(ConfigError, match=r"r0/run\.json is of no run that this version knows"):
        all_runs(tmp_path)


def wanted(**other: object) -> Wanted:
    words = dict.fromkeys(("day", "from_offset", "from_time", "speed", "run")) | {
        "day": DAY, "vehicles": (), "into": "live", "verify": False, "jobs": "stream", "settings": (),
        "lead": "1h", "yes": False,
    }  # fmt: skip
    return Wanted(**words | other)  # type: ignore[arg-type]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation with ten records of 1970-01-01 whose services do not answer."""
    batches(tmp_path / "archive", 3)
    (tmp_path / ENDPOINTS_FILE).write_text(json.dumps(asdict(NOWHERE)))
    monkeypatch.setenv("ODOGRAPH_PATHS_HOME", str(tmp_path))
    return tmp_path


def test_a_day_that_is_not_there_names_those_that_are(home: Path) -> None:
    (home / "days" / "rush").mkdir(parents=True)
    (home / "days" / "rush" / "run.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"--day 1970-01-02: .* In the archive: 1970-01-01; .*: rush"):
        of_day(home, "1970-01-02", "UTC", LIMITS, 0, 100 * HOUR_MS)


def test_a_day_of_which_records_have_expired_is_refused_and_the_next_one_is_not(home: Path) -> None:
    for hour in (12, 30):
        batches(archive_of(home), 2, hour * HOUR_MS)
    expire(archive_of(home), [10 * HOUR_MS])
    with pytest.raises(ConfigError, match=f"--day {DAY}: its records received before 1970-01-01T11:00Z have"):
        of_day(home, DAY, "UTC", LIMITS, 0, 100 * HOUR_MS)
    assert of_day(home, "1970-01-02", "UTC", LIMITS, 0, 100 * HOUR_MS).name == ARCHIVE


def test_a_file_that_is_missing_is_named_before_anything_is_replayed(home: Path) -> None:
    source = of_day(home, DAY, "UTC", LIMITS, 0, 100 * HOUR_MS)
    stored = Stored(archive_of(home), source.received, source.event, 0, (), 4)
    gone = sorted(home.rglob("*.parquet"))[1]
    gone.unlink()
    with pytest.raises(ArchiveError, match=gone.name):
        stored.plan(Bounds(10, HOUR_MS))


def test_records_go_into_the_live_topic_only_by_consent(home: Path) -> None:
    with pytest.raises(ConfigError, match=r"--into live: 12 records go .* odograph\.telemetry, received now"):
        command.replay(wanted(), print, as_json=False)  # nobody answers: it did not ask anybody
    for other in ({"verify": True}, {"settings": ("jobs.window_s=20",)}, {"run": "r1"}):
        with pytest.raises(ConfigError, match="--verify, --set and --run belong to --into shadow"):
            command.replay(wanted(yes=True, **other), print, as_json=False)
    assert [*(home / "replays").iterdir()] == []


def test_the_run_up_of_a_day_does_not_go_into_the_live_topic(home: Path) -> None:
    for hour in (23, 24):
        batches(home / "archive", 3, hour * HOUR_MS)
    with pytest.raises(ConfigError, match="--into live: 12 records go"):
        command.replay(wanted(day="1970-01-02"), print, as_json=False)


def test_what_a_killed_one_had_taken_out_of_the_log_is_listed_and_dropped_but_not_while_it_is_taken(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def away(url: str, **_: Any) -> None:
        asked.append(url)
        raise ServiceError("the database is away")

    monkeypatch.setattr(databases, "connected", away)
    for name in ("r1", "r2"):
        save(home, replace(RUN, run_id=name))
    (home / "replays" / "r3" / "input").mkdir(parents=True)
    listed = json.loads(command.listed(as_json=True))
    assert [(row["run"], row["state"], row["read"]) for row in listed] == [
        ("r1", "begun", "not known"), ("r2", "begun", "not known"), ("r3", "not begun", None)
    ]  # fmt: skip
    assert len(asked) == 1, "one connection for all runs"
    assert "r3   not begun" in command.listed(as_json=False)
    taking = locked(home / "replays" / "r3" / LOCK)
    with taking, pytest.raises(ConfigError, match="run r3 is under way in another process"):
        shadow.drop("r3")
    shadow.drop("r3")
    assert [row["run"] for row in json.loads(command.listed(as_json=True))] == ["r1", "r2"]
    with pytest.raises(ConfigError, match="no run 'r3'; there are: r1, r2"):
        shadow.drop("r3")


def test_one_source_is_wanted_and_no_more(home: Path) -> None:
    for other in ({"day": None}, {"from_time": "1970-01-01T10:00"}):
        with pytest.raises(ConfigError, match="one of --day, --from-offset, --from-time or --drives"):
            command.replay(wanted(**other), print, as_json=False)
    for other_source in (f"--day={DAY}", "--from-offset=0", f"--from-time={DAY}T10:00"):
        live = ["--drives", str(home), "--speed", "1", other_source]
        assert str(CliRunner().invoke(replays, live).exception) == command.ONE_SOURCE


def test_a_wrong_speed_or_program_is_refused_before_anything_is_taken_out_of_the_log(home: Path) -> None:
    for other, why in (({"speed": "0"}, "--speed '0'"), ({"jobs": "instant"}, "--jobs 'instant'")):
        stretch = wanted(day=None, from_time=f"{DAY}T10:00", into="shadow", **other)
        with pytest.raises(ConfigError, match=why):
            command.replay(stretch, print, as_json=False)  # nobody answers: it did not ask anybody
    assert not (home / "replays").exists()


def test_records_that_cannot_be_read_leave_no_run_behind(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadow, "topics_of", lambda _: {})
    spoiled = next(home.rglob("*.parquet"))
    spoiled.write_bytes(bytes(spoiled.stat().st_size))
    with pytest.raises(ArchiveError, match=spoiled.name):
        command.replay(wanted(into="shadow"), print, as_json=False)
    (home / "drives").mkdir()
    for run in (None, "r1"):
        drives = wanted(day=None, drives=home / "drives", into="shadow", run=run)
        with pytest.raises(ConfigError, match=r"\.csv"):
            command.replay(drives, print, as_json=False)
    assert [*(home / "replays").iterdir()] == []
    assert json.loads(command.listed(as_json=True)) == []


@pytest.mark.parametrize("option", ["--verify", "--vehicle=X", "--run=r1", "--set=jobs.window_s=20"])
def test_drives_that_go_live_do_not_ignore_what_is_of_a_shadow_run(home: Path, option: str) -> None:
    for live in (["--speed", "1"], ["--into", "live"]):
        told = CliRunner().invoke(replays, ["--drives", str(home), *live, option]).exception
        assert isinstance(told, ConfigError)
        assert "are of --into shadow" in str(told)


@pytest.mark.parametrize("change", ["promote", "rollback"])
def test_who_lets_serving_read_a_run_or_no_more_is_told_to_the_audit_log(
    home: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    actors: list[object] = []

    def connected(_url: str, actor: str | None = None) -> None:
        actors.append(actor)
        raise ServiceError("the database is away")

    monkeypatch.setattr(databases, "connected", connected)
    save(home, replace(RUN, state="done"))
    with pytest.raises(ServiceError):
        CliRunner().invoke(replays, [change, "r1"], catch_exceptions=False)
    assert actors == [system_user()]


AT_TEN = "log from 1970-01-01T10:00:00+00:00"


@pytest.mark.parametrize(
    ("source", "asked", "told"),
    [
        ("day rush", {"from_time": f"{DAY}T10:00"}, ("day rush from 1970-01-01T00:00:00+00:00", AT_TEN)),
        (AT_TEN, {"from_time": f"{DAY}T09:00"}, (AT_TEN, "log from 1970-01-01T09:00:00+00:00")),
        ("log from 0:7", {"from_offset": "0:8"}, ("log from 0:7", "log from 0:8")),
        ("drives /a", {"drives": Path("/b")}, ("drives /a", "drives /b")),
        (AT_TEN, {"day": DAY}, (AT_TEN, "archive from 1970-01-01T00:00:00+00:00")),
        (AT_TEN, {"from_time": f"{DAY} 10:00"}, None),
        ("drives /a", {"drives": Path("/a")}, None),
        (ARCHIVE, {"day": DAY}, None),
    ],
)  # fmt: skip
def test_a_run_goes_on_with_what_it_was_begun_with_and_no_other_source(
    home: Path, source: str, asked: dict[str, object], told: tuple[str, str] | None
) -> None:
    save(home, replace(RUN, source=source))
    again = {"day": None, "into": "shadow", "run": "r1"} | asked
    why = f"run r1 is of {told[0]}, not of {told[1]}" if told else "begun with another version of the jobs"
    with pytest.raises(ConfigError, match=re.escape(why)):
        command.replay(wanted(**again), print, as_json=False)


def test_a_run_has_no_part_in_the_second_place_of_the_live_archive_and_lets_nothing_expire(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODOGRAPH_ARCHIVE_URL", "hdfs://cold:8020/odograph")
    monkeypatch.setenv("ODOGRAPH_ARCHIVE_KEEP_DAYS", "30")
    given: dict[str, str] = {}

    def supervisor(*others: Any) -> None:
        given.update(others[-1])
        raise ArchiveError("begun")

    monkeypatch.setattr(shadow, "Supervisor", supervisor)
    with pytest.raises(ArchiveError, match="begun"), Shadow(RUN, load(), NOWHERE).running(threading.Event()):
        pass
    for name in ("PATHS_HOME", "ARCHIVE_URL", "ARCHIVE_KEEP_DAYS", "RETENTION_INTERVAL_S"):
        monkeypatch.setenv(f"ODOGRAPH_{name}", given[f"ODOGRAPH_{name}"])
    found = load()
    assert found.paths.home == home / "replays" / "r1"
    assert (found.archive.url, found.archive.keep_days, found.retention.interval_s) == ("", 0, 1e9)


@pytest.mark.parametrize("place", ["lookups", "elsewhere"])
def test_lookups_that_a_killed_run_copied_half_are_copied_again(
    home: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if place == "elsewhere":
        monkeypatch.setenv("ODOGRAPH_PATHS_LOOKUPS", str(home / place))
    one = Shadow(RUN, load(), NOWHERE)
    (home / place).mkdir()
    for name in ("vehicle.arrow", "history.arrow"):
        (home / place / name).write_text("whole")
    half = one.home / ".lookups.new"
    half.mkdir(parents=True)
    (half / "vehicle.arrow").write_text("ha")

    one._look_up()
    assert {p.name: p.read_text() for p in (one.home / "lookups").iterdir()} == {
        "vehicle.arrow": "whole", "history.arrow": "whole"
    }  # fmt: skip
    (home / place / "vehicle.arrow").write_text("newer")
    one._look_up()  # a run goes on with what it began with
    assert (one.home / "lookups" / "vehicle.arrow").read_text() == "whole"
