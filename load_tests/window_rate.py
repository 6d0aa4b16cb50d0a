"""How fast the stream application is: frames/s and samples/s of each query from a filled topic to the tables.

Needs a stack of its own: ODOGRAPH_PATHS_HOME=<folder> odograph up --services-only.
Run: python -m load_tests.window_rate [--frames N] [--vehicles N] [--queries windows,archive]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import threading
import time
import uuid
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from infra.contract import settings as contract_settings
from infra.contract.settings import Endpoints, Settings
from infra.contract.topics import kafka_topic
from infra.stack.kafka_topics import create_topics
from stream_jobs import jobs
from stream_jobs.progress import line_of
from stream_jobs.queries import QUERIES, TOPIC
from stream_jobs.session import build_session

SAMPLES = 10
SPACING_S = 1.0
LONGEST_BACK_S = 20
DEADLINE_S = 300.0
METRES_PER_DEGREE: Final = 111_000.0
ENGINE = ("engine_load_pct", "coolant_temp_c", "oil_temp_c", "fuel_level_pct", "fuel_rate_lph", "maf_gps")
MILD = ("ambient_temp_c", "battery_voltage_v", "speed_limit_kmh", "oil_pressure_kpa", "altitude_m")


@dataclass(frozen=True, slots=True)
class Filling:
    """What goes into the topic: how many frames, of how many vehicles, driving or thrown over the city."""

    frames: int
    vehicles: int
    scattered: bool


def bodies(scattered: bool, count: int = 500) -> list[bytes]:
    """What ``count`` petrol cars say in a second, about 1.6 KB each, without the frame's head."""
    rng = random.Random(1)
    return [orjson.dumps(_signals(rng, scattered))[1:] for _ in range(count)]


def _signals(rng: random.Random, scattered: bool) -> dict[str, Any]:
    def wave(low: float, high: float, digits: int) -> list[float]:
        return [round(rng.uniform(low, high), digits) for _ in range(SAMPLES)]

    speed_kmh = rng.uniform(0, 90)
    step_deg = speed_kmh / 3.6 / METRES_PER_DEGREE / SAMPLES
    lat_deg, lon_deg = rng.uniform(48.0, 48.2), rng.uniform(11.4, 11.7)
    signals: dict[str, Any] = {
        "speed_kmh": [round(speed_kmh + 0.05 * i, 2) for i in range(SAMPLES)],
        "lat_deg": [round(lat_deg + i * step_deg, 6) for i in range(SAMPLES)],
        "lon_deg": [round(lon_deg + i * step_deg, 6) for i in range(SAMPLES)],
        "heading_deg": [round(rng.uniform(40, 50), 1)] * SAMPLES,
        "accel_long_mps2": wave(-2, 2, 2), "accel_lat_mps2": wave(-2, 2, 2),
        "yaw_rate_dps": wave(-9, 9, 1), "accelerator_pct": wave(0, 80, 1), "brake_pct": wave(0, 20, 1),
        "steering_deg": wave(-90, 90, 1), "engine_rpm": wave(700, 3000, 0), "ignition_on": True,
        "odometer_m": rng.randrange(10**6), "gear": 3, "driver_belt_on": True, "dtc_codes": [],
    }  # fmt: skip
    if scattered:
        signals |= {"lat_deg": wave(48.0, 48.2, 6), "lon_deg": wave(11.4, 11.7, 6)}
    signals |= {name: round(rng.uniform(10, 40), 1) for name in (*ENGINE, *MILD)}
    for wheel in ("fl", "fr", "rl", "rr"):
        signals |= {f"tyre_pressure_{wheel}_kpa": 230.0, f"tyre_temp_{wheel}_c": 25.0}
        signals[f"brake_pad_wear_{wheel}_pct"] = 20.0
    return signals


def payload(vehicle: int, seq: int, t0_ms: int, body: bytes) -> bytes:
    """A frame: head and ``body``."""
    head = (
        f'{{"schema":1,"vehicle_id":"WDB1240001A{vehicle:06d}","boot_id":1,"seq":{seq},'
        f'"t0_ms":{t0_ms},"dt_ms":100,"n":{SAMPLES},"sent_ms":{t0_ms + 1000},'
    )
    return head.encode() + body


def fill(spark: SparkSession, settings: Settings, addresses: Endpoints, filling: Filling) -> None:
    """Frames of the last seconds, a frame a second of each vehicle, into the telemetry topic."""
    said = bodies(filling.scattered)
    seconds = max(1, filling.frames // filling.vehicles)
    first_ms = int(time.time() * 1000) - min(seconds, LONGEST_BACK_S) * 1000
    step_ms = min(seconds, LONGEST_BACK_S) * 1000 // seconds
    topic = kafka_topic(settings.kafka.prefix, TOPIC)
    keys = [f"WDB1240001A{vehicle:06d}" for vehicle in range(filling.vehicles)]
    for second in range(seconds):
        t0_ms = first_ms + second * step_ms
        values = [payload(v, second, t0_ms, said[(v + second) % len(said)]) for v in range(filling.vehicles)]
        rows = spark.createDataFrame(pa.table({"key": keys, "value": pa.array(values, pa.binary())}))
        writer = rows.write.format("kafka").option("topic", topic)
        writer.option("kafka.bootstrap.servers", addresses.kafka_bootstrap).save()


def cpu_s() -> float:
    """CPU time of this process and all that it started: Python's driver, the JVM, Python's workers."""
    parents, times = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # ended meanwhile
            continue
        pid = int(stat.parent.name)
        parents[pid] = int(fields[1])
        times[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def ours(pid: int) -> bool:
        while pid in parents and pid != os.getpid():
            pid = parents[pid]
        return pid == os.getpid()

    return sum(spent for pid, spent in times.items() if ours(pid))


class Figures(StreamingQueryListener):
    """Progress of every batch with input, by query."""

    def __init__(self) -> None:
        self.batches: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802  Spark's name
        """Of no interest."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802  Spark's name
        """Keep the line."""
        line = line_of(orjson.loads(event.progress.json))
        if line["input_rows"]:
            self.batches[line["query"]].append(
                line | {"cpu_s": cpu_s(), "took_ms": event.progress.durationMs}
            )

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802  Spark's name
        """Of no interest."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802  Spark's name
        """Of no interest."""

    def done(self, names: list[str], frames: int) -> bool:
        """Whether each query has taken in so many frames."""
        return all(sum(b["input_rows"] for b in self.batches[name]) >= frames for name in names)


def measure(
    spark: SparkSession, settings: Settings, addresses: Endpoints, names: list[str], frames: int
) -> dict[str, Any]:
    """Run the named queries, in the session at hand, until each has taken in ``frames``."""
    stop, figures = threading.Event(), Figures()
    spark.streams.addListener(figures)
    queries = [q for q in QUERIES if q.name in names]
    application = threading.Thread(target=jobs.Application(settings, addresses, stop, queries).run)
    application.start()
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end and application.is_alive() and not figures.done(names, frames):
        time.sleep(0.5)
    stop.set()
    application.join()
    return {name: _summary(figures.batches[name]) for name in names}


def _summary(batches: list[dict[str, Any]]) -> dict[str, Any]:
    """Median over the batches after the first, which compiles."""
    warm = [b for b in batches[1:] if b["input_rows"] >= 0.5 * max(x["input_rows"] for x in batches)]
    rates = [b["input_rows"] / b["batch_ms"] * 1000 for b in warm]
    return {
        "batches": len(batches),
        "frames": sum(b["input_rows"] for b in batches),
        "frames_per_s": round(statistics.median(rates)) if rates else None,
        "samples_per_s": round(statistics.median(rates) * SAMPLES) if rates else None,
        "cpu_s_per_100k_frames": _cpu_per_100k(batches),
        "batch_ms": [b["batch_ms"] for b in batches],
        "cpu_at_s": [round(b["cpu_s"], 1) for b in batches],
        "last_took_ms": batches[-1]["took_ms"],
    }


def _cpu_per_100k(batches: list[dict[str, Any]]) -> float | None:
    """CPU time of all processes from the end of the second batch to the end of the last, s."""
    frames = sum(b["input_rows"] for b in batches[2:])
    spent_s = batches[-1]["cpu_s"] - batches[1]["cpu_s"] if frames else 0.0
    return round(spent_s / frames * 100_000, 2) if frames else None


def main() -> None:
    """Fill, run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=200_000)
    parser.add_argument("--vehicles", type=int, default=10_000)
    parser.add_argument("--queries", default="windows,archive")
    parser.add_argument("--max-offsets", type=int, default=20_000)
    parser.add_argument("--scattered", action="store_true", help="each sample in a road cell of its own")
    arguments = parser.parse_args()
    run = f"rate{uuid.uuid4().hex[:8]}"
    base = contract_settings.load()
    addresses = contract_settings.endpoints(base)
    settings = base.model_copy(
        update={
            "kafka": base.kafka.model_copy(update={"prefix": f"{run}."}),
            "paths": base.paths.model_copy(update={"home": base.paths.home / run}),
            "jobs": base.jobs.model_copy(update={"max_offsets": arguments.max_offsets}),
        }
    )
    create_topics(addresses.kafka_bootstrap, settings.kafka.prefix)
    spark = build_session(
        settings, "odograph-rate-fill", settings.jobs.driver_mb, "local[2]", jobs.STREAM_CONF
    )
    fill(spark, settings, addresses, Filling(arguments.frames, arguments.vehicles, arguments.scattered))
    names = arguments.queries.split(",")
    figures = measure(spark, settings, addresses, names, arguments.frames)
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
