"""Crash messages kept in a run's folder until they are acknowledged."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from edge_simulator.edr import crash_store
from edge_simulator.edr.crash_store import CrashStore
from edge_simulator.edr.recorder import Sealed
from edge_simulator.telemetry.outbox import Outgoing
from infra.contract.errors import ConfigError

VINS = ("1HGCM82633A004352", "1HGCM82633A004353")


def message(vehicle: int, crash: str, part: int | None = None) -> bytes:
    head = {"vehicle_id": VINS[vehicle], "boot_id": 5, "crash_id": crash, "text": 'a "quoted" word \n'}
    return orjson.dumps(head if part is None else head | {"part": part, "parts": 2})


def sealed(vehicle: int, *payloads: bytes) -> Sealed:
    return Sealed(vehicle, 0, payloads)


def outgoing(vehicle: int, payload: bytes, channel: str = "crash") -> Outgoing:
    return Outgoing(0, 0, vehicle, channel, payload)


@pytest.fixture
def store(tmp_path: Path) -> CrashStore:
    (tmp_path / "runs" / "r1").mkdir(parents=True)
    return CrashStore(tmp_path / "runs" / "r1" / crash_store.FILE, VINS)


def waiting(tmp_path: Path) -> list[tuple[str, bytes]]:
    said: list[str] = []
    found = crash_store.unacked_of(crash_store.files(tmp_path), said.append)
    assert said == []
    return [(kept.vehicle_id, kept.payload) for kept in found]


def test_what_was_kept_waits_byte_for_byte_and_in_order(store: CrashStore, tmp_path: Path) -> None:
    whole, parts = message(0, "c1"), [message(1, "c2", 0), message(1, "c2", 1)]
    store.keep([sealed(0, whole), sealed(1, *parts)])
    assert waiting(tmp_path) == [(VINS[0], whole), (VINS[1], parts[0]), (VINS[1], parts[1])]


def test_what_was_acknowledged_does_not_wait_any_more(store: CrashStore, tmp_path: Path) -> None:
    parts = [message(1, "c2", 0), message(1, "c2", 1)]
    store.keep([sealed(0, message(0, "c1")), sealed(1, *parts)])
    marks = [store.mark(outgoing(0, message(0, "c1"))), store.mark(outgoing(1, parts[1]))]
    crash_store.note_acked(mark for mark in marks if mark is not None)
    assert waiting(tmp_path) == [(VINS[1], parts[0])]


def test_a_crash_of_the_same_number_on_another_boot_or_vehicle_is_another(
    store: CrashStore, tmp_path: Path
) -> None:
    store.keep([sealed(0, message(0, "c1")), sealed(1, message(1, "c1"))])
    mark = store.mark(outgoing(0, message(0, "c1")))
    assert mark is not None
    crash_store.note_acked([mark])
    assert [vehicle_id for vehicle_id, _ in waiting(tmp_path)] == [VINS[1]]


def test_a_line_that_was_cut_off_costs_only_itself(store: CrashStore, tmp_path: Path) -> None:
    store.keep([sealed(0, message(0, "c1"))])
    path = tmp_path / "runs" / "r1" / "crashes.jsonl"
    with path.open("ab") as file:
        file.write(b'\n{"key": "1HGCM8')
    store.keep([sealed(1, message(1, "c2"))])
    said: list[str] = []
    kept = crash_store.unacked_of([path], said.append)
    assert [k.payload for k in kept] == [message(0, "c1"), message(1, "c2")]
    assert len(said) == 1
    assert "1 lines cannot be read" in said[0]


def test_other_messages_have_no_mark_and_a_run_without_crashes_no_file(
    store: CrashStore, tmp_path: Path
) -> None:
    assert store.mark(outgoing(0, b"{}", "telemetry")) is None
    store.keep([])
    assert crash_store.files(tmp_path) == []


def test_a_run_is_found_by_its_id_or_its_folder_and_an_unknown_one_is_named(
    store: CrashStore, tmp_path: Path
) -> None:
    store.keep([sealed(0, message(0, "c1"))])
    folder = tmp_path / "runs" / "r1"
    assert crash_store.file_of(tmp_path, "r1") == crash_store.file_of(tmp_path, str(folder))
    with pytest.raises(ConfigError, match="r9: no run with crash records"):
        crash_store.file_of(tmp_path, "r9")
