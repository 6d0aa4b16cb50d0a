"""Which offsets may be committed; brokers that do not answer; a notice that cannot be noted."""

from __future__ import annotations

import select
import socket
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from bridge import cli
from bridge.downlink import vehicles
from bridge.downlink.vehicles import AllBrokers, MqttOut, committable
from infra.clients.kafka import Record
from infra.clients.mqtt_broker import MqttBroker
from infra.contract.errors import ServiceError
from infra.sql import queries
from tests.support import eventually


def test_an_offset_is_committed_only_when_all_before_it_in_its_partition_are_settled() -> None:
    records = [Record("alerts", *place, 0, b"", {}) for place in ((0, 10), (0, 11), (0, 12), (1, 5))]
    taken = {0: 13, 1: 6}
    assert committable(taken, [records[0], records[2]]) == {0: 10, 1: 6}
    assert committable(taken, [records[2], records[3]]) == {0: 12, 1: 5}
    assert committable(taken, []) == taken


def answered(door: socket.socket, code: int = 0) -> socket.socket:
    """The next connection, as a broker that takes it in, or refuses it for this reason."""
    line, _ = door.accept()
    line.sendall(bytes([0x20, 3, 0, code, 0]))
    return line


def test_a_broker_that_refuses_the_connection_is_told_by_its_own_word() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door, ThreadPoolExecutor(1) as broker:
        refused = broker.submit(answered, door, 0x87)
        with pytest.raises(ServiceError, match="does not take us in: Not authorized"):
            MqttOut(MqttBroker(*door.getsockname()), "c").__enter__()
        refused.result(30).close()


def test_a_broker_that_does_not_answer_holds_up_nobody_and_hears_what_is_published_once_it_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vehicles, "CONNECT_S", 120.0)
    monkeypatch.setattr(vehicles, "REJOIN_S", 0.0)
    with (
        socket.socket() as silent,
        socket.create_server(("127.0.0.1", 0)) as door,
        ThreadPoolExecutor(2) as others,
    ):
        silent.bind(("127.0.0.1", 0))  # it refuses, until it listens
        line = others.submit(answered, door)
        with AllBrokers([MqttBroker(*each.getsockname()) for each in (silent, door)], "c") as out:
            silent.listen()
            others.submit(out.publish, "t", b"first", 5).result(60)
            others.submit(out.check).result(60)
            with line.result(30), answered(silent) as late:

                def heard() -> bool:
                    out.publish("t", b"second", 5)
                    return bool(select.select([late], [], [], 0.05)[0]) and b"second" in late.recv(4096)

                eventually(heard, 30, "what is published later")


def test_a_notice_that_is_out_is_no_failure_where_the_audit_log_is_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def away(*_: object) -> None:
        raise ServiceError("database: away")

    monkeypatch.setattr(cli.settings, "load", lambda: None)
    monkeypatch.setattr(cli.settings, "endpoints", lambda *_: SimpleNamespace(db_dispatch_url="url"))
    monkeypatch.setattr(vehicles, "notify", lambda *_: "n1")
    monkeypatch.setattr(queries, "note", away)
    cli.notify("stop here")
    told = capsys.readouterr()
    assert (told.out, told.err) == (
        "notice n1 published\n", "the notice is not in the audit log: database: away\n"
    )  # fmt: skip
