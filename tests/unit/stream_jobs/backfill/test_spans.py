"""Which spans of time a back-fill restates."""

from __future__ import annotations

from pathlib import Path

from stream_jobs.reprocess.backfill.work import Progress, spans_of
from stream_jobs.reprocess.plan import Span

HOUR = 3_600_000
MINUTE = 60_000


def test_pieces_become_whole_road_windows_joined_where_they_are_near() -> None:
    pieces = [(5 * HOUR + 1, 5 * HOUR + 90_000), (5 * HOUR + 40 * MINUTE, 6 * HOUR), (50 * HOUR, 50 * HOUR)]
    assert spans_of(pieces, MINUTE) == [
        Span(5 * HOUR, 6 * HOUR + MINUTE), Span(50 * HOUR, 50 * HOUR + MINUTE),
    ]  # fmt: skip


def test_no_pieces_are_no_spans() -> None:
    assert spans_of([], MINUTE) == []


def test_spans_that_are_restated_are_not_restated_again_unless_files_came_in(tmp_path: Path) -> None:
    spans = [Span(0, MINUTE), Span(HOUR, 2 * HOUR)]
    progress = Progress.of(tmp_path, "monday")
    assert progress.left(spans) == spans
    progress.note(spans[0])
    progress.begin(fresh=False)
    assert Progress.of(tmp_path, "monday").left(spans) == [spans[1]]
    progress.begin(fresh=True)
    assert progress.left(spans) == spans
