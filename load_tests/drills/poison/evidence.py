"""What evidence is worth: an audit while frames flow, a crash record that the database's owner changed."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace as changed
from pathlib import Path
from typing import Any, Final

import orjson
import psycopg
import pyarrow.parquet as pq

from infra.clients import kafka
from infra.clients.db import session
from infra.contract.messages import crash_digest
from infra.contract.topics import kafka_topic
from infra.stack.supervisor import odograph
from load_tests.drills.aggregates import start_jobs
from load_tests.drills.defects import replace
from load_tests.drills.poison.attack import Attack, program
from load_tests.drills.site import Site, until
from load_tests.drills.verdict import Promise
from stream_jobs.archive import reader
from stream_jobs.archive.manifest import append, archive_of, described, locked, read_hour
from stream_jobs.audit import run as audit_run
from stream_jobs.audit.ledger import Scope
from stream_jobs.crashes import custody
from stream_jobs.crashes.custody import Entry

COMMAND_S: Final = 120.0
SHORT: Final = {
    "ODOGRAPH_JOBS_ARCHIVE_TRIGGER_S": "2", "ODOGRAPH_JOBS_LATENESS_S": "5", "ODOGRAPH_JOBS_AHEAD_S": "5",
}  # fmt: skip
"""A frame is closed within 20 s, so that the attack is short."""
FLEET: Final = ("-c", "60", "--rate", "60", "--duration", "600s", "--late", "0.02", "--duplicate", "0.02",
                "--lost", "0.01", "--clock-unset", "0.01")  # fmt: skip
ENOUGH: Final = 300
"""Frames that are balanced while others flow."""
ENOUGH_S: Final = 120.0

_OFF: Final = """
UPDATE odograph.vehicle_window SET frames = frames {sign} 1 WHERE (vehicle_id, window_start) = """

Json = dict[str, Any]


def _told(site: Site, mutant: str | None, *arguments: str) -> tuple[int, Json]:
    """Exit code and JSON of an ``odograph`` command."""
    line = program(mutant, *arguments, "--json")
    done = subprocess.run(line, env=site.env, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    return done.returncode, json.loads(done.stdout) if done.stdout.startswith("{") else {"error": done.stderr}


# A crash record that was changed -------------------------------------------------------------------------

VIN: Final = "1HGCM82633A555005"
KEEP: Final = ("crash_record", "crash_lock", "custody")
ALWAYS_ON: Final = (
    ("custody", "append_only"), ("custody", "audited"), ("crash_lock", "for_good"), ("crash_record", "guard"),
    ("crash_record", "no_truncate"), ("crash_record", "arrived"), ("crash_record", "offered"),
)  # fmt: skip
"""Triggers, by table."""
CHANGE: Final = """
UPDATE odograph.crash_record SET raw = replace(raw, '-40.0', '-4.0'), delta_v_max_kmh = -4,
       record = replace(record::text, '-40.0', '-4.0')::jsonb
WHERE crash_id = 'row5-open'
"""
AGAIN: Final = """
INSERT INTO odograph.custody SELECT (SELECT max(entry) + 1 FROM odograph.custody), now(), c.actor, 'received',
       c.vehicle_id, c.boot_id, c.crash_id, odograph.crash_digest(r), '', '', ''
FROM odograph.custody c JOIN odograph.crash_record r USING (vehicle_id, boot_id, crash_id)
WHERE crash_id = 'row5-open' AND action = 'received'
"""
REHASH: Final = """
DO $$
DECLARE
    each odograph.custody;
    last text := repeat('0', 64);
    number bigint := 0;
BEGIN
    FOR each IN SELECT * FROM odograph.custody ORDER BY entry LOOP
        number := number + 1;
        DELETE FROM odograph.custody WHERE entry = each.entry;
        each.entry := number;
        each.previous := last;
        each.sha256 := odograph.custody_hash(each);
        last := each.sha256;
        INSERT INTO odograph.custody SELECT (each).*;
    END LOOP;
END $$
"""
"""The whole custody log anew, so that its chain holds."""
ENTRY_TOO: Final = """
UPDATE odograph.custody c SET digest = odograph.crash_digest(r) FROM odograph.crash_record r
WHERE r.crash_id = c.crash_id AND c.crash_id = 'row5-open'
"""
SHOWN: Final = """
UPDATE odograph.crash_record SET record = record || '{"delta_v_max_kmh": -4}' WHERE crash_id = 'row5-open'
"""
OWNER: Final[tuple[tuple[str, tuple[str, ...], str, bool], ...]] = (
    ("changes a record and appends another 'received'", (CHANGE, AGAIN, REHASH),
     "was received a second time", False),
    ("changes a record, its entry and the whole log", (CHANGE, ENTRY_TOO, REHASH),
     "is not what Kafka's log holds", True),
    ("changes only what readers are shown", (SHOWN,), "record: not what the record's own bytes say", False),
    ("takes a locked record away and all that tells of it",
     (*(f"DELETE FROM odograph.{table} WHERE crash_id = 'row5-locked'" for table in KEEP), REHASH),
     "is in Kafka's log, and not in the vault", True),
)  # fmt: skip
"""What the owner's password allows, what verify must say of it, and whether a head noted before is gone."""
INGEST: Final = (
    "SELECT odograph.custody_append('deleted', 'x', 1, 'x', '', '', '')",
    "SELECT odograph.custody_note('me', 'deleted', 'x', 1, 'x', '', '')",
    "CREATE TEMP TABLE own (LIKE odograph.crash_record); CREATE TRIGGER forge BEFORE DELETE ON own"
    " FOR EACH ROW EXECUTE FUNCTION odograph.crash_guard()",
    "SELECT odograph.crash_retire('x', 1, 'x', 'why', '')",
    "INSERT INTO odograph.custody SELECT * FROM odograph.custody",
    "UPDATE odograph.custody SET actor = 'me'",
    "DELETE FROM odograph.custody",
    "UPDATE odograph.crash_record SET complete = true",
    "DELETE FROM odograph.crash_record",
)  # fmt: skip
"""What the password of a program lets nobody do."""
REFUSED: Final = (psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedFunction)


def row5(site: Site, mutant: str | None) -> Iterator[Promise]:
    """The owner changes records and the custody log; a program's role writes entries."""
    site.start("events", odograph("jobs", "events"))
    site.wait_ready("events")
    _two_crashes(site)
    code, before = _told(site, mutant, "crash", "verify")
    yield Promise("a vault that nobody touched holds", (code, before.get("wrong")) == (0, []), f"{before}")
    for what, statements, said, head_gone in OWNER:
        with by_owner(site.endpoints.db_owner_url, statements):
            code, found = _told(site, mutant, "crash", "verify", "--head", before["head"])
        named = any(said in wrong for wrong in found["wrong"])
        gone = any("its end was cut off" in wrong for wrong in found["wrong"])
        yield Promise(f"found: the owner {what}", named and (code, gone) == (1, head_gone),
                      f"exit {code}: {'; '.join(found['wrong'])}")  # fmt: skip
    with _any_caller(site, mutant == "row5-any-caller"):
        let = [statement for statement in INGEST if not refused(site.endpoints.db_ingest_url, statement)]
    yield Promise("a program's role writes and removes nothing by itself", not let, f"let: {let}")
    code, after = _told(site, mutant, "crash", "verify", "--head", before["head"])
    yield Promise(
        "put back as it was, the vault holds", (code, after["wrong"]) == (0, []), f"{after['wrong']}"
    )


def _two_crashes(site: Site) -> None:
    """Two crash records in Kafka, by way of no bridge, and in the vault."""
    now_ms = time.time_ns() // 1_000_000
    producer = kafka.producer(site.endpoints.kafka_bootstrap)
    for seq, name in enumerate(("row5-open", "row5-locked")):
        body = {
            "schema": 1, "vehicle_id": VIN, "boot_id": 5, "seq": seq, "crash_id": name,
            "event_ms": now_ms - 500, "sent_ms": now_ms, "profile": "us563_2024", "pre_crash_dt_ms": 100,
            "pre_crash": {"speed_kmh": [62, 62]}, "delta_v_dt_ms": 10, "delta_v_kmh": [-4.5, -40.0],
            "delta_v_max_kmh": -40.0, "airbag_deployed": name == "row5-locked", "complete": True,
            "lat_deg": 52.5, "lon_deg": 13.4,
        }  # fmt: skip
        value = orjson.dumps(body | {"sha256": crash_digest(body)})
        producer.produce(kafka_topic(site.settings.kafka.prefix, "crash"), value, VIN)
    assert producer.flush(30) == 0
    query = b"SELECT count(*) FROM odograph.crash_record WHERE vehicle_id = %s"
    with session(site.endpoints.db_owner_url, autocommit=True) as connection:
        until(
            lambda: connection.execute(query, (VIN,)).fetchone() == (2,), 60, "two crash records are stored"
        )


@contextmanager
def by_owner(url: str, statements: Sequence[str]) -> Iterator[None]:
    """What the statements do to the vault is so in the block, and undone after it."""
    with session(url, autocommit=True) as connection:
        for table in KEEP:
            connection.execute(f"CREATE TEMP TABLE kept_{table} AS SELECT * FROM odograph.{table}".encode())
        try:
            off = [f"ALTER TABLE odograph.{table} DISABLE TRIGGER USER" for table in KEEP]
            for statement in (*off, *statements):
                connection.execute(statement.encode())
            yield
        finally:
            for table in KEEP:
                connection.execute(f"DELETE FROM odograph.{table}".encode())
                connection.execute(f"INSERT INTO odograph.{table} SELECT * FROM kept_{table}".encode())
            for table, trigger in ALWAYS_ON:
                connection.execute(f"ALTER TABLE odograph.{table} ENABLE ALWAYS TRIGGER {trigger}".encode())


def refused(url: str, statement: str) -> bool:
    """Whether the database lets a role not do it; nothing that it lets be is kept."""
    with session(url) as connection:
        try:
            connection.execute(statement.encode())
        except REFUSED:
            return True
        finally:
            connection.rollback()
    return False


@contextmanager
def _any_caller(site: Site, is_so: bool) -> Iterator[None]:
    """The rights of before in the block: whoever stores records may write entries of any kind."""
    function = "FUNCTION odograph.custody_append"
    with session(site.endpoints.db_owner_url, autocommit=True) as connection:
        if is_so:
            connection.execute(f"GRANT EXECUTE ON {function} TO odograph_ingest".encode())
        try:
            yield
        finally:
            connection.execute(f"REVOKE EXECUTE ON {function} FROM odograph_ingest".encode())


def believes_the_database() -> None:
    """Verify does not look into Kafka's log."""
    replace(custody, "differing", lambda _: lambda *_: iter(()))


def last_received_counts() -> None:
    """Verify holds a record against the last entry that received it."""

    def late(honest: Callable[..., Iterator[str]]) -> Callable[..., Iterator[str]]:
        def tampered(entries: Sequence[Entry], *others: Any) -> Iterator[str]:
            last = {entry.key: entry for entry in entries if entry.action == "received"}
            return honest([e for e in entries if e.action != "received" or last[e.key] is e], *others)

        return tampered

    replace(custody, "tampered", late)


def any_caller() -> None:
    """A program's role may write custody entries: a right in the database, given by the attack itself."""


# An audit while frames flow ------------------------------------------------------------------------------


def row11(site: Site, mutant: str | None) -> Iterator[Promise]:
    """Audits in the middle of a drive: nothing lacks, and a frame that is taken away does."""
    quick = changed(site, env=site.env | SHORT)
    quick.bridge()
    start_jobs(quick)
    run_id = f"row11-{mutant or 'whole'}"
    quick.simulate(run_id, *FLEET)

    def counted() -> bool:
        code, found = _told(quick, None, "audit", "--since", "2m")
        return code == 0 and found["in_flight"] > 0 and found["account"]["counted"] >= ENOUGH

    until(counted, ENOUGH_S, f"{ENOUGH} frames balanced while others flow")
    readings = [_told(quick, mutant, "audit", *more) for more in ((), ("--since", "9m"), ("--wait", "3s"))]
    told = "; ".join(
        f"exit {code}: {found['account']['counted']} counted, {found['in_flight']} in flight, "
        f"residual {found['residual']}" for code, found in readings
    )  # fmt: skip
    flow = [code == 0 and found["residual"] == 0 and found["in_flight"] > 0 for code, found in readings]
    yield Promise("audits while frames flow balance, and say what is in flight", all(flow), told)
    with _frame_off_a_window(quick) as where:
        code, found = _told(quick, mutant, "audit")
        names = [(gap["vehicle_id"], gap["archived"] - gap["counted"]) for gap in found["windows"]]
        yield Promise("a frame taken off a window is found while others flow",
                      code == 1 and names == [(where, 1)], f"exit {code}, {names}")  # fmt: skip
    with _frame_off_the_archive(quick) as (partition, offset):
        code, found = _told(quick, mutant, "audit")
        holes = [(gap["partition"], gap["ranges"]) for gap in found["log"]]
        yield Promise("a frame taken out of the archive is found while others flow",
                      code == 1 and holes == [(partition, [[offset, offset]])],
                      f"exit {code}, {holes}")  # fmt: skip
    quick.stop(run_id)
    code, found = _told(quick, mutant, "audit", "--wait", "60s")
    yield Promise("at rest, after --wait, nothing is in flight and all of it balances",
                  (code, found["in_flight"], found["residual"]) == (0, 0, 0) and found["generated"] > 0,
                  f"exit {code}, {found.get('generated')} generated, {found['in_flight']} in flight, "
                  f"residual {found['residual']}")  # fmt: skip


@contextmanager
def _frame_off_a_window(site: Site) -> Iterator[str]:
    """The vehicle whose oldest window counts a frame too few in the block."""
    with session(site.endpoints.db_owner_url, autocommit=True) as connection:
        row = connection.execute(
            _OFF.format(sign="-").encode()
            + b"(SELECT vehicle_id, window_start FROM odograph.vehicle_window ORDER BY 2, 1 LIMIT 1) "
            b"RETURNING vehicle_id, window_start"
        ).fetchone()
        assert row is not None
        try:
            yield row[0]
        finally:
            connection.execute(_OFF.format(sign="+").encode() + b"(%s, %s)", row)


@contextmanager
def _frame_off_the_archive(site: Site) -> Iterator[tuple[int, int]]:
    """Partition and offset of a record that archive and manifest do not hold in the block."""
    folder = archive_of(site.home)
    hour = min(reader.hours(folder))
    name = min(read_hour(folder, hour).files)
    path = next(folder.rglob(name))
    whole = path.read_bytes()
    table = pq.read_table(path)
    places = list(zip(table["partition"].to_pylist(), table["log_offset"].to_pylist(), strict=True))
    lost = next(place for place in places if (place[0], place[1] - 1) in places)
    new = path.with_suffix(".new")
    pq.write_table(table.filter([place != lost for place in places]), new)
    _put(folder, hour, path, new, name)
    try:
        yield lost
    finally:
        new.write_bytes(whole)
        _put(folder, hour, path, new, name)


def _put(folder: Path, hour: int, path: Path, new: Path, name: str) -> None:
    """A file in the place of another, and the manifest says so."""
    with locked(folder, writing=True):
        entry = described(new, name)
        new.replace(path)
        append(folder, hour, {"op": "add", "file": entry})


def balances_what_flows() -> None:
    """An audit takes for closed what was received up to now, and windows that are still open."""

    def hasty(honest: Callable[..., Scope]) -> Callable[..., Scope]:
        return lambda scope, closed_ms, lateness_ms, window_ms: honest(
            scope, closed_ms + 2 * lateness_ms, lateness_ms, window_ms
        )

    replace(Scope, "closed", hasty)


def hides_losses() -> None:
    """An audit takes everything for in flight."""
    replace(audit_run, "current_horizon", lambda honest: lambda *where: changed(honest(*where), moment_ms=0))


ATTACKS: Final = (
    Attack("row5", "the owner changes a crash record and the custody log", row5,
           {"row5-believes-the-database": believes_the_database,
            "row5-last-received-counts": last_received_counts, "row5-any-caller": any_caller}),
    Attack("row11", "an audit while frames flow", row11,
           {"row11-balances-what-flows": balances_what_flows, "row11-hides-losses": hides_losses}),
)  # fmt: skip
