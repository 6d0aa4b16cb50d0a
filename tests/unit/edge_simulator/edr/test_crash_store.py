"""Crash messages kept in a run's folder until they are acknowledged."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from edge_simulator.edr import crash_store
from infra.contract.errors import ConfigError

VINS = ("1HGCM82633A004352", "1HGCM82633A004353")


def message(vehicle: int, crash: str, part: int | None = None, boot_id: int = 5) -> bytes:
    head = {"vehicle_id": VINS[vehicle], "boot_id": boot_id, "crash_id": crash, "text": 'a "word" \n'}
    return orjson.dumps(head if part is None else head | {"part": part, "parts": 12})


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "runs" / "r1"
    folder.mkdir(parents=True)
    return folder


def waiting(run: Path) -> list[tuple[str, bytes]]:
    return [(crash_store.vehicle_of(path), path.read_bytes()) for path in crash_store.unacked([run])]


def test_what_was_kept_waits_byte_for_byte_and_in_order(run: Path) -> None:
    whole, parts = message(1, "c1"), [message(0, "c2", part) for part in range(12)]
    crash_store.keep(run, [whole])
    crash_store.keep(run, parts)
    assert waiting(run) == [(VINS[1], whole), *((VINS[0], part) for part in parts)]


def test_what_was_acknowledged_does_not_wait_any_more(run: Path) -> None:
    parts = [message(1, "c2", 0), message(1, "c2", 1)]
    crash_store.keep(run, [message(0, "c1"), *parts])
    marks = [crash_store.path_of(run, payload) for payload in (message(0, "c1"), parts[1])]
    crash_store.note_acked(marks)
    crash_store.note_acked(marks)  # by another program that sent them too
    assert waiting(run) == [(VINS[1], parts[0])]


def test_a_crash_of_the_same_number_on_another_boot_or_vehicle_is_another(run: Path) -> None:
    crash_store.keep(run, [message(0, "c1"), message(1, "c1"), message(0, "c1", boot_id=6)])
    crash_store.note_acked([crash_store.path_of(run, message(0, "c1"))])
    assert [payload for _, payload in waiting(run)] == [message(1, "c1"), message(0, "c1", boot_id=6)]


def test_a_run_without_crashes_keeps_no_folder(run: Path) -> None:
    crash_store.keep(run, [])
    assert list(run.iterdir()) == []
    assert crash_store.unacked([run]) == []


def test_a_run_is_found_by_its_id_or_its_folder_and_an_unknown_one_is_named(
    run: Path, tmp_path: Path
) -> None:
    crash_store.keep(run, [message(0, "c1")])
    assert crash_store.folder_of(tmp_path, "r1") == crash_store.folder_of(tmp_path, str(run)) == run
    with pytest.raises(ConfigError, match="r9: no run with crash records"):
        crash_store.folder_of(tmp_path, "r9")
