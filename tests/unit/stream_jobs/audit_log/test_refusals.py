"""Which lines of the brokers' logs are refusals, and how many entries they make."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from infra.clients.locks import locked
from infra.stack import processes
from stream_jobs.audit_log import refusals
from stream_jobs.audit_log.refusals import (
    MOST,
    NAME_CHARS,
    NOBODY,
    Refusal,
    Refusals,
    of_kafka,
    of_mosquitto,
    of_program,
)

AT_S = 1_795_824_240  # begins a minute
VINS = ("WDB1240001A000001", "WDB1240001A000002")
DENIED = (
    "{at} INFO  logger: Principal = User:{who} is Denied operation = WRITE from host = 127.0.0.1 on "
    "resource = Topic:LITERAL:{topic} for request = Produce with resourceRefCount = 1 based on rule Default"
)
HANDSHAKE = (
    "{at} INFO  Selector: [SocketServer listenerType=BROKER, nodeId=1] Failed authentication with /127.0.0.1 "
    "(channelId=127.0.0.1:9092-127.0.0.1:35570-0-185) (SSL handshake failed)"
)


def local(at_s: float) -> str:
    """As Kafka writes a time: the machine's wall clock."""
    return datetime.fromtimestamp(at_s).isoformat(timespec="milliseconds")


def denied(at_s: float, who: str = "bridge", topic: str = "alerts") -> str:
    return DENIED.format(at=local(at_s), who=who, topic=topic)


def test_kafkas_refusals_are_told_with_principal_and_resource() -> None:
    assert of_kafka(denied(AT_S + 1.5)) == (AT_S + 1.5, Refusal("bridge", "write topic alerts"))
    shaken = of_kafka(HANDSHAKE.format(at=local(AT_S)))
    assert shaken == (AT_S, Refusal(NOBODY, "connect from 127.0.0.1: SSL handshake failed"))
    assert of_kafka(denied(AT_S).replace("Denied", "Allowed")) is None


def test_a_line_that_somebody_elses_name_begins_keeps_no_other_refusal_from_being_noted(log: Path) -> None:
    lines = [denied(AT_S), "alerts " + denied(AT_S), denied(AT_S).replace("2026-", "0000-"), denied(AT_S + 1)]
    log.write_text("".join(f"{line}\n" for line in lines))
    log.with_name("mosquitto.log").write_text(f"{'9' * 400}: Client x disconnected, not authorised.\n")
    task, database = reader(log, [AT_S + 600.0])
    assert task() == 1
    assert database.told() == [(0, [("bridge", "write topic alerts", 2)])]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("OpenSSL Error[0]: error:0A0000C7:SSL routines::peer did not return a certificate",
         Refusal(NOBODY, "connection: peer did not return a certificate")),
        ("OpenSSL Error[0]: error:0A000086:SSL routines::certificate verify failed",
         Refusal(NOBODY, "connection: certificate verify failed")),
        ("Client connection from 127.0.0.1 failed: error:0A000086:SSL routines::certificate verify failed.",
         Refusal(NOBODY, "connection: certificate verify failed")),
        ("Client connection from ::1 failed: error:0A000126:SSL routines::unexpected eof.", None),
        ("Client WDB1240001A000001 disconnected, not authorised.",
         Refusal("WDB1240001A000001", "connection: not authorised")),
        ("Client x disconnected due to oversize packet.", Refusal("x", "connection: oversize packet")),
        (f"Denied PUBLISH from {VINS[0]} (d0, q1, r0, m7, 'odograph/v1/x (d0)/alert', ... (6 bytes))",
         Refusal(VINS[0], "publish odograph/v1/x (d0)/alert")),
        (f"Denied PUBLISH from {VINS[0]} (d0, q1, r0, m7, 'a/{VINS[1]}/{VINS[0]}', ... (6 bytes))",
         Refusal(VINS[0], "publish a/{other}/{me}")),
        ("Received PUBLISH from x (d0, q1, r0, m7, 'Denied PUBLISH', ... (6 bytes))", None),
        ("OpenSSL Error[0]: error:0A000126:SSL routines::unexpected eof while reading", None),
        ("Client <unknown> disconnected: Protocol error.", None),
        ("Client x disconnected.", None),
        ("Client x closed its connection.", None),
        ("New connection from 127.0.0.1:54713 on port 1883.", None),
    ],
)  # fmt: skip
def test_mosquittos_refusals_are_those_of_identity_and_size(line: str, told: Refusal | None) -> None:
    assert of_mosquitto(f"{AT_S}: {line}") == (None if told is None else (AT_S, told))


def test_a_programs_refusals_are_told_and_its_other_lines_are_not() -> None:
    line = (
        '{"who": "%s", "what": "request: host evil\\n origin -", "event": "refused", "level": "warning", '
        '"at": "2026-11-28T10:04:00.500000Z", "process": "dashboard"}'
    )
    at_s = datetime.fromisoformat("2026-11-28T10:04:00.5+00:00").timestamp()
    what = "request: host evil\n origin -"
    assert of_program(line % "") == (at_s, Refusal(NOBODY, what))
    assert of_program(line % "bob@south.example") == (at_s, Refusal("bob@south.example", what))
    assert of_program(line.replace("refused", "serving")) is None
    assert of_program((line % "")[:-9]) is None


class Noted:
    """In place of the database: what is written to it."""

    def __init__(self, noted: dict[str, int]) -> None:
        self.noted, self.calls = noted, list[dict[str, Any]]()

    def run(self, work: Callable[[Any], Any]) -> Any:
        return work(self)

    def execute(self, _statement: str, values: dict[str, Any] | None = None) -> Noted:
        self._rows: list[tuple[Any, ...]] = [*self.noted.items()]
        if values is not None:
            self.calls.append(values)
            self._rows = [(len(values["found"].obj),)]
        return self

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._rows

    def told(self) -> list[tuple[int, list[tuple[str, str, int]]]]:
        found = [((c["minute_s"] - AT_S) // 60, c["found"].obj) for c in self.calls]
        return [(n, [(f["principal"], f["what"], f["times"]) for f in each]) for n, each in found]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs" / "kafka.log"


def reader(log: Path, clock: list[float], noted: dict[str, int] | None = None) -> tuple[Refusals, Noted]:
    database: Any = Noted(noted or {})
    return Refusals(database, log.parents[1], lambda: clock[0]), database


def test_a_minute_is_noted_once_when_it_has_ended_with_counts(log: Path) -> None:
    clock = [AT_S + 59.0]
    task, database = reader(log, clock)
    log.write_text("".join(f"{denied(AT_S + s)}\n" for s in (1, 2, 3)) + denied(AT_S + 4)[:40])
    assert (task(), database.calls) == (0, [])
    with log.open("a") as file:
        file.write(f"{denied(AT_S + 4)[40:]}\n{denied(AT_S + 61, 'instant')}\n")
    clock[0] = AT_S + 64.0
    assert task() == 0, "a line may still come"
    clock[0] = AT_S + 65.0
    assert (task(), task()) == (1, 0)
    clock[0] = AT_S + 200.0
    assert task() == 1
    assert database.told() == [
        (0, [("bridge", "write topic alerts", 4)]), (1, [("instant", "write topic alerts", 1)]),
    ]  # fmt: skip


def test_whatever_program_writes_it_a_refusal_is_noted_under_its_logs_name(log: Path) -> None:
    line = '{"who": "%s", "what": "%s", "event": "refused", "at": "%s"}\n'
    at = datetime.fromtimestamp(AT_S, UTC).isoformat()
    start = line % ("root", "start: a.jar was altered", at)
    log.with_name("supervisor.log").write_text(f"odograph: not JSON\n{start}")
    log.with_name("bridge-2.log").write_text(line % ("", "request: host evil origin -", at))
    task, database = reader(log, [AT_S + 600.0])
    assert task() == 2
    assert {(c["service"], *c["found"].obj[0].values()) for c in database.calls} == {
        ("supervisor", "root", None, "start: a.jar was altered", 1),
        ("bridge-2", NOBODY, None, "request: host evil origin -", 1),
    }


def test_after_a_restart_only_later_minutes_are_noted_of_what_was_put_aside_too(log: Path) -> None:
    log.with_suffix(".log.1").write_text(f"{denied(AT_S)}\n{denied(AT_S + 60)}\n")
    log.write_text(f"{denied(AT_S + 61)}\n")
    task, database = reader(log, [AT_S + 600.0], {"kafka": AT_S})
    assert (task(), task()) == (1, 0)
    assert database.told() == [(1, [("bridge", "write topic alerts", 2)])]
    log.with_suffix(".log.1").unlink()
    assert task() == 0


def test_a_log_that_was_put_aside_is_read_to_its_end_first(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "LOG_LIMIT_BYTES", 10)
    clock = [AT_S + 30.0]
    task, database = reader(log, clock)
    with log.open("a") as file:
        for n in range(0, 9, 3):
            print(denied(AT_S + n), file=file, flush=True)
            task()
            print(denied(AT_S + n + 1), file=file, flush=True)
            with locked(log, shared=True):
                processes.put_full_log_aside(log)  # it is read: later
            assert log.stat().st_size
            processes.put_full_log_aside(log)
            print(denied(AT_S + n + 2), file=file, flush=True)
            task()
    clock[0] = AT_S + 90.0
    task()
    assert database.told() == [(0, [("bridge", "write topic alerts", 9)])]


@pytest.mark.parametrize("read_bytes", [1000, 1 << 20])
def test_a_flood_of_names_makes_a_bounded_number_of_entries_and_none_is_uncounted(
    log: Path, monkeypatch: pytest.MonkeyPatch, read_bytes: int
) -> None:
    monkeypatch.setattr(refusals, "READ_BYTES", read_bytes)
    log.write_text("".join(f"{denied(AT_S, f'p{k}', 'x' * 500)}\n" for k in range(5000)))
    task, database = reader(log, [AT_S + 600.0])
    assert task() == MOST + 1
    ((_, entries),) = database.told()
    assert entries[0] == (NOBODY, "others", 5000 - MOST)
    assert sum(times for _, _, times in entries) == 5000
    assert max(len(what) for _, what, _ in entries) <= NAME_CHARS
