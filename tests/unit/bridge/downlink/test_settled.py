"""Which alerts a webhook was told, with and without the database, and when their offsets are committed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bridge.downlink import webhooks
from bridge.downlink.feed import DownlinkMetrics, Process
from bridge.downlink.webhooks import Settled
from infra.clients.kafka import Record
from infra.contract.errors import ServiceError
from infra.contract.frame import Frame
from infra.settings.settings import Endpoints, load
from tests.support_alerts import alert

HOOK = '[[webhook]]\nname = "ops"\nurl = "http://h/"\nsecret_file = "secret"\nmin_severity = "CRITICAL"\n'
NOW_MS = time.time_ns() // 1_000_000


def found(number: int, received_ms: int = NOW_MS, **changes: Any) -> Frame:
    own = {"alert_id": f"a{number}", "incident_id": f"a{number}", "cause": "heat", "fleet": False}
    return alert(**own, event_ms=received_ms, received_ms=received_ms, **changes)


@contextmanager
def away(*_: object, **__: object) -> Iterator[None]:
    raise ServiceError("database: away")
    yield


def test_without_the_database_what_is_new_is_told_and_what_the_other_region_may_have_told_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []

    class Database:
        def execute(self, _: object, values: tuple[Any, ...]) -> Any:
            asked.append(values)
            return self

        def fetchall(self) -> list[Any]:
            return []

        def cursor(self, **_: object) -> Any:
            return self

        def executemany(self, _: object, rows: Sequence[Mapping[str, Any]]) -> None:
            asked.extend(row["alert_id"] for row in rows)

    @contextmanager
    def there(*_: object, **__: object) -> Iterator[Database]:
        yield Database()

    monkeypatch.setattr(webhooks, "connected", there)
    told = Settled("url", "ops", regions=True)
    assert told.begin() == (False, [])
    told.note([(found(1), True)])
    assert asked == [("ops", [""]), ("ops",), "", ("ops",), "a1"]  # what is old is deleted once a day
    monkeypatch.setattr(webhooks, "connected", away)
    new_ms = time.time_ns() // 1_000_000
    assert told.of([found(2, new_ms)]) == set()
    with pytest.raises(ServiceError, match="away"):
        told.of([found(2, new_ms), found(3, NOW_MS - 60_000)])
    with pytest.raises(ServiceError, match="away"):
        Settled("url", "ops", regions=True).begin()
    alone = Settled("url", "ops", regions=False)
    assert alone.begin() == (False, [])
    assert alone.of([found(3, NOW_MS - 60_000)]) == set()


class Place:
    """A feed whose commits are noted."""

    def __init__(self, did: list[Any]) -> None:
        self._did = did

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def commit(self, moved: Mapping[int, int]) -> None:
        if moved:
            self._did.append(("commit", dict(moved)))

    def lag(self) -> int:
        return 0


def delivery_to(folder: Path, stop: Any) -> webhooks.HookDelivery:
    (folder / "secret").write_text("0123456789abcdef")
    (folder / "secret").chmod(0o600)
    (folder / "hooks.toml").write_text(HOOK)
    (hook,) = webhooks.load(folder / "hooks.toml")
    settings, endpoints = load(paths={"home": str(folder)}), Endpoints("", 0, "", "", "url", "")
    return webhooks.HookDelivery(hook, Process(stop, settings, endpoints, DownlinkMetrics()))


def test_what_waits_behind_an_alert_that_a_webhook_does_not_take_is_measured_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stop(threading.Event):
        def require(self) -> None:
            pass

        def wait(self, _: float | None = None) -> bool:
            self.set()
            return True

    delivery = delivery_to(tmp_path, Stop())
    monkeypatch.setattr(delivery, "_behind", lambda: 7)
    monkeypatch.setattr(webhooks, "post", lambda *_: webhooks.Answer(503))
    assert not delivery._deliver(found(1), Record("alerts", 0, 1, NOW_MS, b"", {}))
    told = delivery.metrics.registry.get_sample_value("odograph_downlink_lag_records", {"destination": "ops"})
    assert told == 7


def test_an_offset_is_committed_when_all_before_it_is_a_row_and_no_alert_is_told_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = threading.Event()
    delivery, did = delivery_to(tmp_path, stop), list[Any]()
    alerts = [
        found(0, severity="MAJOR"), found(1, severity="CRITICAL"), found(2, severity="MAJOR"),
        found(1, severity="CRITICAL"), found(9, severity="CRITICAL"), found(3, severity="MAJOR"),
    ]  # fmt: skip
    batch = [(Record("alerts", 0, k, NOW_MS, b"", {}), each) for k, each in enumerate(alerts)]

    def read(*_: object) -> Any:
        stop.set()
        return batch

    monkeypatch.setattr(delivery, "feed", lambda *_, **__: Place(did))
    monkeypatch.setattr(delivery, "incidents", lambda: Place(did))
    monkeypatch.setattr(delivery, "read", read)
    monkeypatch.setattr(delivery, "_deliver", lambda *_: True)
    monkeypatch.setattr(Settled, "begin", lambda _: (False, []))
    monkeypatch.setattr(Settled, "of", lambda *_: {"a9"})
    monkeypatch.setattr(
        Settled, "note", lambda _, rows: did.append([(row["alert_id"], told) for row, told in rows])
    )
    delivery.serve()
    rows = [[("a0", False), ("a1", True)], [("a2", False), ("a3", False)]]
    assert did == [rows[0], ("commit", {0: 2}), rows[1], ("commit", {0: 6})]
