"""What a record of Kafka is to the services, whatever bytes somebody put into it."""

from __future__ import annotations

from typing import Any

from infra.clients.kafka import produce, producer, record_of


class Message:
    """As the client gives one."""

    def __init__(self, headers: Any) -> None:
        self._headers = headers

    def __getattr__(self, name: str) -> Any:
        values = {
            "topic": "t",
            "partition": 1,
            "offset": 7,
            "timestamp": (1, 5),
            "key": b"k\xff",
            "value": None,
        }
        return lambda: values[name]

    def headers(self) -> Any:
        if isinstance(self._headers, Exception):
            raise self._headers
        return self._headers


def test_what_is_no_text_in_a_record_is_replaced() -> None:
    record = record_of(Message([("a", b"x\xff"), ("b", None)]))  # type: ignore[arg-type]
    assert (record.key, record.value, record.headers) == ("k\ufffd", b"", {"a": "x\ufffd", "b": ""})
    assert (record.topic, record.partition, record.offset, record.received_ms) == ("t", 1, 7, 5)


def test_headers_whose_names_are_no_text_are_none() -> None:
    assert record_of(Message(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"))).headers == {}  # type: ignore[arg-type]


def test_a_full_queue_is_waited_for() -> None:
    told: list[Any] = []
    client = producer("127.0.0.1:1", {"queue.buffering.max.messages": 1, "message.timeout.ms": 50})
    for _ in range(3):  # nobody takes them: each makes room when its time is over
        produce(client, "t", b"x", on_delivery=lambda error, _: told.append(error))
    assert (client.flush(60), len(told)) == (0, 3)
