"""When wall time is told to move the watermark, and what of."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry

from stream_jobs.app.progress import Board, run_clock
from stream_jobs.app.topic_writer import Message

BEGUN_MS = 1_763_000_000_000


def moment(second: float) -> str:
    return datetime.fromtimestamp(BEGUN_MS / 1000 + second, UTC).isoformat()


def board(*looks: tuple[float, str]) -> Board:
    """A query's looks for records, by the second; what each found."""
    made = Board(CollectorRegistry(), trigger_s=2.0)
    made.onQueryStarted(SimpleNamespace(id="1", name="telemetry"))  # type: ignore[arg-type]
    for second, found in looks:
        look(made, second, found)
    return made


def look(made: Board, second: float, found: str) -> None:
    if found == "nothing":
        made.onQueryIdle(SimpleNamespace(id="1", timestamp=moment(second)))  # type: ignore[arg-type]
        return
    behind = {"topic": {"0": 9}} if found == "more" else {}
    source: dict[str, Any] = {"endOffset": {"topic": {"0": 5}}, "latestOffset": behind}
    progress = {"name": "telemetry", "id": "1", "batchId": 0, "timestamp": moment(second), "durationMs": {}}
    made.progressed(progress | {"numInputRows": int(found == "records"), "sources": [source]})


def told(made: Board) -> list[int]:
    """Seconds that the clock is told; asked twice."""
    written: list[Any] = []
    for _ in range(2):
        run_clock(made, 15.0, written.extend)
    assert all(isinstance(each, Message) and not each.value for each in written)
    return [(each.at_ms - BEGUN_MS) // 1000 for each in written]


def test_the_moment_of_the_last_look_is_told_once_when_nothing_came_for_so_long() -> None:
    quiet = board((0, "records"), *((s, "nothing") for s in range(2, 15, 2)))
    assert told(quiet) == []
    look(quiet, 16, "nothing")
    assert told(quiet) == [16]
    look(quiet, 18, "records")  # what was told
    assert told(quiet) == []
    for second in range(20, 35, 2):
        look(quiet, second, "nothing")
    assert told(quiet) == [34]


def test_records_and_a_backlog_put_it_off() -> None:
    seconds = range(2, 15, 2)
    for found in ("records", "more"):
        busy = board((0, "records"), *((s, "nothing") for s in seconds), (16, found), (18, "nothing"))
        assert told(busy) == [], found


def test_after_a_time_without_looks_what_kafka_did_not_give_may_be_on_its_way() -> None:
    away = board((0, "records"), (2, "nothing"), (600, "nothing"), (602, "nothing"), (614, "nothing"))
    assert told(away) == []
    look(away, 616, "nothing")
    assert told(away) == [616]


def test_before_its_first_look_nothing_is_known() -> None:
    assert told(board()) == []
