"""What a checkpoint and the ledger say of a batch, and the difference of the two."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from infra.contract.errors import ServiceError
from infra.settings.settings import load
from stream_jobs.app.database import Database
from stream_jobs.archive.manifest import HOUR_MS, TELEMETRY, archive_of, hour_name
from stream_jobs.recovery import ledger
from stream_jobs.recovery.checkpoints import Checkpoint
from stream_jobs.recovery.files import LocalFiles
from stream_jobs.recovery.ledger import BEGUN, GAP_S, BatchClaims, Gap, _move_on, gap_of, reconciled
from stream_jobs.reprocess.queue import Run, Span

QUERY_ID = "11111111-2222-3333-4444-555555555555"


def checkpoint(home: Path, ends: dict[int, dict[str, int]]) -> Checkpoint:
    """A checkpoint with a file of offsets a batch, as Spark writes it."""
    made = Checkpoint(LocalFiles(str(home)), "telemetry")
    made.write("metadata", json.dumps({"id": QUERY_ID}))
    for batch_id, end in ends.items():
        made.write(f"offsets/{batch_id}", f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps({"t": end})}')
    return made


def test_a_batch_begins_where_the_one_before_it_ends(tmp_path: Path) -> None:
    claims = BatchClaims("telemetry", checkpoint(tmp_path, {0: {"0": 5}, 1: {"0": 9, "1": 2}}))
    assert claims.query_id == QUERY_ID
    assert claims.range_of(0) == {("t", 0): (None, 5)}
    assert claims.range_of(1) == {("t", 0): (5, 9), ("t", 1): (None, 2)}


def test_a_gap_is_what_one_of_the_two_does_not_have() -> None:
    told, done = {"t": {"0": 5, "1": 7}, "u": {"0": 0}}, {"t": {0: 9, 1: 7}}
    assert Gap(QUERY_ID, 3, told, 4, done).differing() == {("t", 0): (5, 9)}


def test_a_checkpoint_without_state_that_is_older_goes_on_where_the_ledger_ends(tmp_path: Path) -> None:
    made = checkpoint(tmp_path, {0: {"0": 5}, 1: {"0": 9}})
    made.write("commits/1", "v1\n{}")
    _move_on(made, Gap(QUERY_ID, 4, {"t": {"0": 30}}, 1, {"t": {0: 9}}))
    assert (made.ends_of(4), made.ends_of(3)) == ({"t": {0: 30}}, {"t": {0: 9}}), "Spark asks for both"
    assert made.batches("commits") == [1, 4]


def answering(*rows: tuple[Any, ...]) -> Any:
    """A connection whose every statement gives these rows."""
    return SimpleNamespace(execute=lambda *_: SimpleNamespace(fetchall=lambda: [*rows]))


def test_tables_that_know_nothing_of_the_checkpoint_lack_all_of_it(tmp_path: Path) -> None:
    made = checkpoint(tmp_path, {0: {"0": 5}, 1: {"0": 9}})
    assert gap_of(answering(), made) is None, "the checkpoint has nothing yet either"
    made.write("commits/1", "v1\n{}")
    whole = Gap(QUERY_ID, BEGUN, {}, 1, {"t": {0: 9}})
    assert gap_of(answering(), made) == whole
    assert gap_of(answering((BEGUN, {})), made) == whole, "no batch is in since the account began"
    assert whole.differing() == {("t", 0): (0, 9)}
    assert gap_of(answering((1, {"t": {"0": 9}})), made) is None
    assert gap_of(answering((1, None)), made) is None, "a line of an older version says nothing"
    made.write("offsets/2", 'v1\n{}\n{"t":{"0":12}}')
    assert gap_of(answering((2, {"t": {"0": 12}})), made) is None, "Spark had not committed it yet"
    assert gap_of(answering((2, {"t": {"0": 11}})), made) is not None


def test_no_batch_goes_into_tables_that_lack_the_ones_before_it(tmp_path: Path) -> None:
    claims = BatchClaims("telemetry", checkpoint(tmp_path, {0: {"0": 5}, 1: {"0": 9}}))
    nothing = answering((1, None, None))
    assert claims.claim(nothing, 0, 1), "the first one begins the account"
    with pytest.raises(ServiceError, match="one of them is older"):
        claims.claim(nothing, 1, 1)
    assert claims.claim(answering((1, 0, None)), 1, 1), "a line of an older version says nothing"


def test_what_makes_a_gap_good_has_more_time_than_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = checkpoint(tmp_path, {0: {"0": 5}})
    made.write("commits/0", "v1\n{}")
    asked: list[float] = []

    def run(self: Database, work: Any) -> Any:
        asked.append(self.attempt_s)
        return work(answering((BEGUN, {})))

    monkeypatch.setattr(Database, "run", run)
    monkeypatch.setattr("stream_jobs.recovery.ledger.execute", lambda *_: 0)
    gaps: list[Gap] = []
    database = Database("", "telemetry", threading.Event(), attempt_s=30.0)
    assert not reconciled(database, made, lambda _connection, gap: gaps.append(gap))
    assert (asked, [gap.line for gap in gaps]) == ([30.0, GAP_S], [BEGUN])


class CutLog:
    """Partition 0 has all its records; of 1 the oldest were dropped, of 2 all."""

    def __init__(self, _bootstrap: str) -> None:
        """Nothing to connect to."""

    def __enter__(self) -> CutLog:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to close."""

    def spans(self, _topic: str) -> dict[int, tuple[int, int]]:
        return {0: (0, 9), 1: (5, 9), 2: (7, 7)}

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        return self.spans(topic)[partition]

    def at(self, _topic: str, partition: int, offset: int) -> Any:
        return SimpleNamespace(received_ms=FIRST_MS) if (partition, offset) == (1, 5) else None


FIRST_MS = 500_000 * HOUR_MS + 1_800_000


@pytest.mark.parametrize(
    ("oldest_h", "region", "runs"), [(-1, "", 1), (0, "", 0), (-1, "A", 0), (None, "", 0)]
)
def test_where_a_new_checkpoint_has_a_part_of_windows_they_are_made_again_if_the_archive_has_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, oldest_h: int | None, region: str, runs: int
) -> None:
    if oldest_h is not None:
        hour_ms = (500_000 + oldest_h) * HOUR_MS
        (archive_of(tmp_path) / TELEMETRY / hour_name(hour_ms)).mkdir(parents=True)
    spans: list[Span] = []

    def begin(_connection: object, _kind: str, span: Span) -> Run:
        spans.append(span)
        return Run(1, span, None)

    monkeypatch.setattr(ledger, "LogReader", CutLog)
    monkeypatch.setattr(ledger, "begin", begin)
    where: Any = SimpleNamespace(kafka_bootstrap="")
    settings = load(paths={"home": tmp_path}, region={"name": region})
    ledger.recompute_begin(settings, where, answering(), "telemetry")
    assert len(spans) == runs
    for span in spans:
        assert span.from_ms <= FIRST_MS - 1000 * settings.jobs.lateness_s - 1000 * settings.jobs.road_window_s
        assert span.until_ms >= FIRST_MS + 1000 * settings.jobs.ahead_s + 1000 * settings.jobs.road_window_s


def test_a_query_without_state_is_taken_behind_what_kafka_has_dropped_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = checkpoint(tmp_path, {0: {"0": 5}, 1: {"0": 8, "1": 3, "2": 0}, 2: {"0": 9, "1": 4, "2": 7}})
    for batch_id in (0, 1):  # 2 is begun: what it wants to read is gone
        made.write(f"commits/{batch_id}", "v1\n{}")
    entered: list[Any] = []
    monkeypatch.setattr(ledger, "LogReader", CutLog)
    monkeypatch.setattr(ledger, "enter", lambda _connection, *line: entered.append(line))
    told = {"t": {"0": 8, "1": 3, "2": 0}}
    assert ledger.pass_over(answering((1, told)), made, "") == 2 + 7
    behind = {"t": {0: 8, 1: 5, 2: 7}}
    assert entered == [("telemetry", QUERY_ID, 4, behind)]
    assert ledger.pass_over(answering((4, json.loads(json.dumps(behind)))), made, "") == 0
    assert ledger.pass_over(answering(), made, "") == 0, "it never took anything"

    monkeypatch.setattr(Database, "run", lambda _self, work: work(answering((4, behind))))
    database = Database("", "telemetry", threading.Event())
    assert not reconciled(database, made, None, stateless=True)
    assert (made.ends_of(4), made.batches("commits")[-1], made.ends_of(3)) == (behind, 4, made.ends_of(1))
