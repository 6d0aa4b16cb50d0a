"""What runs say of their devices, read from their folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stream_jobs.audit.edge import EdgeDevice, devices, run_totals

ROW = {"vehicle_id": "V", "boot_id": 7, "next_seq": 9, "lost": [[3, 4]], "dropped": [], "on_board": [[8, 8]]}


def write(folder: Path, run: dict[str, Any], *rows: dict[str, Any]) -> None:
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(run))
    (folder / "sequences.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_device_is_told_by_its_run(tmp_path: Path) -> None:
    write(tmp_path / "runs" / "a", {"start_ms": 5, "finished": False}, ROW)
    assert devices(tmp_path) == {("V", 7): EdgeDevice(9, [(3, 4)], [], [(8, 8)], 5, None, True)}


def test_a_generated_day_need_not_arrive_until_it_was_sent(tmp_path: Path) -> None:
    write(tmp_path / "days" / "d", {"start_ms": 5}, ROW)
    assert devices(tmp_path) == {("V", 7): EdgeDevice(9, [(3, 4)], [], [(8, 8)], 5, 0, False)}
    write(
        tmp_path / "runs" / "d",
        {"start_ms": 6, "finished": True, "ended_ms": 9},
        ROW | {"next_seq": 12, "lost": [[5, 5]]},
    )
    assert devices(tmp_path) == {("V", 7): EdgeDevice(12, [(3, 5)], [], [(8, 8)], 5, 9, True)}


def test_a_day_that_is_being_made_tells_nothing_yet(tmp_path: Path) -> None:
    write(tmp_path / "days" / ".d.partial", {}, ROW)
    (tmp_path / "days" / ".d.partial" / "run.json").unlink()
    assert devices(tmp_path) == {}


def test_a_home_without_runs_tells_nothing(tmp_path: Path) -> None:
    assert devices(tmp_path) == {}


def test_the_edges_figures_are_summed_over_runs_without_what_never_left(tmp_path: Path) -> None:
    for number, (lost, dropped) in enumerate(((0, 0), (4, 3))):
        folder = tmp_path / "runs" / str(number)
        folder.mkdir(parents=True)
        run = {
            "generated": 50,
            "lost_on_link": lost,
            "dropped_on_board": dropped,
            "poison": 1,
            "sent": 52,
            "acked": 51,
        }
        (folder / "run.json").write_text(json.dumps(run))
    assert run_totals(tmp_path) == {"generated": 93, "poison": 2, "sent": 104, "acked": 102}


def test_a_run_in_several_processes_counts_once(tmp_path: Path) -> None:
    counts = {"generated": 50, "sent": 50, "acked": 50}
    whole = {"generated": 100, "sent": 100, "acked": 100, "run_id": "r", "parts": ["r.0", "r.1"]}
    for name, run in (("r", whole), ("r.0", counts | {"run_id": "r.0"}), ("r.1", counts | {"run_id": "r.1"})):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "run.json").write_text(json.dumps(run))
    assert run_totals(tmp_path) == {"generated": 100, "poison": 0, "sent": 100, "acked": 100}
