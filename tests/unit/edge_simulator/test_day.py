"""A day in files of the archive's format: whole or not there, with the pipeline's verdicts."""

from __future__ import annotations

import hashlib
from contextlib import nullcontext
from pathlib import Path

import duckdb
import orjson
import pytest

from edge_simulator import day
from edge_simulator.faults.plan import Wanted
from edge_simulator.scenario import LinkShares, Scenario, cadence
from edge_simulator.telemetry.outbox import take_due
from edge_simulator.world import World
from infra.contract.errors import ConfigError, OdographError
from infra.settings.settings import Settings

pytestmark = pytest.mark.slow

START_MS = 1_763_593_200_000 - 120_000
"""Two minutes before an hour of UTC begins."""
SHORT = Scenario(
    seed=2, vehicles=25, cadence=cadence(25, None, 10_000), start_ms=START_MS, frames_per_vehicle=24,
    longest_step_ms=500, faults=(Wanted("crash", count=1),),
    link=LinkShares(late=0.05, late_beyond=0.05, duplicate=0.05, lost=0.02, clock_unset=0.02, poison=0.02),
)  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = Settings(paths={"home": str(tmp_path_factory.mktemp("home"))})  # type: ignore[arg-type]
    return Path(day.make(SHORT, settings, "short", lambda _: None)["folder"])


def test_the_counts_of_a_day_balance_with_what_lies_in_its_files(made: Path) -> None:
    summary = orjson.loads((made / "run.json").read_bytes())
    ((rows, distinct),) = duckdb.sql(
        f"SELECT count(*), count(DISTINCT (vehicle_id, boot_id, seq)) FROM '{made}/telemetry/*/*/*.parquet'"
    ).fetchall()
    assert summary["generated"] == 25 * 24
    assert distinct == summary["generated"] - summary["lost_on_link"]
    assert rows == summary["records"] == distinct + summary["link"]["duplicate"]
    assert sum(summary["verdicts"].values()) == rows
    assert min(summary["lost_on_link"], summary["link"]["duplicate"], summary["poison"]) > 0
    assert duckdb.sql(f"SELECT count(*) FROM '{made}/poison.parquet'").fetchall() == [(summary["poison"],)]
    assert duckdb.sql(f"SELECT count(*) FROM '{made}/crash.parquet'").fetchall() == [(1,)]


def test_records_lie_by_the_hour_of_receipt_and_in_its_order(made: Path) -> None:
    hours = sorted(path.parent.relative_to(made).as_posix() for path in made.rglob("short.parquet"))
    assert hours == ["telemetry/date=2025-11-19/hour=22", "telemetry/date=2025-11-19/hour=23"]
    wrong = duckdb.sql(
        f"""SELECT count(*) FROM (
            SELECT date, hour, received_ms, log_offset,
                   lag(received_ms) OVER (PARTITION BY partition ORDER BY log_offset) AS before,
                   lag(log_offset) OVER (PARTITION BY partition ORDER BY log_offset) AS last
            FROM read_parquet('{made}/telemetry/*/*/*.parquet', hive_types_autocast = false))
        WHERE strftime(make_timestamp(received_ms * 1000), '%Y-%m-%d %H') <> date || ' ' || hour
           OR received_ms < before OR log_offset <> coalesce(last + 1, 0)"""
    ).fetchall()
    assert wrong == [(0,)]


def test_every_verdict_is_the_one_that_the_receive_time_asks_for(made: Path) -> None:
    found = dict(
        duckdb.sql(
            f"""SELECT verdict, count(*) FROM '{made}/telemetry/*/*/*.parquet'
            WHERE (verdict = 'late') = (received_ms - t0_ms > 30000 AND t0_ms > 1577836800000)
              AND (verdict = 'clock_unset') = (t0_ms < 1577836800000)
            GROUP BY 1"""
        ).fetchall()
    )
    assert found == orjson.loads((made / "run.json").read_bytes())["verdicts"]
    assert set(found) == {"ok", "late", "clock_unset"}


def test_the_digests_in_run_json_are_those_of_the_files(made: Path) -> None:
    files = orjson.loads((made / "run.json").read_bytes())["files"]
    assert {f"telemetry/date=2025-11-19/hour={h}/short.parquet" for h in (22, 23)} < set(files)
    for name, about in files.items():
        raw = (made / name).read_bytes()
        assert about == {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}


def test_truth_ends_with_the_last_step_that_was_driven_and_nothing_ends_before_it_begins(made: Path) -> None:
    rows = [orjson.loads(line) for line in (made / "truth.jsonl").read_bytes().splitlines()]
    assert max(row["to_ms"] for row in rows if row["kind"] == "trip") == START_MS + 250_000
    assert all(row["from_ms"] <= row["to_ms"] for row in rows if row["to_ms"] is not None)


def test_the_payloads_are_those_of_the_run_that_would_have_been_sent(made: Path) -> None:
    world = World(SHORT)
    sent = [m for slot in world.slots() for m in slot.messages] + take_due(world.emitter.queue)
    wanted = sorted(m.payload for m in sent if m.channel == "telemetry" and m.flag != "poison")
    stored = duckdb.sql(f"SELECT value FROM '{made}/telemetry/*/*/*.parquet'").fetchall()
    assert sorted(value for (value,) in stored) == wanted


def test_a_day_that_is_there_is_not_made_again(made: Path) -> None:
    settings = Settings(paths={"home": str(made.parents[1])})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="exists; give another id or remove it"):
        day.make(SHORT, settings, "short", lambda _: None)


def test_a_day_that_is_stopped_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(paths={"home": str(tmp_path)})  # type: ignore[arg-type]
    monkeypatch.setattr(day, "stop_flag", lambda _: nullcontext(lambda: True))
    with pytest.raises(OdographError, match="nothing of it was kept"):
        day.make(SHORT.model_copy(update={"faults": ()}), settings, "halted", lambda _: None)
    assert list((tmp_path / "days").iterdir()) == []
