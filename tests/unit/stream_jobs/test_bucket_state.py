"""A bucket's memory in Spark's state store: what a batch reads and writes of it, and its timer."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import orjson
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql.streaming.stateful_processor_util import TransformWithStateInPandasFuncMode as Mode

from infra.settings.settings import Settings
from stream_jobs.app.python_daemon import ByColumn
from stream_jobs.app.telemetry import BucketState, Operator
from stream_jobs.recovery.checkpoints import METADATA, Checkpoint
from stream_jobs.recovery.files import LocalFiles
from stream_jobs.rules.rule_set import rules_in_force
from tests.support_frames import frame
from tests.unit.stream_jobs.window_support import T0, Kept, key_of


class Values:
    """One of Spark's maps, or its one value, under the key None; what was asked for and what was set."""

    def __init__(self) -> None:
        self.held: dict[Any, Any] = {}
        self.asked: list[Any] = []
        self.told: list[Any] = []

    def getValue(self, key: Any) -> Any:
        self.asked.append(key)
        return self.held.get(key)

    def updateValue(self, key: Any, value: Any) -> None:
        assert isinstance(value[0], str)
        self.told.append(key)
        self.held[key] = value

    def removeKey(self, key: Any) -> None:
        del self.held[key]

    def get(self) -> Any:
        return self.held.get(None)

    def update(self, value: Any) -> None:
        self.held[None] = value

    def clear(self) -> None:
        self.held.clear()


class Handle:
    """Spark's handle of the state of one bucket."""

    def __init__(self) -> None:
        self.head, self.blocks, self.timers = Values(), Values(), set[int]()

    def getValueState(self, *_: Any) -> Values:
        return self.head

    def getMapState(self, *_: Any) -> Values:
        self.blocks.asked.clear()
        self.blocks.told.clear()
        return self.blocks

    def listTimers(self) -> Iterator[int]:
        return iter(sorted(self.timers))

    def registerTimer(self, at_ms: int) -> None:
        assert at_ms not in self.timers
        self.timers.add(at_ms)

    def deleteTimer(self, at_ms: int) -> None:
        self.timers.remove(at_ms)


def opened(handle: Handle) -> Any:
    """As the processor opens it when it begins."""
    return handle, handle.getValueState(), handle.getMapState()


def records(*seconds: int) -> pd.DataFrame:
    """A frame of two vehicles for each second of event time, received a second later."""
    sent = []
    for second in seconds:
        for vehicle in (1, 2):
            t0_ms = T0 + 1000 * second
            values = {"speed_kmh": 36.0, "lat_deg": 48.1, "lon_deg": 11.5, "ignition_on": True}
            raw = orjson.dumps(frame(vehicle, second, t0_ms, **values))
            sent.append((key_of(raw), 0, second * 2 + vehicle, t0_ms + 1500, raw))
    return pd.DataFrame(sent, columns=["key", "partition", "log_offset", "received_ms", "value"])


@pytest.fixture(scope="module")
def operator() -> Operator:
    settings = Settings()
    return Operator(settings, rules_in_force(settings))


def rows(found: Iterator[pd.DataFrame]) -> list[Any]:
    return [row for each in found for row in each.to_dict("records")]


def test_a_batch_reads_and_writes_the_windows_of_its_frames_alone_and_finds_the_same(
    operator: Operator,
) -> None:
    handle, whole = Handle(), Kept()
    for seconds in ([0, 1], [11, 12], [13, 21], [22, 23]):
        state = BucketState(opened(handle))
        batch, watermark_ms = records(*seconds), T0 + 1000 * seconds[0]
        found = rows(operator(7, [batch], state, watermark_ms))
        assert found == rows(operator(7, [batch], whole, watermark_ms))
        assert len(handle.timers) == 1
    assert set(handle.blocks.held) == {(False, T0 + ms) for ms in (0, 10_000, 20_000)} | {(True, T0)}
    assert set(handle.blocks.asked) == set(handle.blocks.told) == {(False, T0 + 20_000), (True, T0)}


def test_windows_that_close_leave_the_store_and_a_timer_that_was_due_is_left_to_spark(
    operator: Operator,
) -> None:
    handle = Handle()
    rows(operator(7, [records(0, 1, 61)], BucketState(opened(handle)), T0))
    assert set(handle.blocks.held) == {(of, T0 + ms) for of in (False, True) for ms in (0, 60_000)}
    (due_ms,) = handle.timers
    state = opened(handle)
    rows(operator(7, (), BucketState(state, due_ms), due_ms + 1))
    assert set(handle.blocks.held) == {(True, T0), (False, T0 + 60_000), (True, T0 + 60_000)}
    assert due_ms in handle.timers
    assert len(handle.timers) == 2
    handle.timers.remove(due_ms)
    rows(operator(7, (), BucketState(opened(handle)), T0 + 900_000))
    assert handle.blocks.held == {}
    assert len(handle.timers) == 1


def test_rows_of_a_key_come_in_slices_in_their_order_over_the_borders_of_batches() -> None:
    schema = pa.schema([("bucket", pa.int32()), ("value", pa.binary())])
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, schema) as writer:
        for keys in ([3, 3, 5], [5, 5], [], [-1]):
            values = [f"{key}".encode() for key in keys]
            writer.write_batch(pa.record_batch([pa.array(keys, pa.int32()), pa.array(values)], schema))
    sink.seek(0)
    serializer = ByColumn.__new__(ByColumn)
    serializer.key_offsets = [0]  # type: ignore[assignment]
    found = [
        (mode, key, None if group is None else [chunk["value"].tolist() for _, chunk in group])
        for mode, key, group in serializer.load_stream(sink)
    ]
    assert found == [
        (Mode.PROCESS_DATA, (3,), [[b"3", b"3"]]),
        (Mode.PROCESS_DATA, (5,), [[b"5"], [b"5", b"5"]]),
        (Mode.PROCESS_DATA, (-1,), [[b"-1"]]),
        (Mode.PROCESS_TIMER, None, None),
        (Mode.COMPLETE, None, None),
    ]


def test_a_checkpoint_that_was_moved_names_its_own_schemas(tmp_path: Any) -> None:
    checkpoint = Checkpoint(LocalFiles(str(tmp_path / "new")), "telemetry")
    text = 'v2\n{{"stateSchemaFilePaths":["{}/state/0/_stateSchema/default/0_a"],"x":"/b"}}'
    checkpoint.write(f"{METADATA}/0", text.format("file:/old/telemetry"))
    checkpoint.settle()
    assert checkpoint.read(f"{METADATA}/0") == text.format(f"{tmp_path}/new/telemetry")


def test_what_spark_starts_to_open_the_state_loads_nothing_that_the_operator_needs() -> None:
    code = "import sys, stream_jobs.app.processor; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not {"pandas", "pyarrow", "duckdb", "stream_jobs.app.telemetry"} & {*loaded.split()}
