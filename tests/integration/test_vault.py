"""The vault in a real database: locks that nobody undoes, a custody log that shows tampering, verdicts."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Any

import orjson
import psycopg
import pytest
from psycopg.rows import dict_row

from infra.clients import database_url
from infra.clients.db import system_user
from infra.clients.kafka import Record
from infra.contract.errors import ServiceError
from infra.contract.legal_basis import legal_basis
from infra.contract.verdict import ClockLimits
from infra.settings.sections import Crash
from infra.sql import queries
from infra.stack.access import identity
from infra.stack.stack import Stack
from load_tests.drills.poison.evidence import INGEST, REHASH, by_owner, refused
from stream_jobs.archive.manifest import archive_of
from stream_jobs.crashes import tables
from stream_jobs.crashes.verdict import settle
from stream_jobs.events.rows import crash_row, insert_rows
from stream_jobs.events.writes import Sealing
from tests.integration.events_support import T0, VINS, change, crash, produce, rows, until_count
from tests.support import Lane
from tests.unit.stream_jobs.archive.archive_support import batches

pytestmark = [pytest.mark.integration, pytest.mark.tables]

COURT = legal_basis("court-order: docket 7")


def stored(lane: Lane, *records: tuple[str, bytes]) -> None:
    """Store crash records as the event store does, in its role."""
    clocks = ClockLimits(0, 10_000, 0)
    made = [crash_row(Record("crash", 0, 0, T0 + 300, value, {}, key), clocks) for key, value in records]
    sealing = Sealing(identity.device_trust(lane.settings), identity.notary(lane.settings))
    with psycopg.connect(lane.endpoints.db_ingest_url) as connection:
        sealed = [sealing.received(row, connection.info.user) for row in made]
        insert_rows(connection.cursor(), "crash_record", sealed)


def open_record(vehicle: int, seq: int, event_ms: int, **changes: Any) -> tuple[str, bytes]:
    """A record without a deployment."""
    key, value = crash(vehicle, seq, event_ms)
    return key, orjson.dumps({**orjson.loads(value), "airbag_deployed": False, **changes})


def command(lane: Lane, *words: str) -> subprocess.CompletedProcess[str]:
    return lane.run("crash", *words)


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
    notary = identity.notary(lane.settings)
    assert tables.retire(owner, (VINS[1], 5, "5-1"), "retention", notary)
    with pytest.raises(ServiceError, match="is locked"):
        tables.retire(owner, (VINS[0], 5, "5-1"), "retention", notary)
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


@pytest.mark.usefixtures("topics")
def test_the_commands_lock_export_and_find_out_who_tampered(lane: Lane, tmp_path: Any) -> None:
    produce(lane, "crash", [open_record(0, 1, T0, crash_id="=1+1")], at_ms=T0 + 300)
    with lane.process("jobs", "events"):
        until_count(lane, "crash_record", 1)
    assert command(lane, "lock", "=1+1", "--by", "A. Clerk", "--why", "court order").stdout == "locked\n"
    for words in ((), ("--basis", "insurance: policy 7")):
        refusal = command(lane, "export", "=1+1", "--out", str(tmp_path / "none"), *words)
        assert (refusal.returncode, "court-order" in refusal.stderr) == (2, True)
    assert not (tmp_path / "none").exists()
    basis = ("--basis", "court-order: docket 7", "--by", "A. Clerk")
    made = [command(lane, "export", "=1+1", "--out", str(tmp_path / name), *basis).stdout for name in "ab"]
    (digest, path), (again, other) = (line.split() for line in made)
    assert digest == again == hashlib.sha256(Path(path).read_bytes()).hexdigest()
    assert Path(path).stat().st_mode & 0o077 == 0
    assert other.startswith(str(tmp_path / "b"))
    sound = command(lane, "verify")
    assert (sound.returncode, sound.stdout.splitlines()[:4]) == (0, [
        "4 entries, 1 records, 1 locked, 0 deleted",
        "signed by vehicles: 1 absent",
        "anchored: NOT anchored",
        "Kafka's log: compared, 0 records refused as dead letters, 0 messages not read yet",
    ])  # fmt: skip
    written = rows(lane, "SELECT actor, action, detail FROM odograph.custody ORDER BY entry")
    assert [(row["actor"], row["action"], row["detail"]) for row in written[:3]] == [
        ("odograph_events", "received", ""),
        ("odograph_ingest", "locked", "A. Clerk: court order"),
        ("odograph_ingest", "exported", "A. Clerk, court-order: docket 7"),
    ]
    noted = rows(lane, "SELECT detail FROM serving.audit_log WHERE action = 'crash exported'")
    assert [row["detail"].endswith("A. Clerk, court-order: docket 7") for row in noted] == [True, True]
    research = command(lane, "export", "=1+1", "--out", str(tmp_path), "--basis", "research: study 12")
    assert research.returncode == 0, research.stderr
    (anonymous,) = tmp_path.glob("*.zip")
    assert VINS[0].encode() not in anonymous.read_bytes() + anonymous.name.encode()
    with psycopg.connect(lane.endpoints.db_ingest_url) as connection:
        key = (VINS[0], 5, "=1+1", "A. Clerk", "", "0" * 64, "")
        with pytest.raises(psycopg.errors.CheckViolation, match="legal basis"):
            connection.execute("SELECT dispatch.crash_exported(%s, %s, %s, %s, %s, %s, %s)", key)
    change(lane, "ALTER TABLE odograph.custody DISABLE TRIGGER append_only")
    change(lane, "UPDATE odograph.custody SET actor = 'nobody' WHERE entry = 2")
    found = command(lane, "verify")
    assert found.returncode == 1
    assert "entry 2 was changed" in found.stdout


def test_a_role_of_a_program_writes_no_entry_and_removes_nothing(lane: Lane) -> None:
    where = lane.endpoints
    urls = (where.db_ingest_url, where.db_dispatch_url, *where.db_program_urls.values())
    assert [(url, what) for url in urls for what in INGEST if not refused(url, what)] == []


def signed_record(lane: Lane, vehicle: int, seq: int) -> tuple[str, bytes]:
    """A record without a deployment, signed by its vehicle."""
    key, value = open_record(vehicle, seq, T0)
    body = {name: each for name, each in orjson.loads(value).items() if name != "sha256"}
    sealed = identity.record_signer(lane.settings)
    assert sealed is not None
    return key, sealed(body)


OWN_HASH = "encode(sha256(convert_to(raw, 'UTF8')), 'hex')"
REWRITE = f"""
UPDATE odograph.crash_record SET raw = replace(raw, '-40.0', '-4.0'), delta_v_max_kmh = -4,
    record = replace(record::text, '-40.0', '-4.0')::jsonb WHERE vehicle_id = '{VINS[0]}';
UPDATE odograph.custody c SET digest = {OWN_HASH} FROM odograph.crash_record r
WHERE r.vehicle_id = c.vehicle_id AND c.vehicle_id = '{VINS[0]}'
"""
RECEIVED = f"""
ALTER TABLE odograph.crash_record ENABLE ALWAYS TRIGGER arrived;
SET SESSION AUTHORIZATION odograph_ingest;
INSERT INTO odograph.crash_record (vehicle_id, boot_id, crash_id, event_time, received_at, profile, complete,
    hash_ok, record, raw, signature, receipt)
SELECT vehicle_id, boot_id, 'made-up', event_time, received_at, profile, complete, hash_ok, record, raw,
    signature, receipt FROM odograph.crash_record WHERE vehicle_id = '{VINS[0]}';
RESET SESSION AUTHORIZATION;
ALTER TABLE odograph.crash_record DISABLE TRIGGER USER
"""
GONE = f"DELETE FROM odograph.{{}} WHERE vehicle_id = '{VINS[0]}'"
FORGERIES = {  # what a superuser does, the whole chain computed anew after it; what verify must say
    "rewrites a record": (REWRITE, "is not signed by its vehicle"),
    "rewrites a record, its signature cut off": (
        f"UPDATE odograph.crash_record SET raw = record::text, record = record - 'signature' - 'certificate',"
        f" signature = 'absent' WHERE vehicle_id = '{VINS[0]}'", "is not what was received",
    ),
    "puts a received in": (RECEIVED, "was received by nobody of this service (entry 5)"),
    "forges a deletion": (
        "ALTER TABLE odograph.crash_record ENABLE ALWAYS TRIGGER guard; SET SESSION AUTHORIZATION "
        f"odograph_owner; {GONE.format('crash_record')}; RESET SESSION AUTHORIZATION; "
        "ALTER TABLE odograph.crash_record DISABLE TRIGGER USER",
        "was deleted by nobody of this service (entry 5)",
    ),
    "forges an actor": (
        "UPDATE odograph.custody SET actor = 'odograph_ingest' WHERE action = 'exported'",
        "was exported by nobody of this service (entry 3)",
    ),
    "forges whose words an entry has": (
        "UPDATE odograph.custody SET detail = 'B. Other' WHERE action = 'exported'",
        "was exported by nobody of this service (entry 3)",
    ),
    "takes a record away with its history": (
        f"{GONE.format('crash_record')}; {GONE.format('custody')}",
        "the log is not what was anchored at entry 4",
    ),
}  # fmt: skip


def test_what_a_superuser_forges_is_found_without_the_database(stack: Stack, lane: Lane) -> None:
    """The database's superuser has neither the vehicles' keys nor the service's, and no anchor."""
    stored(lane, signed_record(lane, 0, 1), open_record(1, 1, T0))
    urls = lane.endpoints
    notary = identity.notary(lane.settings)
    both = urls.db_dashboard_url, urls.db_dispatch_url
    tables.export(lane.settings, both, (VINS[0], 5, "5-1"), "A. Clerk", COURT)
    assert tables.lock(urls.db_ingest_url, (VINS[1], 5, "5-1"), "A. Clerk", "court order", notary)
    assert command(lane, "anchor").stdout.startswith(
        "anchored at entry 4: 1 heads, the last one at entry 4, time-stamped "
    )
    sound = command(lane, "verify", "--without-log")
    assert (sound.returncode, sound.stdout.splitlines()[1]) == (0, "signed by vehicles: 1 absent, 1 valid")
    superuser = database_url.with_name(stack.superuser_url(), lane.name)
    for what, (statement, said) in FORGERIES.items():
        with by_owner(superuser, (statement, REHASH)):
            found = command(lane, "verify", "--without-log")
            refusal = command(lane, "anchor")
        assert (found.returncode, said in found.stdout) == (1, True), f"{what}: {found.stdout}"
        assert refusal.returncode == (0 if "cut off" in what else 1), f"{what}: the log itself is untouched"
    assert command(lane, "verify", "--without-log").returncode == 0
    (stamped,) = (lane.home / "anchors").glob("*.json")
    stamped.write_bytes(stamped.read_bytes().replace(b'"entry":4', b'"entry":3'))
    assert "is not signed by this service" in command(lane, "verify", "--without-log").stdout
    noted = failed_checks(lane)
    assert len(noted) == len(FORGERIES) + 1
    first = "record 5-1 of {vehicle} (boot 5) is not signed by its vehicle"
    assert noted[0].startswith(f"odograph crash verify: 5 found, the first: {first}")
    assert [detail for detail in noted if any(vin in detail for vin in VINS)] == []


def failed_checks(lane: Lane) -> list[str]:
    """What the audit log says of checks that found something altered, the first one first."""
    query = "SELECT detail FROM serving.audit_log WHERE action = 'check failed' AND actor = %s ORDER BY entry"
    return [row["detail"] for row in rows(lane, query, system_user())]


def test_an_archive_file_that_was_tampered_with_is_named_and_in_the_audit_log(lane: Lane) -> None:
    batches(archive_of(lane.home), 2)
    assert lane.run("archive", "verify").returncode == 0
    file = next(archive_of(lane.home).rglob("*.parquet"))
    body = bytearray(file.read_bytes())
    body[10] ^= 1
    file.write_bytes(body)
    found = lane.run("archive", "verify")
    assert (found.returncode, found.stderr) == (1, "")
    words = f"{file} has other bytes than were written"
    assert words in found.stdout
    assert failed_checks(lane) == [f"odograph archive verify: 1 found, the first: {words}"]


EVERY = "SELECT * FROM odograph.audit_log"
AUDIT_REHASH = REHASH.replace("custody_hash", "audit_hash").replace("odograph.custody", "odograph.audit_log")
AUDIT_FORGERIES = (
    "UPDATE odograph.audit_log SET actor = 'somebody' WHERE entry = 1",
    "DELETE FROM odograph.audit_log WHERE entry = 1",
    "DELETE FROM odograph.audit_log",
)


def test_a_look_by_command_is_noted_and_a_superusers_new_audit_log_is_found(stack: Stack, lane: Lane) -> None:
    stored(lane, open_record(0, 1, T0))
    assert command(lane, "show", "5-1").returncode == 0
    queries.note(lane.endpoints.db_ingest_url, "notice sent", None, 'a "quoted" \\ \té\u2028\x7f\b\x1f line')
    viewed = rows(lane, "SELECT actor, action, vehicle_id, detail FROM serving.audit_log WHERE entry = 1")
    assert [tuple(row.values()) for row in viewed] == [
        (system_user(), "vehicle viewed", VINS[0], "odograph crash show 5-1")
    ]
    assert lane.run("audit-log", "--anchor").stdout == "anchored at entry 2\n"
    sound = lane.run("audit-log", "--verify")
    assert (sound.returncode, sound.stdout.splitlines()[-1]) == (0, "nothing was changed"), sound.stdout
    assert "1 heads, the last one at entry 2, time-stamped " in sound.stdout
    head = sound.stdout.splitlines()[2].removeprefix("head ")
    with psycopg.connect(database_url.with_name(stack.superuser_url(), lane.name)) as superuser:
        superuser.execute("ALTER TABLE odograph.audit_log DISABLE TRIGGER USER")
        superuser.commit()
        for statement in AUDIT_FORGERIES:
            superuser.execute(f"CREATE TEMP TABLE was AS {EVERY}; {statement}; {AUDIT_REHASH}".encode())
            superuser.commit()
            assert lane.run("audit-log").returncode == 0, "the chain alone holds"
            found = lane.run("audit-log", "--verify", "--head", head)
            assert (found.returncode, found.stdout.count("was cut off or written anew")) == (1, 2), statement
            (noted,) = failed_checks(lane)
            assert noted.startswith("odograph audit-log --verify: 2 found, the first: the log ")
            if "UPDATE" in statement:
                assert lane.run("audit-log", "--anchor").returncode == 1
            superuser.execute("DELETE FROM odograph.audit_log; INSERT INTO odograph.audit_log TABLE was; "
                              "DROP TABLE was")  # fmt: skip
            superuser.commit()
    assert lane.run("audit-log", "--verify", "--head", head).returncode == 0


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


def passes(lane: Lane, after_s: int, *, final_too: bool = True) -> list[str]:
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
        return settle(cursor, Crash(), final_too=final_too)


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
    assert passes(lane, 699, final_too=False) == []
    assert passes(lane, 700) == ["suspect"]
    curve = rows(lane, "SELECT t_ms, delta_v_kmh FROM serving.crash_delta_v ORDER BY sample")
    assert [(row["t_ms"], row["delta_v_kmh"]) for row in curve[:4]] == [(0, 0), (10, -1), (20, -3), (30, -7)]
    table = rows(lane, "SELECT t_ms, speed_kmh, brake_on FROM serving.crash_pre_crash ORDER BY sample")
    assert [tuple(row.values()) for row in table] == [(-100, 62, None), (0, 62, None)]
