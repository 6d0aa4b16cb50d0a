"""What the sink of the query telemetry writes of an empty batch, and where the answer to a commit is lost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from stream_jobs.app import sinks
from stream_jobs.app.telemetry import BUCKET

BUCKET_ROW = pa.table(
    {
        "kind": pa.array([BUCKET]), "vehicle_id": pa.array([None], pa.string()),
        "body": pa.array([None], pa.binary()), "bucket": pa.array([0], pa.int32()), "open_from_ms": [0],
    }
)  # fmt: skip


def test_shares_of_another_checkpoint_are_forgotten_again_where_the_commit_was_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []

    def execute(_connection: object, statement: str, _parameters: object = None) -> int:
        said.append(statement)
        return 0

    monkeypatch.setattr(sinks, "execute", execute)
    tries = iter((2, 1))

    def run(work: Any) -> None:
        for _ in range(next(tries)):
            work(None)

    database: Any = SimpleNamespace(run=run)
    claims: Any = SimpleNamespace(claim=lambda *_: True, query_id="q", logs={})
    alerts: Any = SimpleNamespace(open=lambda: None, write=lambda _records: None)
    batch: Any = SimpleNamespace(toArrow=lambda: BUCKET_ROW)
    sink = sinks.TelemetrySink(database, claims, alerts, "telemetry", 60)
    sink(batch, 0)
    assert said.count(sinks.SQL["forget_shares"]) == 2
    sink(batch, 1)
    assert said.count(sinks.SQL["forget_shares"]) == 2, "once in a process is enough"


def test_the_first_batch_is_in_the_ledger_though_it_brings_nothing() -> None:
    claimed: list[int] = []

    def claim(_connection: object, batch_id: int, _rows: int) -> bool:
        claimed.append(batch_id)
        return False

    database: Any = SimpleNamespace(run=lambda work: work(None))
    claims: Any = SimpleNamespace(claim=claim, query_id="q", logs={})
    alerts: Any = SimpleNamespace(open=lambda: None, write=lambda _records: None)
    batch: Any = SimpleNamespace(toArrow=lambda: BUCKET_ROW.slice(0, 0))
    sink = sinks.TelemetrySink(database, claims, alerts, "telemetry", 60)
    for batch_id in (0, 1):
        sink(batch, batch_id)
    assert claimed == [0]
