"""A record without a value: the stream forgets the vehicle of its key, and only that one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pandas as pd
import pyarrow as pa
import pytest

from infra.contract.verdict import ERASED
from infra.settings.settings import Settings
from stream_jobs.app.telemetry import Operator, table_of, without_erased
from stream_jobs.archive.query import exceptions_in
from stream_jobs.archive.writer import indexed, write_files
from stream_jobs.frames import state
from stream_jobs.rules.rule_set import rules_in_force
from stream_jobs.windows.block import Block
from stream_jobs.windows.places import Places
from tests.support_frames import Record, frame, vin
from tests.unit.stream_jobs.window_support import LIMITS, T0, Kept, key_of, recorded

GONE, STAYS = vin(1), vin(2)
Sent = tuple[bytes | None, int, bytes | None]


def sent(vehicle: int, seq: int) -> Sent:
    t0_ms = T0 + 1000 * seq
    raw = orjson.dumps(
        frame(vehicle, seq, t0_ms, speed_kmh=36.0, lat_deg=48.1, lon_deg=11.5, ignition_on=True)
    )
    return key_of(raw), t0_ms + 1500, raw


def batch(messages: list[Sent], begin: int) -> pd.DataFrame:
    keys, stamps, values = zip(*messages, strict=True)
    return pd.DataFrame({
        "key": keys, "partition": 0, "log_offset": range(begin, begin + len(messages)), "received_ms": stamps,
        "value": pd.Series(values, dtype=object),
    })  # fmt: skip


def after(*batches: list[Sent]) -> tuple[Any, Any, list[str]]:
    """Fleet and windows' memory after the batches, and vehicles in rows of windows that were given out."""
    rule_set, kept = rules_in_force(Settings()), Kept()
    work, begin, told = Operator(Settings(), rule_set), 0, list[str]()
    for messages in batches:
        for rows in work(0, [batch(messages, begin)], kept, 0):
            tables = [table_of(row["body"]) for row in rows.to_dict("records") if row["kind"] == "vehicle"]
            told = [name for table in tables for name in table["vehicle_id"].to_pylist()]
        begin += len(messages)
    return *kept.load(rule_set), told


@pytest.mark.parametrize("at_once", [True, False])
def test_a_vehicle_is_forgotten_whole_whether_or_not_its_frames_come_in_the_same_batch(at_once: bool) -> None:
    frames = [sent(v, s) for s in range(40) for v in (1, 2)] + [sent(1, 50), sent(2, 41)]
    erased: list[Sent] = [(GONE.encode(), T0 + 60_000, None), sent(2, 40)]
    fleet, memory, told = after(frames + erased) if at_once else after(frames, erased)
    assert fleet.ids == [STAYS]
    assert [*memory.seen] == [STAYS]
    blocks = [state.load(raw, Block).vehicles.to_pylist() for raw in memory.vehicles.values()]
    places = [state.load(raw, Places).vehicles.to_pylist() for raw in memory.places.values()]
    assert {name for names in (*blocks, *places) for name in names} == {STAYS}
    assert GONE not in told
    alone, others, _ = after([each for each in frames + erased if each[0] == STAYS.encode()])
    assert fleet.vehicles.tolist() == alone.vehicles.tolist()
    assert [len(each.held) for each in fleet.waiting.values()] == [
        len(w.held) for w in alone.waiting.values()
    ]
    assert memory.vehicles.keys() == others.vehicles.keys()


def test_while_frames_of_another_wait_nothing_of_it_does() -> None:
    fleet, _, _ = after([sent(1, 0), sent(2, 0)], [sent(2, 5), sent(1, 5)], [(GONE.encode(), T0, None)])
    assert (fleet.ids, fleet.held.ids, len(fleet.held)) == ([STAYS], [STAYS], 1)


def test_what_comes_behind_it_counts_again() -> None:
    frames = [sent(1, s) for s in range(5)]
    fleet, memory, told = after(frames, [(GONE.encode(), T0, None), sent(1, 9)])
    assert (fleet.ids, [*memory.seen], set(told)) == ([GONE], [GONE], {GONE})


def test_only_what_lies_before_it_goes_and_a_marker_is_nobodys() -> None:
    keys = [None, b"A", b"B", b"A", b"", None, b"A"]
    values = [b"0", b"1", b"2", None, None, None, b"3"]
    table = pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})
    left, erased = without_erased(table)
    assert (left["value"].to_pylist(), erased) == ([b"2", b"3"], {"A"})
    whole = table.slice(0, 3)
    assert without_erased(whole) == (whole, set())


def test_the_archive_keeps_the_record_and_tells_nobody(tmp_path: Path) -> None:
    records: list[Record] = [(T0 + 1500, sent(1, 0)[2] or b"")]
    one = recorded(records)
    mark = one.set_column(one.schema.get_field_index("value"), "value", pa.array([None], pa.binary()))
    table = indexed(mark, LIMITS)
    assert (table["verdict"].to_pylist(), table["vehicle_id"].to_pylist()) == ([ERASED], [GONE])
    write_files(tmp_path, [mark], LIMITS)
    (file,) = tmp_path.rglob("*.parquet")
    assert [*exceptions_in([file])] == []
