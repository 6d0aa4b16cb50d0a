"""What is read of Kafka to judge dead letters, whatever bytes somebody put into it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import orjson
import pytest

from bridge.dead_letters import work
from bridge.dead_letters.letters import Letter
from bridge.uplink.translate import Rejection, Translator
from infra.clients.kafka import Record
from infra.settings.settings import external, load

VIN, OTHER = "1HGCM82633A004352", "1HGCM82633A004353"
T0 = 1_790_000_000_000
STATUS = {"schema": 1, "boot_id": 3, "seq": 7, "state": "online", "at_ms": T0}


def status(vin: str, **more: Any) -> bytes:
    return orjson.dumps(STATUS | {"vehicle_id": vin} | more)


def of_log(key: str, value: bytes) -> Record:
    return Record("odograph.status", 0, 0, T0, value, {}, key)


@dataclass
class Log:
    """The compacted topic of statuses."""

    found: list[Record]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def spans(self, _topic: str) -> dict[int, tuple[int, int]]:
        return {0: (0, len(self.found))}

    def records(self, _topic: str, _partition: int, begin: int, end: int) -> Iterator[Record]:
        return iter(self.found[begin:end])


def letters() -> Iterator[Letter]:
    for offset, vin in enumerate((VIN, OTHER)):
        topic = f"odograph/v1/{vin}/status".encode()
        why = Rejection("rate_limited", "why", vin.encode())
        record = Translator("odograph/v1", "odograph.").dead_letter(why, topic, status(vin), T0)
        yield Letter(offset, T0, record.key, record.value, dict(record.headers))


def test_what_is_no_status_in_its_topic_overtakes_none_and_stops_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = Log([
        of_log(VIN, b"no json"), of_log(VIN, b"[]"), of_log(VIN, status(VIN, at_ms="later")),
        of_log(OTHER, status(OTHER, at_ms=T0 + 1)),
    ])  # fmt: skip
    monkeypatch.setattr(work, "LogReader", lambda *_: log)
    settings = load()
    report = work.DeadLetters(settings, external(settings)).reinject(letters(), dry_run=True, again=True)
    assert report.went == {0: "status"}
    assert [(stays.offset, stays.reason) for stays in report.stays] == [(1, "overtaken")]
