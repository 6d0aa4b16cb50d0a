"""How fast the stream application is: frames/s and samples/s of each query from a filled topic to the tables.

Needs a stack of its own: ODOGRAPH_PATHS_HOME=<folder> odograph up --services-only.
Run: python -m load_tests.window_rate [--frames N] [--vehicles N] [--queries windows,routing,archive]
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import threading
import time
import uuid
from collections import defaultdict
from typing import Any

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
from stream_jobs.session import build_session

SAMPLES = 10
SPACING_S = 1.0
LONGEST_BACK_S = 20
DEADLINE_S = 300.0
ENGINE = ("engine_load_pct", "coolant_temp_c", "oil_temp_c", "fuel_level_pct", "fuel_rate_lph", "maf_gps")
MILD = ("ambient_temp_c", "battery_voltage_v", "speed_limit_kmh", "oil_pressure_kpa", "altitude_m")


def payload(vehicle: int, seq: int, t0_ms: int, rng: random.Random) -> bytes:
    """A frame of a petrol car, about 1.3 KB."""

    def wave(low: float, high: float, digits: int) -> list[float]:
        return [round(rng.uniform(low, high), digits) for _ in range(SAMPLES)]

    frame: dict[str, Any] = {
        "schema": 1, "vehicle_id": f"WDB1240001A{vehicle:06d}", "boot_id": 1, "seq": seq,
        "t0_ms": t0_ms, "dt_ms": 100, "n": SAMPLES, "sent_ms": t0_ms + 1000,
        "speed_kmh": wave(0, 90, 2), "lat_deg": wave(48.0, 48.2, 6), "lon_deg": wave(11.4, 11.7, 6),
        "heading_deg": wave(0, 359, 1), "accel_long_mps2": wave(-2, 2, 2), "accel_lat_mps2": wave(-2, 2, 2),
        "yaw_rate_dps": wave(-9, 9, 1), "accelerator_pct": wave(0, 80, 1), "brake_pct": wave(0, 20, 1),
        "steering_deg": wave(-90, 90, 1), "engine_rpm": wave(700, 3000, 0), "ignition_on": True,
        "odometer_m": 10_000 + seq, "gear": 3, "driver_belt_on": True, "dtc_codes": [],
    }  # fmt: skip
    frame |= {name: round(rng.uniform(10, 40), 1) for name in (*ENGINE, *MILD)}
    for wheel in ("fl", "fr", "rl", "rr"):
        frame |= {f"tyre_pressure_{wheel}_kpa": 230.0, f"tyre_temp_{wheel}_c": 25.0}
        frame[f"brake_pad_wear_{wheel}_pct"] = 20.0
    return orjson.dumps(frame)


def fill(spark: SparkSession, settings: Settings, addresses: Endpoints, frames: int, vehicles: int) -> None:
    """Frames of the last seconds, a frame a second of each vehicle, into the telemetry topic."""
    rng = random.Random(1)
    seconds = max(1, frames // vehicles)
    first_ms = int(time.time() * 1000) - min(seconds, LONGEST_BACK_S) * 1000
    step_ms = min(seconds, LONGEST_BACK_S) * 1000 // seconds
    topic = kafka_topic(settings.kafka.prefix, jobs.TOPIC)
    for second in range(seconds):
        t0_ms = first_ms + second * step_ms
        values = [payload(vehicle, second, t0_ms, rng) for vehicle in range(vehicles)]
        keys = [f"WDB1240001A{vehicle:06d}" for vehicle in range(vehicles)]
        rows = spark.createDataFrame(pa.table({"key": keys, "value": pa.array(values, pa.binary())}))
        writer = rows.write.format("kafka").option("topic", topic)
        writer.option("kafka.bootstrap.servers", addresses.kafka_bootstrap).save()


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
            self.batches[line["query"]].append(line)

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
    queries = [q for q in jobs.QUERIES if q.name in names]
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
        "batch_ms": [b["batch_ms"] for b in batches],
    }


def main() -> None:
    """Fill, run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=200_000)
    parser.add_argument("--vehicles", type=int, default=10_000)
    parser.add_argument("--queries", default="windows,routing,archive")
    parser.add_argument("--max-offsets", type=int, default=20_000)
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
    fill(spark, settings, addresses, arguments.frames, arguments.vehicles)
    names = arguments.queries.split(",")
    figures = measure(spark, settings, addresses, names, arguments.frames)
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
