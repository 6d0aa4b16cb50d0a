"""A checkpoint whose state is split: each vehicle's memory is in the bucket that its records go to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from infra.contract.errors import ConfigError
from infra.settings.settings import Settings
from load_tests.drills.rescale import vehicles
from stream_jobs.app.jobs import STREAM_CONF
from stream_jobs.app.telemetry import bucket_numbers, place_of
from stream_jobs.recovery.checkpoints import MARK, Checkpoint
from stream_jobs.recovery.files import LocalFiles
from stream_jobs.recovery.rescale import kept, rescale, seed
from stream_jobs.rules.rule_set import rules_in_force
from stream_jobs.vehicles.fleet import Fleet, dump, load
from stream_jobs.windows.open_windows import Memory
from tests.support_frames import vin

FLEET = [vin(v) for v in range(1, 13)]
ENDS = {"t": {"0": 70, "1": 50}}
DUE_MS = 1_700_000_000_000


class Ledger:
    """A database that keeps what is entered."""

    def __init__(self) -> None:
        self.lines: list[Any] = []

    def run(self, work: Any) -> None:
        work(self)

    def execute(self, _: str, line: Any) -> Any:
        self.lines.append(line)
        return self

    rowcount = 1


def places(spark: SparkSession, buckets: int) -> dict[str, int]:
    """The place of each vehicle's bucket, as records go there: by a key of bytes."""
    keys = spark.createDataFrame([(v, v.encode()) for v in FLEET], "id string, key binary")
    return dict(keys.select("id", place_of(F.col("key"), buckets)).collect())


@pytest.fixture
def session(java: SparkSession) -> SparkSession:
    own = java.newSession()
    for key, value in STREAM_CONF.items():
        if key.startswith("spark.sql.") and own.conf.isModifiable(key):
            own.conf.set(key, value)
    return own


def test_each_vehicle_is_remembered_where_its_records_go(session: SparkSession, tmp_path: Path) -> None:
    settings = Settings(paths={"home": str(tmp_path)})  # type: ignore[arg-type]
    files, rule_set = LocalFiles(str(tmp_path / "checkpoints")), rules_in_force(settings)
    old, numbers, of = Checkpoint(files, "telemetry"), bucket_numbers(session, 2, 2), places(session, 2)
    pieces = []
    for place in range(2):
        fleet = Fleet(rule_set)
        at = fleet.places([v for v in FLEET if of[v] == place])
        fleet.vehicles["due"][at] = DUE_MS + at
        pieces.append((numbers[place], dump(fleet, Memory(clocks_ms={0: DUE_MS})), DUE_MS))
    seed(session, settings, pieces, str(tmp_path / "pieces"), old.location)
    head = json.loads((old.read("offsets/0") or "").splitlines()[1]) | {"batchWatermarkMs": 41}
    old.write("offsets/0", f"v1\n{json.dumps(head)}\n{json.dumps(ENDS)}")
    version, commit = (old.read("commits/0") or "").splitlines()
    old.write("commits/0", f"{version}\n{json.dumps(json.loads(commit) | {'nextBatchWatermarkMs': 42})}")
    old.write("sources/0/0", "\0v1\n" + json.dumps({"t": {"0": 0, "1": 0}}))
    old.write(MARK, "4\n2\n")
    session.conf.set("spark.sql.shuffle.partitions", "4")
    ledger: Any = Ledger()
    query_id, remembered = old.query_id(), vehicles(session, settings, old)
    assert remembered.keys() == {*FLEET}
    with pytest.raises(ConfigError, match="5 is no multiple of 2"):
        rescale(settings, files, ledger, session, 5)
    assert "lies in 4 buckets now" in rescale(settings, files, ledger, session, 4)
    assert rescale(settings, files, ledger, session, 4) == "the state of telemetry lies in 4 buckets"

    assert files.names("") == ["telemetry"]
    new, numbers, of = Checkpoint(files, "telemetry"), bucket_numbers(session, 4, 4), places(session, 4)
    assert new.query_id() not in (None, query_id)
    assert (new.ends_of(0), new.batches("commits")) == ({"t": {0: 70, 1: 50}}, [0])
    assert json.loads((new.read("commits/0") or "").splitlines()[1])["nextBatchWatermarkMs"] == 42
    assert new.read("sources/0/0") == "\0v1\n" + json.dumps({"t": {"0": 0, "1": 0}})
    assert [(line["query_id"], line["batch_id"], json.loads(line["ends"])) for line in ledger.lines] == [
        (new.query_id(), 0, ENDS)
    ]
    blobs = kept(session, new)
    timers = session.read.format("statestore").option("readRegisteredTimers", True).load(new.location)
    due_ms = dict(timers.select("key.bucket", "expiration_timestamp_ms").collect())
    found = {}
    for bucket, blob in blobs.items():
        fleet, memory = load(blob, rule_set)
        found |= dict.fromkeys(fleet.ids, numbers.index(bucket))
        assert (memory.clocks_ms, due_ms[bucket]) == ({0: DUE_MS}, int(fleet.vehicles["due"].min()))
    assert found == of
    assert vehicles(session, settings, new) == remembered
