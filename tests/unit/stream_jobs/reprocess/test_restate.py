"""What is written of windows: those whose records have expired stay as they are stored."""

from __future__ import annotations

from typing import Any

import pytest

from infra.settings.settings import Settings
from stream_jobs.app.sinks import VEHICLE
from stream_jobs.reprocess import restate
from stream_jobs.reprocess.feed import Feeder
from stream_jobs.reprocess.queue import moment
from stream_jobs.windows.vehicle import NO_WINDOWS

TEN_MS = 36_000_000


@pytest.mark.parametrize(
    ("whole_ms", "left"), [(TEN_MS, []), (TEN_MS + 20_000, [(moment(TEN_MS), moment(TEN_MS + 20_000))])]
)
def test_stored_windows_of_which_records_have_expired_are_not_restated_and_new_ones_come(
    monkeypatch: pytest.MonkeyPatch, whole_ms: int, left: list[Any]
) -> None:
    done: list[tuple[str, Any]] = []
    connection: Any = object()
    monkeypatch.setattr(restate, "require_lock", lambda _: None)
    monkeypatch.setattr(restate, "stage", lambda *_: None)
    monkeypatch.setattr(restate, "execute", lambda _, sql, values=None: done.append((sql, values)))
    monkeypatch.setattr(restate.queue, "mark_taken_in", lambda *_: None)
    monkeypatch.setattr(restate, "restate_rows", lambda *_: 3)
    settings = Settings()
    database: Any = None
    restater = restate.Restater(settings, database, Any, Feeder())  # type: ignore[arg-type]
    windows = (TEN_MS, TEN_MS + 60_000)

    counts = restater._write_windows(windows, whole_ms, {VEHICLE: NO_WINDOWS}, [], None, connection)
    assert counts["vehicle_windows"] == 3
    bounds = [(v["since"], v["until"]) for sql, v in done if sql == VEHICLE.leave_stored()]
    assert bounds == left
    assert VEHICLE.leave_stored().strip() == (
        "DELETE FROM staged_vehicle_window s USING odograph.vehicle_window w\n"
        "WHERE s.vehicle_id = w.vehicle_id AND s.window_start = w.window_start "
        "AND w.window_start >= %(since)s AND w.window_start < %(until)s"
    )
