"""What history says, joined with frames: by vehicle and by place, anew as soon as a file is replaced."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h3
import numpy as np
import orjson
import pyarrow as pa

from infra.contract.verdict import clock_limits
from infra.settings.settings import Settings
from stream_jobs.maintenance.copies import free_flow_table
from stream_jobs.rules.evaluation import check_translations
from stream_jobs.vehicles import lookups
from stream_jobs.vehicles.features import VehicleStage
from tests.support_detect import findings
from tests.support_frames import frame, vin
from tests.unit.stream_jobs.rules.traces import rule

T0 = 1_780_000_000_000
SETTINGS = Settings()
CELL = h3.latlng_to_cell(48.1, 11.5, 9)
EAST = 1
KEYS = {"kind": "level", "raise_for_s": 3, "clear_for_s": 10}


def values(home: Path, told: str) -> Callable[[pa.RecordBatch], list[float | None]]:
    """What a rule whose value is the column ``told`` sees of each frame of a batch, None where nothing."""
    limits = clock_limits(SETTINGS), SETTINGS.journeys
    stage = VehicleStage(*limits, home / "lookups", (rule(home, **KEYS, value=told),))

    def of(batch: pa.RecordBatch) -> list[float | None]:
        frames = stage.frames(batch)
        assert frames is not None
        seen = stage.features(frames).rules.values[0].tolist()
        return [None if math.isnan(value) else value for value in seen]

    return of


def records(*frames: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "partition": pa.array([0] * len(frames), pa.int32()),
            "log_offset": pa.array(range(len(frames)), pa.int64()),
            "received_ms": pa.array([each["t0_ms"] + 1500 for each in frames], pa.int64()),
            "value": pa.array([orjson.dumps(each) for each in frames], pa.binary()),
        }
    )


def tell_usual(home: Path, **values: float) -> None:
    row = {"vehicle_id": vin(1), **dict.fromkeys(lookups.USUAL), **values}
    table = pa.Table.from_pylist([row], lookups.USUAL_SCHEMA)
    lookups.write(home / "lookups" / lookups.USUAL_FILE, table, lookups.USUAL_SCHEMA)


def tell_free_flow(home: Path, *rows: tuple[str, int, float]) -> None:
    path = home / "lookups" / lookups.FREE_FLOW_FILE
    lookups.write(path, free_flow_table(list(rows)), lookups.PLACE_SCHEMA)


def test_where_nothing_is_known_yet_the_files_are_there_and_say_nothing(tmp_path: Path) -> None:
    lookups.write(tmp_path / "lookups" / lookups.VEHICLE_FILE, lookups.SCHEMA.empty_table())
    nothing = lookups.USUAL_SCHEMA.empty_table()
    lookups.write(tmp_path / "lookups" / lookups.USUAL_FILE, nothing, lookups.USUAL_SCHEMA)
    tell_free_flow(tmp_path)
    for told in ("usual_battery_v", "free_flow_kmh"):
        assert values(tmp_path, told)(records(frame(1, 0, T0))) == [None]


def test_a_running_stage_takes_what_is_written_while_it_runs(tmp_path: Path) -> None:
    def batches() -> Any:
        yield records(frame(1, 0, T0), frame(2, 0, T0))
        tell_usual(tmp_path, model_coolant_c=88.5, usual_battery_v=13.9)
        yield records(frame(1, 1, T0), frame(2, 1, T0))
        tell_usual(tmp_path, model_coolant_c=91.0)
        yield records(frame(1, 2, T0), frame(2, 2, T0))

    told = values(tmp_path, "model_coolant_c")
    assert [told(batch) for batch in batches()] == [[None, None], [88.5, None], [91.0, None]]


def test_free_flow_is_that_of_the_cell_and_direction_of_the_frames_last_position(tmp_path: Path) -> None:
    tell_free_flow(tmp_path, (CELL, EAST, 62.0), (CELL, -1, 40.0), ("891f8d7a49bffff", EAST, 99.0))
    here = {"lat_deg": 48.1, "lon_deg": 11.5}
    batch = records(
        frame(1, 0, T0, heading_deg=90.0, **here),
        frame(1, 1, T0, heading_deg=134.9, **here),
        frame(1, 2, T0, heading_deg=135.0, **here),
        frame(1, 3, T0, **here),
        frame(1, 4, T0, lat_deg=50.0, lon_deg=11.5, heading_deg=90.0),
        frame(1, 5, T0),
    )
    assert values(tmp_path, "free_flow_kmh")(batch) == [62.0, 62.0, None, 40.0, None, None]


def test_the_same_history_is_not_written_again_and_another_versions_file_says_nothing(tmp_path: Path) -> None:
    table = free_flow_table([(CELL, EAST, 62.0)])
    path = tmp_path / "flow.arrow"
    assert [lookups.write(path, table, table.schema) for _ in range(2)] == [True, False]
    assert lookups.read(path, lookups.USUAL_SCHEMA).num_rows == 0


def test_places_of_two_directions_of_a_cell_differ_and_fit_64_bits() -> None:
    cells = np.array([int(CELL, 16)] * 5, np.int64)
    found = lookups.places(cells, np.arange(-1, 4, dtype=np.int64))
    assert len(set(found.tolist())) == 5
    assert (found > 0).all()


def test_rules_compare_frames_with_history(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    warm = rule(tmp_path, **KEYS, value="coolant_temp_c - model_coolant_c", beyond="above", limit=10)
    slow = rule(
        tmp_path / "a", **KEYS, id="slow", value="array_max(speed_kmh)", beyond="below",
        limit="0.5 * free_flow_kmh",
    )  # fmt: skip
    check_translations(tmp_path, [warm, slow])
    tell_usual(tmp_path, model_coolant_c=88.0)
    tell_free_flow(tmp_path, (CELL, EAST, 62.0))
    more = {"lat_deg": 48.1, "lon_deg": 11.5, "heading_deg": 90.0, "coolant_temp_c": 99.0}
    said = [frame(v, s, T0 + s * 1000, speed_kmh=30.0, **more) for s in range(6) for v in (1, 2)]
    rows = [(f["t0_ms"] + 1500, orjson.dumps(f)) for f in said]
    found = findings(tmp_path, rows, [warm, slow], T0 + 10_000)
    raised = {(row.vehicle_id, row.rule, row.limit) for row in found}
    assert raised == {(vin(1), "mine", 10.0), (vin(1), "slow", 31.0), (vin(2), "slow", 31.0)}
