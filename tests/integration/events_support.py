"""What the tests of alerts share: literal messages into Kafka, rows out of the database, the health page."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import orjson
import psycopg
from confluent_kafka import Producer
from psycopg.rows import dict_row

from infra.clients.kafka import LogReader, access
from infra.contract.messages import crash_digest
from infra.contract.topics import kafka_topic
from tests.support import Lane, eventually

READ_S = 30.0
READY_S = 300.0
STORED_S = 240.0
T0 = (time.time_ns() // 1_000_000 // 60_000 - 60) * 60_000
"""An hour ago: an older Kafka timestamp would fall to the topics' retention in the middle of a test."""
VINS = [f"1HGCM82633A{number:06d}" for number in range(8)]
HEAD: dict[str, Any] = {"schema": 1, "boot_id": 5}


def alert(vehicle: int, seq: int, value: float = 117.0, **changes: Any) -> tuple[str, bytes]:
    """Key and value of an overheating finding a second apart by ``seq``."""
    body = {
        "alert_id": f"hot-{vehicle}-{seq}",
        "vehicle_id": VINS[vehicle],
        "rule": "coolant_critical",
        "rule_version": 1,
        "severity": "CRITICAL",
        "event_ms": T0 + 1000 * seq,
        "value": value,
        "limit": 115.0,
        "message": "Coolant above 115 degC",
        "boot_id": 5,
        "seq": seq,
        "received_ms": T0 + 1000 * seq + 300,
        "lat_deg": 52.5,
        "lon_deg": 13.4,
    }
    return VINS[vehicle], orjson.dumps(body | changes)


def frame(vehicle: int, seq: int, t0_ms: int, coolant_c: float = 90.0) -> tuple[str, bytes]:
    """Key and value of a telemetry frame of a petrol car under way."""
    body = HEAD | {
        "vehicle_id": VINS[vehicle],
        "seq": seq,
        "t0_ms": t0_ms,
        "dt_ms": 100,
        "n": 2,
        "sent_ms": t0_ms + 200,
        "speed_kmh": [62.0, 62.1],
        "engine_rpm": [2100, 2110],
        "lat_deg": [52.5, 52.5],
        "lon_deg": [13.4, 13.4],
        "coolant_temp_c": coolant_c,
        "oil_pressure_kpa": 310,
        "battery_voltage_v": 13.9,
    }
    return VINS[vehicle], orjson.dumps(body)


def crash(vehicle: int, seq: int, event_ms: int) -> tuple[str, bytes]:
    """Key and value of a sealed crash record with a deployed airbag."""
    body = HEAD | {
        "vehicle_id": VINS[vehicle],
        "seq": seq,
        "crash_id": f"5-{seq}",
        "event_ms": event_ms,
        "sent_ms": event_ms + 250,
        "profile": "us563_2024",
        "pre_crash_dt_ms": 100,
        "pre_crash": {"speed_kmh": [62, 62]},
        "delta_v_dt_ms": 10,
        "delta_v_kmh": [-4.0, -40.0],
        "delta_v_lat_kmh": None,
        "delta_v_max_kmh": -40.0,
        "airbag_deployed": True,
        "complete": True,
        "lat_deg": 52.5,
        "lon_deg": 13.4,
    }
    return VINS[vehicle], orjson.dumps(body | {"sha256": crash_digest(body)})


def status(vehicle: int, state: str, at_ms: int, model: str | None = None) -> tuple[str, bytes]:
    """Key and value of a status message."""
    body = HEAD | {"vehicle_id": VINS[vehicle], "seq": 0, "state": state, "at_ms": at_ms, "model": model}
    return VINS[vehicle], orjson.dumps(body)


def produce(lane: Lane, topic: str, messages: Sequence[tuple[str, bytes]], at_ms: int = 0) -> None:
    """Append to a topic of the lane, each stamped ``at_ms`` (0: now); returns when Kafka has them all."""
    settings = access(lane.endpoints.kafka_bootstrap) | {"partitioner": "murmur2_random"}
    producer = Producer(settings | {"acks": "all"})
    for key, value in messages:
        producer.produce(kafka_topic(lane.settings.kafka.prefix, topic), value, key, timestamp=at_ms)
    assert producer.flush(30) == 0


def topic_values(lane: Lane, topic: str) -> list[dict[str, Any]]:
    """All JSON records that a topic of one partition holds now."""
    name = kafka_topic(lane.settings.kafka.prefix, topic)
    with LogReader(lane.endpoints.kafka_bootstrap, timeout_s=READ_S) as log:
        messages = log.messages(name, 0, *log.bounds(name, 0))
        return [orjson.loads(message.value() or b"null") for message in messages]


def rows(lane: Lane, query: str, *parameters: Any) -> list[dict[str, Any]]:
    """Rows of a query on the lane's database."""
    with psycopg.connect(lane.endpoints.db_owner_url, row_factory=dict_row, autocommit=True) as connection:
        return connection.execute(query.encode(), parameters).fetchall()


def change(lane: Lane, statement: str, *parameters: Any) -> None:
    """Run a statement on the lane's database."""
    with psycopg.connect(lane.endpoints.db_owner_url, autocommit=True) as connection:
        connection.execute(statement.encode(), parameters)


def count(lane: Lane, table: str) -> int:
    """Rows in a table of the lane."""
    return int(rows(lane, f"SELECT count(*) AS n FROM odograph.{table}")[0]["n"])


def snapshot(lane: Lane) -> dict[str, list[dict[str, Any]]]:
    """Everything that the event store wrote, in a fixed order."""
    orders = {
        "alert": "first_alert_id",
        "alert_event": "alert_id",
        "alert_change": "change_no",
        "crash_record": "vehicle_id, crash_id",
        "vehicle": "vehicle_id",
        "dead_letter": "log_offset",
    }
    return {
        table: rows(lane, f"SELECT * FROM odograph.{table} ORDER BY {by}") for table, by in orders.items()
    }


def until_count(lane: Lane, table: str, wanted: int) -> None:
    """Wait until a table holds ``wanted`` rows."""

    def reached() -> bool:
        found = count(lane, table)
        assert found >= wanted, f"{found} so far"
        return found == wanted

    eventually(reached, STORED_S, f"{wanted} rows in {table}")


def until_read(lane: Lane, wanted: int) -> None:
    """Wait until the event store has read ``wanted`` records in all its topics."""
    query = "SELECT coalesce(sum(next_offset), 0)::integer AS n FROM odograph.consumer_offset"
    eventually(lambda: rows(lane, query)[0]["n"] == wanted, STORED_S, f"{wanted} records read")


def health(lane: Lane, part: str) -> dict[str, str] | None:
    """What keeps a part of the lane from being ready; {} when it is; None when nobody answers."""
    url = f"http://127.0.0.1:{lane.endpoints.http_ports[part]}/readyz"
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return dict(json.load(answer))
    except urllib.error.HTTPError as error:
        with error:
            return dict(json.load(error))
    except OSError:
        return None


def until_ready(lane: Lane, part: str) -> None:
    """Wait until a part of the lane is ready."""
    eventually(lambda: health(lane, part) == {}, READY_S, f"{part} ready")


def ms(moment: datetime | None) -> int | None:
    """Milliseconds since 1970."""
    return None if moment is None else round(moment.timestamp() * 1000)
