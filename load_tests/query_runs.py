"""Runs queries of the stream application, and two yardsticks beside them, over a full topic."""

from __future__ import annotations

import dataclasses
import os
import statistics
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention

from infra.settings.settings import Endpoints, Settings
from infra.stack.processes import cpu_s
from load_tests.filling import SAMPLES
from stream_jobs.app import jobs, queries
from stream_jobs.app.progress import Listener, line_of
from stream_jobs.frames.reading import read
from stream_jobs.rules.instant import FRAME, parse

DEADLINE_S: Final = 300.0
WATERMARK: Final = "60 seconds"


def decoded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each payload read as the queries read it, and nothing else done: how many frames there were."""
    for batch in batches:
        yield pa.RecordBatch.from_pydict(
            {"frames": pa.array([read(batch.column("value")).num_rows], pa.int64())}
        )


def decode(records: DataFrame, _settings: Settings) -> DataFrame:
    """The limit: records out of Kafka, JSON to columns, no more."""
    return records.select("value").mapInArrow(decoded, "frames long")


def naive(records: DataFrame, settings: Settings) -> DataFrame:
    """Windows by vehicle as one would write them first: parse, a row a sample, window, aggregate.

    Five measures, no verdict, no dropping of copies, no road cells.
    """
    frames = parse(records.select("received_ms", "key", "value"), FRAME)
    samples = frames.select(
        "vehicle_id", "t0_ms", "dt_ms", F.posexplode(F.arrays_zip("speed_kmh", "engine_rpm"))
    )
    event_time = F.timestamp_millis(F.col("t0_ms") + F.col("pos") * F.col("dt_ms"))
    timed = samples.withColumn("event_time", event_time).withWatermark("event_time", WATERMARK)
    window = F.window("event_time", f"{settings.jobs.window_s} seconds")
    return timed.groupBy("vehicle_id", window).agg(
        F.count("*").alias("samples"), F.avg("col.speed_kmh"), F.max("col.speed_kmh"),
        F.avg("col.engine_rpm"), F.max("col.engine_rpm"),
    )  # fmt: skip


def _taken(rows: DataFrame, _batch_id: int) -> None:
    """Compute every row, write none."""
    rows.write.format("noop").mode("overwrite").save()


def _yardstick(name: str, transform: queries.Transform, stateful: bool) -> queries.Query:
    plain = next(query for query in queries.QUERIES if query.name == "telemetry")
    return dataclasses.replace(
        plain,
        name=name,
        operators=1 if stateful else None,
        replaces=(),
        output_mode="update",
        transform=transform,
        sink=lambda *_: _taken,
        interpreted=not stateful,
    )


YARDSTICKS: Final = (_yardstick("decode", decode, False), _yardstick("naive", naive, True))


def known() -> dict[str, queries.Query]:
    """All that can be run, by name: the yardsticks, then the application's queries."""
    return {query.name: query for query in (*YARDSTICKS, *queries.QUERIES)}


class Figures(Listener):
    """Progress of every batch with input, by query."""

    def __init__(self) -> None:
        self.batches: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802  Spark's name
        """Of no interest."""

    def progressed(self, progress: Mapping[str, Any]) -> None:
        """Keep the line."""
        line = line_of(progress)
        if line["input_rows"]:
            spent = {"cpu_s": cpu_s(os.getpid()), "took_ms": progress["durationMs"]}
            self.batches[line["query"]].append(line | spent)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802  Spark's name
        """Of no interest."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802  Spark's name
        """Of no interest."""

    def done(self, name: str, frames: int) -> bool:
        """Whether a query has taken in so many frames."""
        return bool(sum(b["input_rows"] for b in self.batches[name]) >= frames)


@dataclass(frozen=True, slots=True)
class Run:
    """One query over the whole topic. Figures without the first batch, which plans and compiles."""

    query: str
    frames: int
    samples_per_s: float
    cpu_s_per_100k: float
    state_rows: int
    state_bytes: int
    """As RocksDB counts its memory."""
    disk_bytes: int
    """The state's files in the checkpoint."""
    took_ms: dict[str, int]
    """Parts of the last batch, as Spark has them."""


def run(settings: Settings, addresses: Endpoints, query: queries.Query, frames: int) -> Run:
    """One query in an application of its own, from the topic's begin, until it has taken in ``frames``."""
    home = settings.paths.home / f"rate-{query.name}-{uuid.uuid4().hex[:8]}"
    own = settings.model_copy(update={"paths": settings.paths.model_copy(update={"home": home})})
    stop, figures = threading.Event(), Figures()
    application = jobs.Application(own, addresses, stop, [query])
    application.listeners.append(figures)
    thread = threading.Thread(target=application.run, name="application")
    thread.start()
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end and thread.is_alive() and not figures.done(query.name, frames):
        time.sleep(0.2)
    stop.set()
    thread.join()
    return _summary(query.name, figures.batches[query.name], home)


def _summary(name: str, batches: list[dict[str, Any]], home: Path) -> Run:
    warm = batches[1:]
    frames = sum(b["input_rows"] for b in warm)
    full = [b for b in warm if b["input_rows"] >= 0.5 * max(x["input_rows"] for x in warm)]
    rates = [b["input_rows"] / b["batch_ms"] * 1000 * SAMPLES for b in full]
    spent_s = batches[-1]["cpu_s"] - batches[0]["cpu_s"] if warm else 0.0
    state = home / "checkpoints" / name / "state"
    return Run(
        query=name,
        frames=sum(b["input_rows"] for b in batches),
        samples_per_s=round(statistics.median(rates)) if rates else 0.0,
        cpu_s_per_100k=round(spent_s / frames * 100_000, 2) if frames else 0.0,
        state_rows=batches[-1]["state_rows"] if batches else 0,
        state_bytes=batches[-1]["state_bytes"] if batches else 0,
        disk_bytes=sum(path.stat().st_size for path in state.rglob("*") if path.is_file()),
        took_ms=dict(batches[-1]["took_ms"]) if batches else {},
    )
