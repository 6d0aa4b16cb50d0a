"""The vault in a real database: locks that nobody undoes, a custody log that shows tampering, verdicts."""

from __future__ import annotations

import getpass
import hashlib
import subprocess
from typing import Any

import orjson
import psycopg
import pytest
from psycopg.rows import dict_row

from infra.contract.verdict import ClockLimits
from infra.settings.sections import Crash
from load_tests.drills.poison.evidence import INGEST, refused
from stream_jobs.crashes.verdict import settle
from stream_jobs.events.rows import Record, as_json, crash_row
from stream_jobs.events.writes import INSERT_CRASHES
from tests.integration.events_support import T0, VINS, change, crash, produce, rows, until_count
from tests.support import Lane, odograph_command

pytestmark = pytest.mark.integration


def stored(lane: Lane, *records: tuple[str, bytes]) -> None:
    """Store crash records as the event store does, in its role."""
    clocks = ClockLimits(0, 10_000, 0)
    made = [
        crash_row(Record("crash", 0, 0, T0 + 300, key.encode(), value, {}), clocks) for key, value in records
    ]
    with psycopg.connect(lane.endpoints.db_ingest_url) as connection:
        connection.execute(INSERT_CRASHES, {"rows": as_json(made)})


def open_record(vehicle: int, seq: int, event_ms: int, **changes: Any) -> tuple[str, bytes]:
    """A record without a deployment."""
    key, value = crash(vehicle, seq, event_ms)
    return key, orjson.dumps({**orjson.loads(value), "airbag_deployed": False, **changes})


def command(lane: Lane, *words: str) -> subprocess.CompletedProcess[str]:
    line = [*odograph_command(), "crash", *words]
    return subprocess.run(line, check=False, env=lane.env, capture_output=True, text=True, timeout=120)


def test_a_locked_record_stays_as_it_is_whoever_tries(lane: Lane) -> None:
    stored(lane, crash(0, 1, T0), open_record(1, 1, T0))
    ingest, owner = lane.endpoints.db_ingest_url, lane.endpoints.db_owner_url
    attempts = [
        (url, statement)
        for url in (ingest, owner)
        for statement in (
            "UPDATE odograph.crash_record SET complete = true WHERE vehicle_id = %s",
            "DELETE FROM odograph.crash_record WHERE vehicle_id = %s",
            "UPDATE odograph.crash_lock SET why = 'x' WHERE vehicle_id = %s",
            "DELETE FROM odograph.crash_lock WHERE vehicle_id = %s",
            "DELETE FROM odograph.custody WHERE vehicle_id = %s",
            "UPDATE odograph.custody SET actor = 'x' WHERE vehicle_id = %s",
        )
    ]
    for url, statement in attempts:
        with psycopg.connect(url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(statement.encode(), (VINS[0],))
    for table in ("crash_record", "crash_lock", "custody"):
        with psycopg.connect(owner) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(f"TRUNCATE odograph.{table}".encode())
    with psycopg.connect(ingest) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("INSERT INTO odograph.custody SELECT * FROM odograph.custody")
    change(lane, "SELECT odograph.crash_retire('infinity')")
    left = rows(lane, "SELECT vehicle_id, locked_by FROM serving.crash_record")
    assert left == [{"vehicle_id": VINS[0], "locked_by": "recorder"}]
    noted = rows(lane, "SELECT action, vehicle_id FROM serving.custody ORDER BY entry")
    assert [(row["action"], VINS.index(row["vehicle_id"])) for row in noted] == [
        ("received", 0), ("locked", 0), ("received", 1), ("deleted", 1),
    ]  # fmt: skip


def test_another_record_under_the_same_identity_is_noted_once_and_changes_nothing(lane: Lane) -> None:
    for record in (open_record(0, 1, T0), open_record(0, 1, T0), *[open_record(0, 1, T0, belt_on=False)] * 2):
        stored(lane, record)
    assert [row["action"] for row in rows(lane, "SELECT action FROM serving.custody ORDER BY entry")] == [
        "received", "refused",
    ]  # fmt: skip


def test_the_commands_lock_export_and_find_out_who_tampered(lane: Lane, tmp_path: Any) -> None:
    produce(lane, "crash", [open_record(0, 1, T0, crash_id="=1+1")], at_ms=T0 + 300)
    with lane.process("jobs", "events"):
        until_count(lane, "crash_record", 1)
    assert command(lane, "lock", "=1+1", "--by", "A. Clerk", "--why", "court order").stdout == "locked\n"
    made = [command(lane, "export", "=1+1", "--out", str(tmp_path / name)).stdout for name in "ab"]
    (digest, path), (again, other) = (line.split() for line in made)
    assert (
        digest == again == hashlib.sha256((tmp_path / "a" / path.rpartition("/")[2]).read_bytes()).hexdigest()
    )
    assert other.startswith(str(tmp_path / "b"))
    sound = command(lane, "verify")
    assert (sound.returncode, sound.stdout.splitlines()[:2]) == (0, [
        "4 entries, 1 records, 1 locked, 0 deleted",
        "Kafka's log: compared, 0 records refused as dead letters, 0 messages not read yet",
    ])  # fmt: skip
    written = rows(lane, "SELECT actor, action, detail FROM odograph.custody ORDER BY entry")
    assert [(row["actor"], row["action"], row["detail"]) for row in written[:3]] == [
        ("odograph_ingest", "received", ""),
        ("odograph_ingest", "locked", "A. Clerk: court order"),
        ("odograph_ingest", "exported", getpass.getuser()),
    ]
    change(lane, "ALTER TABLE odograph.custody DISABLE TRIGGER append_only")
    change(lane, "UPDATE odograph.custody SET actor = 'nobody' WHERE entry = 2")
    found = command(lane, "verify")
    assert found.returncode == 1
    assert "entry 2 was changed" in found.stdout


def test_a_role_of_a_program_writes_no_entry_and_removes_nothing(lane: Lane) -> None:
    urls = (lane.endpoints.db_ingest_url, lane.endpoints.db_dispatch_url)
    assert [(url, what) for url in urls for what in INGEST if not refused(url, what)] == []


WINDOW = """
INSERT INTO odograph.vehicle_window (vehicle_id, window_start, window_s, frames, frames_late, samples,
    out_of_range, first_event, last_event, speed_max_kmh, speed_last_kmh, distance_m, moving_s, idle_s,
    batch_id)
SELECT %s, to_timestamp(%s), 10, 10, 0, 100, 0, to_timestamp(%s), to_timestamp(%s), %s, %s, %s, 10, 0, 1
ON CONFLICT (vehicle_id, window_start) DO UPDATE SET speed_max_kmh = excluded.speed_max_kmh, revision = 1,
    speed_last_kmh = excluded.speed_last_kmh, distance_m = excluded.distance_m
"""


def drives(lane: Lane, begin_s: int, *speeds_kmh: float) -> None:
    """Windows of vehicle 0 from so long after the crash on."""
    for k, speed in enumerate(speeds_kmh):
        at = T0 / 1000 + begin_s + 10 * k
        change(lane, WINDOW, VINS[0], at, at, at + 10, speed, speed, speed / 0.36)


def passes(lane: Lane, after_s: int) -> list[str]:
    """The vehicle's time goes on; the verdicts given now."""
    change(
        lane,
        """INSERT INTO odograph.vehicle_latest (vehicle_id, event_time) VALUES (%s, to_timestamp(%s))
           ON CONFLICT (vehicle_id) DO UPDATE SET event_time = excluded.event_time""",
        VINS[0],
        T0 / 1000 + after_s,
    )
    url = lane.endpoints.db_ingest_url
    with psycopg.connect(url, row_factory=dict_row) as connection, connection.cursor() as cursor:
        return settle(cursor, Crash())


def test_a_verdict_waits_for_the_minute_after_and_follows_what_comes_late(lane: Lane) -> None:
    collision = [0, -1, -3, -7, -12, -18, -23, -27, -29, -30, *[-30] * 16]
    key, value = crash(0, 1, T0)
    body = {k: v for k, v in orjson.loads(value).items() if k != "sha256"}
    body |= {"delta_v_dt_ms": 10, "delta_v_kmh": collision, "airbag_deployed": False}
    sealed = body | {"sha256": hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()}
    stored(lane, (key, orjson.dumps(sealed)))
    drives(lane, -20, 60, 60, 30)
    assert passes(lane, 69) == []
    assert rows(lane, "SELECT verdict FROM serving.crash_record") == [{"verdict": "unverified"}]
    assert passes(lane, 70) == ["suspect"]
    assert passes(lane, 75) == []
    drives(lane, 10, 10, 0, 0, 0, 0, 0)
    assert passes(lane, 80) == ["confirmed"]
    (found,) = rows(lane, "SELECT verdict, reasons, final FROM serving.crash_record")
    assert "it stood still: 0 m half a minute later" in found["reasons"]
    assert (passes(lane, 601), passes(lane, 602)) == (["confirmed"], [])
    drives(lane, 30, 60, 60, 60)
    assert passes(lane, 700) == ["suspect"]
    curve = rows(lane, "SELECT t_ms, delta_v_kmh FROM serving.crash_delta_v ORDER BY sample")
    assert [(row["t_ms"], row["delta_v_kmh"]) for row in curve[:4]] == [(0, 0), (10, -1), (20, -3), (30, -7)]
    table = rows(lane, "SELECT t_ms, speed_kmh, brake_on FROM serving.crash_pre_crash ORDER BY sample")
    assert [tuple(row.values()) for row in table] == [(-100, 62, None), (0, 62, None)]
