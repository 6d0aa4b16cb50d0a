"""What runs say of their devices, read from their folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stream_jobs.audit.edge import EdgeDevice, devices

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


def test_a_home_without_runs_tells_nothing(tmp_path: Path) -> None:
    assert devices(tmp_path) == {}
