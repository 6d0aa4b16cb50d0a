"""Rows 1 and 15: records that the database or the contract refuses, live and in a replay of their day."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import orjson
import psycopg
from paho.mqtt import publish

from infra.clients import kafka
from infra.clients.db import Cause, session
from infra.contract import messages
from infra.contract.messages import crash_digest
from infra.contract.topics import EVENT_TOPICS, kafka_topic, mqtt_topic
from infra.stack.kafka import records_by_topic
from infra.stack.supervisor import Program
from load_tests.drills.defects import replace
from load_tests.drills.poison.attack import Attack, program
from load_tests.drills.site import Site, until
from load_tests.drills.verdict import Promise
from load_tests.mqtt_flood import frame
from stream_jobs.app import database
from stream_jobs.events import store as event_store
from stream_jobs.replay import shadow

STORED_S: Final = 5.0
REPLAY_S: Final = 400.0
STUCK_S: Final = 20.0
LONG: Final = "c" * 40_000
REFUSED: Final = "row1-refused"
VEHICLES: Final = tuple(f"1HGCM82633A9{number:05d}" for number in range(4))
FRAMES: Final = 60
STRETCH_MS: Final = 300_000
"""The stretch of the log that is replayed; a run speaks for windows that are whole in it."""
_TRIGGER: Final = f"""
CREATE OR REPLACE FUNCTION odograph.row1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'index row requires 40048 bytes, maximum size is 8191' USING ERRCODE = '54000';
END $$;
CREATE OR REPLACE TRIGGER row1 BEFORE INSERT ON odograph.alert_event FOR EACH ROW
WHEN (NEW.alert_id = '{REFUSED}') EXECUTE FUNCTION odograph.row1();
"""
"""The refusal of row 1 for a record that the contract allows: psycopg calls it OperationalError."""
_GONE: Final = "DROP TRIGGER row1 ON odograph.alert_event; DROP FUNCTION odograph.row1()"
_LETTERS: Final = (
    "SELECT reason, detail FROM odograph.dead_letter WHERE vehicle_id = %s ORDER BY reason, detail"
)
_HONEST: Final = """
SELECT (SELECT count(*) FROM odograph.crash_record WHERE vehicle_id = %(vehicle)s),
       (SELECT count(*) FROM odograph.alert WHERE vehicle_id = %(vehicle)s),
       (SELECT count(*) FROM odograph.vehicle WHERE vehicle_id = %(vehicle)s)
"""
_READ: Final = """
SELECT topic, sum(next_offset)::integer FROM odograph.consumer_offset WHERE consumer = 'events' GROUP BY 1
"""
WANTED: Final = {
    "bridge: a crash_id of 40,000 characters": ("bad_shape", "crash_id 'ccc"),
    "crash: the same into Kafka": ("bad_shape", "(event store, topic crash)"),
    "alerts: a vehicle of 10,000 characters": ("bad_identity", "(event store, topic alerts)"),
    "alerts: U+0000 in a rule": ("bad_value", "rule 'a\\x00b'"),
    "status: a model of 6,000 characters": ("bad_value", "model 'ccc"),
    "alerts: refused by the database": ("refused", "54000"),
}
"""What is tried, and reason and words of its dead letter."""

Json = dict[str, Any]


def row1(site: Site, mutant: str | None) -> Iterator[Promise]:
    """Record 1 over MQTT, and what a stranger's producer writes into each topic of the event store."""
    site.bridge()
    site.start("events", program(mutant, "jobs", "events"))
    site.wait_ready("events")
    with _refusing(site):
        _over_mqtt(site, VEHICLES[0], _crash(VEHICLES[0], LONG))
        _hostile(site, VEHICLES[0])
        _over_mqtt(site, VEHICLES[1], _crash(VEHICLES[1], "5-1"))
        _produce(site, "alerts", VEHICLES[1], orjson.dumps(_alert(VEHICLES[1], "row1-honest")))
        _produce(site, "status", VEHICLES[1], orjson.dumps(_status(VEHICLES[1])))
        stored = _within(lambda: _rows(site, _HONEST, {"vehicle": VEHICLES[1]}) == [(1, 1, 1)])
        yield Promise("everybody else's crash, alert and status are stored in time",
                      stored <= STORED_S, f"after {stored:.1f} s")  # fmt: skip
        behind = _within(lambda: not _lag(site))
        yield Promise(f"the event store is not behind {STORED_S:g} s later", behind <= STORED_S,
                      f"after {behind:.1f} s: {_lag(site)}")  # fmt: skip
        letters = _rows(site, _LETTERS, (VEHICLES[0],))
        lacking = [
            what for what, (reason, words) in WANTED.items()
            if not any(found == reason and words in (detail or "") for found, detail in letters)
        ]  # fmt: skip
        yield Promise(
            "each is a dead letter with its reason", not lacking, f"lacking: {lacking} of {letters}"
        )
        again = site.metrics("events").get("odograph_events_rejected_total", 0)
        yield Promise("dead letters of any bytes are stored and none is written twice",
                      _strangers(site) == 3 and again <= len(WANTED), f"{again:g} rejected")  # fmt: skip


def _hostile(site: Site, vehicle: str) -> None:
    """As a producer of a stranger's would write."""
    alert = _alert(vehicle, "row1-nul")
    _produce(site, "crash", vehicle, _crash(vehicle, LONG + "k"))
    _produce(site, "alerts", vehicle, orjson.dumps(alert | {"vehicle_id": LONG[:10_000]}))
    _produce(site, "alerts", vehicle, orjson.dumps(alert | {"rule": "a\0b"}))
    _produce(site, "alerts", vehicle, orjson.dumps(_alert(vehicle, REFUSED)))
    _produce(site, "status", vehicle, orjson.dumps(_status(vehicle) | {"model": LONG[:6000]}))
    _produce(
        site,
        "dead-letter",
        "row1\0" + LONG,
        b"\xff" * 500_000,
        ("reason", LONG.encode()),
        ("detail", b"a\0b"),
    )
    _produce(site, "dead-letter", "row1\ud800", b"", ("mqtt_topic", None), ("reason", b"\xff\0"))
    _produce(site, "dead-letter", "row1", b"\0", ("\x01", b"\0"))


def _strangers(site: Site) -> int:
    """The dead letters that a stranger wrote, in the database."""
    return int(
        _rows(site, "SELECT count(*) FROM odograph.dead_letter WHERE vehicle_id LIKE 'row1%%'", {})[0][0]
    )


@contextmanager
def _refusing(site: Site) -> Iterator[None]:
    with session(site.endpoints.db_owner_url, autocommit=True) as owner:
        owner.execute(_TRIGGER.encode())
        try:
            yield
        finally:
            owner.execute(_GONE.encode())


def row15(site: Site, mutant: str | None) -> Iterator[Promise]:
    """The frames of a moment, with record 1 among the crash records, are replayed out of the log."""
    site.bridge()
    site.start("events", program(None, "jobs", "events"))
    site.wait_ready("events")
    begun_ms = time.time_ns() // 1_000_000 - STRETCH_MS
    for seq in range(FRAMES):
        at_ms = begun_ms + seq * STRETCH_MS // FRAMES
        raw = frame(0, seq, at_ms).replace(b"1HGCM82633A000000", VEHICLES[2].encode())
        _produce(site, "telemetry", VEHICLES[2], raw, at_ms=at_ms + 1100)
    for crash_id in (LONG, "5-15"):
        _produce(site, "crash", VEHICLES[2], _crash(VEHICLES[2], crash_id), at_ms=begun_ms + STRETCH_MS // 2)
    until(lambda: not _lag(site), STORED_S, "the live event store has read them")
    begun = time.monotonic()
    since = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(begun_ms // 1000))
    words = ("--from-time", since, "--jobs", "stream,events")
    run = "row15" if mutant is None else f"row15_{mutant.count('-')}"
    line = program(mutant, "replay", *words, "--run", run)
    code, said = _replayed(site, line)
    ended = "does not end" if code is None else f"exit {code}"
    ended += f" after {time.monotonic() - begun:.0f} s: {(said.splitlines() or [''])[-1]}"
    yield Promise("the replay finishes", code == 0, ended)
    named = [text for text in said.splitlines() if "dead-lettered" in text and VEHICLES[2] in text]
    yield Promise("the record is dead-lettered there too, and named",
                  len(named) == 1 and "bad_shape: crash_id" in named[0], f"{named}")  # fmt: skip


def _replayed(site: Site, line: tuple[str, ...]) -> tuple[int | None, str]:
    """The exit code of a replay, None where it does not end within its time; and what it said."""
    with subprocess.Popen(
        line, env=site.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as child:
        try:
            said, _ = child.communicate(timeout=REPLAY_S)
        except subprocess.TimeoutExpired:
            child.terminate()
            return None, child.communicate()[0].strip()
        return child.returncode, said.strip()


def _over_mqtt(site: Site, vehicle: str, raw: bytes) -> None:
    topic = mqtt_topic(site.settings.mqtt.root, vehicle, "crash")
    where = site.endpoints
    publish.single(topic, raw, 1, hostname=where.mqtt_host, port=where.mqtt_port, client_id=vehicle)


def _produce(
    site: Site, topic: str, key: str, value: bytes, *headers: tuple[str, bytes | None], at_ms: int = 0
) -> None:
    producer = kafka.producer(site.endpoints.kafka_bootstrap)
    name = kafka_topic(site.settings.kafka.prefix, topic)
    key_bytes = key.encode(errors="surrogatepass")
    producer.produce(name, value, key_bytes, timestamp=at_ms, headers=list(headers))
    assert producer.flush(10) == 0


def _within(holds: Callable[[], bool]) -> float:
    """Seconds until something holds; twice the time allowed where it does not."""
    begun = time.monotonic()
    while not holds() and time.monotonic() - begun < 2 * STORED_S:
        time.sleep(0.05)
    return time.monotonic() - begun


def _lag(site: Site) -> dict[str, int]:
    """Records by topic that the event store has not read."""
    read = dict(_rows(site, _READ, {}))
    ends = records_by_topic(site.endpoints.kafka_bootstrap, site.settings.kafka.prefix)
    names = {name: kafka_topic(site.settings.kafka.prefix, name) for name in EVENT_TOPICS}
    return {name: left for name, full in names.items() if (left := ends[full] - read.get(name, 0)) > 0}


def _rows(site: Site, query: str, values: Any) -> list[tuple[Any, ...]]:
    with session(site.endpoints.db_owner_url, autocommit=True) as owner:
        return owner.execute(query.encode(), values).fetchall()


def _crash(vehicle: str, crash_id: str) -> bytes:
    now_ms = time.time_ns() // 1_000_000
    body = {
        "schema": 1, "vehicle_id": vehicle, "boot_id": 5, "seq": 1, "crash_id": crash_id, "event_ms": now_ms,
        "sent_ms": now_ms, "profile": "us563_2024", "pre_crash": {"speed_kmh": [62, 62]},
        "delta_v_kmh": [-4.0, -40.0], "delta_v_max_kmh": -40.0, "airbag_deployed": True, "complete": True,
    }  # fmt: skip
    return orjson.dumps(body | {"sha256": crash_digest(body)})


def _alert(vehicle: str, alert_id: str) -> Json:
    now_ms = time.time_ns() // 1_000_000
    return {
        "alert_id": alert_id, "vehicle_id": vehicle, "rule": "coolant_critical", "rule_version": 1,
        "severity": "CRITICAL", "event_ms": now_ms, "value": 117.0, "limit": 115.0, "message": "hot",
        "boot_id": 5, "seq": 1, "received_ms": now_ms, "lat_deg": None, "lon_deg": None,
    }  # fmt: skip


def _status(vehicle: str) -> Json:
    now_ms = time.time_ns() // 1_000_000
    return {"schema": 1, "vehicle_id": vehicle, "boot_id": 5, "seq": 1, "state": "online", "at_ms": now_ms}


def waits_for_rows() -> None:
    """Every OperationalError is taken for an absent database."""

    def believing(honest: Callable[[psycopg.Error], Cause]) -> Callable[[psycopg.Error], Cause]:
        return lambda error: Cause.AWAY if isinstance(error, psycopg.OperationalError) else honest(error)

    for module in (database, event_store):
        replace(module, "cause_of", believing)


def any_length() -> None:
    """A text of a device may have any length."""
    replace(messages, "check_text", lambda _: lambda *_a, **_k: None)
    replace(messages, "check_bounded", lambda _: lambda _message: None)


def replay_waits() -> None:
    """A replay's event store takes texts of any length, and each refusal of the database for its absence."""
    any_length()
    for module in (database, event_store):
        replace(module, "cause_of", lambda _: lambda _error: Cause.AWAY)
    replace(shadow, "STUCK_S", lambda _: STUCK_S)
    line = (sys.executable, "-m", "load_tests.drills.poison.mutant", "row15-waits", "jobs", "events")
    replace(shadow, "JOBS", lambda honest: honest | {"events": (Program("events", line),)})


ATTACKS: Final = (
    Attack("row1", "records that the contract or the database refuses, into every topic", row1,
           {"row1-waits-for-rows": waits_for_rows, "row1-any-length": any_length}),
    Attack("row15", "the day of a refused record is replayed", row15,
           {"row15-waits": replay_waits}),
)  # fmt: skip
