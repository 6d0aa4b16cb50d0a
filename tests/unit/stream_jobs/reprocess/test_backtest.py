"""Alerts of changed rules beside those of the rules in force."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from pyspark.sql import SparkSession

from infra.contract.errors import ConfigError
from infra.contract.verdict import clock_limits
from infra.settings.settings import Settings
from stream_jobs.alerts.derive import Alert, AlertRow
from stream_jobs.archive.writer import write_files
from stream_jobs.reprocess.backtest import (
    Change,
    Comparison,
    as_json,
    backtest,
    compare,
    episodes,
    parted,
)
from stream_jobs.reprocess.queue import Span
from tests.support_frames import frame as frame_of
from tests.support_frames import vin
from tests.unit.stream_jobs.rules.traces import T0, found, frame, level, rule
from tests.unit.stream_jobs.window_support import recorded

pytestmark = pytest.mark.slow

HOUR = 3_600_000
KEYS = {"kind": "level", "value": "x", "beyond": "above", "raise_for_s": 2, "clear_for_s": 10}


def trial(folder: Path, limit: float, values: list[float]) -> list[Alert]:
    """The alerts of a level at ``limit`` over values a second apart."""
    mine = rule(folder, **KEYS, limit=limit)
    rows = found(mine, [frame(s, level(v, limit, limit)) for s, v in enumerate(values)])
    return episodes(rows, [mine], T0, T0 + HOUR)


COURSE = [90.0] * 10 + [104.0] * 20 + [90.0] * 60 + [97.0] * 20 + [90.0] * 60


def test_a_lower_limit_raises_more_and_sooner_and_loses_nothing(tmp_path: Path) -> None:
    before, after = trial(tmp_path, 100, COURSE), trial(tmp_path, 95, COURSE)
    assert [(e.opened_ms - T0, (e.cleared_ms or 0) - T0) for e in before] == [(12_000, 39_000)]
    compared = compare(before, after)
    assert [e.opened_ms - T0 for e in compared.raised] == [92_000]
    assert (compared.lost, len(compared.kept)) == ((), 1)
    assert compared.by_rule() == {"mine": {"in_force": 1, "changed": 2, "raised": 1, "lost": 0, "kept": 1}}


def test_a_higher_limit_loses_what_it_does_not_reach(tmp_path: Path) -> None:
    compared = compare(trial(tmp_path, 95, COURSE), trial(tmp_path, 100, COURSE))
    assert [e.opened_ms - T0 for e in compared.lost] == [92_000]
    assert compared.raised == ()
    assert as_json(compared)["kept"][0]["later_s"] == 0


def test_the_same_rule_changes_nothing(tmp_path: Path) -> None:
    (same,) = trial(tmp_path, 100, COURSE)
    assert compare([same], [same]) == Comparison((), (), (Change(same, same),))


def test_an_alert_that_begins_before_the_span_does_not_count(tmp_path: Path) -> None:
    mine = rule(tmp_path, **KEYS, limit=100)
    rows = found(mine, [frame(s, level(104.0)) for s in range(20)])
    assert episodes(rows, [mine], T0 + 5000, T0 + HOUR) == []


def test_both_sets_run_at_once_under_names_of_their_own() -> None:
    def row(name: str) -> AlertRow:
        return AlertRow("id", "V", name, 1, "WARNING", T0, None, None, "", 1, 1, T0, None, None)

    plain, changed = parted([row("mine.P0217"), row("mine@changed.P0217")])
    assert [each.rule for each in (*plain, *changed)] == ["mine.P0217", "mine.P0217"]


@pytest.mark.parametrize(("one", "other", "same"), [((0, 10), (10, 20), True), ((0, 10), (11, 20), False)])
def test_alerts_that_overlap_are_the_same(one: tuple[int, int], other: tuple[int, int], same: bool) -> None:
    first, second = (
        Alert(
            None,
            "V",
            "mine",
            1,
            "WARNING",
            "",
            opened,
            ended,
            ended,
            None,
            None,
            None,
            1,
            False,
            None,
            None,
            "",
        )
        for opened, ended in (one, other)
    )
    assert bool(compare([first], [second]).kept) is same


def no_spark() -> SparkSession:
    raise AssertionError("a rule that lasts needs no Spark")


def test_a_changed_rule_is_backtested_over_the_archive_with_a_run_up(tmp_path: Path) -> None:
    settings = Settings(paths={"home": str(tmp_path)})  # type: ignore[arg-type]
    hot = {**KEYS, "value": "coolant_temp_c"}
    (tmp_path / "a").mkdir()
    in_force, changed = rule(tmp_path, **hot, limit=100), rule(tmp_path / "a", **hot, limit=95)
    records = [
        (T0 + s * 1000 + 1500, orjson.dumps(frame_of(v, s, T0 + s * 1000, coolant_temp_c=c)))
        for s, c in enumerate(COURSE) for v in (1, 2)
    ]  # fmt: skip
    write_files(tmp_path / "archive" / "telemetry", [recorded(records)], clock_limits(settings))

    def over(span: Span, lead_ms: int) -> Comparison:
        return backtest(no_spark, settings, tmp_path, [in_force], [changed], span, lead_ms)

    whole = over(Span(T0, T0 + HOUR), 0)
    assert [(e.vehicle_id, e.opened_ms - T0) for e in whole.raised] == [(vin(1), 93_000), (vin(2), 93_000)]
    assert [(c.after.opened_ms - T0, c.later_s) for c in whole.kept] == [(13_000, 0.0)] * 2
    one = over(Span(T0 + 60_000, T0 + HOUR, vin(2)), 60_000)
    assert [(e.vehicle_id, e.opened_ms - T0) for e in one.raised] == [(vin(2), 93_000)]
    assert (one.kept, one.lost) == ((), ())
    with pytest.raises(ConfigError, match="has nothing of that span"):
        over(Span(T0 - 48 * HOUR, T0 - 47 * HOUR), 0)
