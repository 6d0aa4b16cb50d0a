"""Rows as files: what is in them, and whom the server gives them to."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pandas as pd
import pyarrow.parquet as pq
import pytest
from starlette.requests import Request
from starlette.responses import Response
from structlog.testing import capture_logs

from dashboard import auth, routes
from dashboard.auth import LOCAL, Reader
from dashboard.query_cache import VehicleScope, acting
from dashboard.shared import charts, downloads, text

AT = datetime(2026, 11, 20, 8, 30, 0, 250_000, tzinfo=UTC)
ROWS = pd.DataFrame(
    {
        "opened_at": pd.to_datetime(pd.Series([AT, None])).dt.tz_convert("Europe/Paris"),
        "note": ["=HYPERLINK(1)", "hot, and loud"],
        "distance_m": [-12.5, float("nan")],
        "dwell": [timedelta(minutes=2), None],
        "path": [[[8.4, 49.0], [8.5, 49.0]], None],
        "frames": [Decimal(7), None],
        "odd": ["@you", 3],
    }
)


def test_a_csv_has_times_in_utc_spans_in_seconds_and_no_formula() -> None:
    assert downloads.to_csv(ROWS).decode().splitlines() == [
        "opened_at,note,distance_m,dwell_s,path,frames,odd",
        "2026-11-20T08:30:00.250000Z,'=HYPERLINK(1),-12.5,120.0,\"[[8.4,49.0],[8.5,49.0]]\",7.0,'@you",
        ',"hot, and loud",,,,,3',
    ]


def test_parquet_has_the_same_rows_with_their_types_and_as_they_were_given() -> None:
    found = pq.read_table(io.BytesIO(downloads.to_parquet(ROWS)))
    assert str(found.schema.field("opened_at").type) == "timestamp[ns, tz=UTC]"
    assert found.to_pylist()[0] == {
        "opened_at": pd.Timestamp(AT),
        "note": "=HYPERLINK(1)",
        "distance_m": -12.5,
        "dwell_s": 120.0,
        "path": "[[8.4,49.0],[8.5,49.0]]",
        "frames": 7.0,
        "odd": "@you",
    }
    assert found.column("odd").to_pylist() == ["@you", "3"]


def test_a_charts_rows_are_in_utc_across_the_hour_that_comes_twice_and_name_their_unit() -> None:
    paris = ZoneInfo("Europe/Paris")
    times = pd.date_range("2026-10-25T00:30:00Z", periods=4, freq="30min")
    frame = text.local(pd.DataFrame({"bucket": times, "speed": [1.0, 2.0, 3.0, 4.0]}), paris, "bucket")
    assert [f"{t:%H:%M}" for t in frame["bucket"]] == ["02:30", "02:00", "02:30", "03:00"]
    found = downloads.of_chart(charts.trend(frame, "bucket", "speed", "km/h"), paris)
    assert list(found.columns) == ["time", "value (km/h)"]
    assert list(found["time"]) == list(times)


def answer(
    of: str, key: str, form: str, reader: Reader = LOCAL, note: Callable[..., None] = lambda *_: None
) -> Response:
    scope = {"type": "http", "method": "GET", "path": downloads.PATH, "headers": []}
    scope |= {"state": {"reader": reader}}
    query = f"of={of}&key={key}&as={form}".encode()
    with acting(reader.scope), pytest.MonkeyPatch.context() as patched:
        patched.setattr(auth, "note", note)
        found: Response = routes.taken_routes("UTC")[0].endpoint(Request(scope | {"query_string": query}))
    return found


def test_the_server_gives_what_a_session_shows_and_nothing_once_it_has_gone() -> None:
    shown = downloads.Shown()
    downloads.sessions()[shown.token] = shown
    shown.put("worst vehicles", lambda: pd.DataFrame({"frames": [3]}))
    given = answer(shown.token, "worst vehicles", "CSV")
    assert (given.status_code, given.body) == (200, b"frames\n3\n")
    assert given.headers["content-disposition"].startswith(
        "attachment; filename*=UTF-8''odograph_worst_vehicles_2"
    )
    gone = [
        (shown.token, "others", "CSV"),
        (shown.token, "worst vehicles", "XLS"),
        ("guess", "others", "CSV"),
    ]
    assert [answer(*asked).status_code for asked in gone] == [410, 410, 410]
    token = shown.token
    del shown
    assert answer(token, "worst vehicles", "CSV").status_code == 410


def test_a_file_is_noted_with_the_vehicle_of_its_rows_else_with_that_of_its_page() -> None:
    noted: dict[str, str | None] = {}
    shown = downloads.Shown()
    downloads.sessions()[shown.token] = shown
    shown.vehicle = "V1"
    shown.put("speed", pd.DataFrame({"value (km/h)": [3.0]}))
    for key, vehicles in {"trips": ["V2", "V2"], "alerts": ["V2", "V3"], "silences": ["V2", None]}.items():
        shown.put(key, pd.DataFrame({"vehicle_id": vehicles}))
    for key in shown.rows:
        answer(shown.token, key, "CSV", note=lambda _, vehicle, *__, key=key: noted.update({key: vehicle}))
    assert noted == {"speed": "V1", "trips": "V2", "alerts": None, "silences": None}


def test_rows_of_a_session_that_sees_other_vehicles_are_refused_and_who_asked_is_told() -> None:
    with acting(VehicleScope(("south",))):
        shown = downloads.Shown()
    downloads.sessions()[shown.token] = shown
    shown.put("worst vehicles", ROWS)
    with capture_logs() as told:
        for reader in (LOCAL, Reader("bob@b.c", "viewer", False, VehicleScope(("north",)))):
            assert answer(shown.token, "worst vehicles", "CSV", reader).status_code == 410
    assert [(one["event"], one["who"], one["what"]) for one in told] == [
        ("refused", "bob@b.c", "rows of a list or chart: not one of theirs")
    ]
    with capture_logs() as told:
        south = Reader("ann@b.c", "viewer", False, VehicleScope(("south",)))
        assert answer(shown.token, "worst vehicles", "CSV", south).status_code == 200
    assert told == []


def test_a_session_keeps_the_newest_lists_only() -> None:
    kept = downloads.Shown()
    for number in range(80):
        kept.put(f"list {number}", ROWS)
    assert (len(kept.rows), "list 79" in kept.rows, "list 15" in kept.rows) == (64, True, False)
