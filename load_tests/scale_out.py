"""What a second executor and more partitions are worth: the stream jobs on a Spark cluster of this machine.

Run: python -m load_tests.scale_out [--frames 120000] [--vehicles 4000] [--batch 10000] [--rounds 1]

Services of its own and two Spark workers of a core each, stopped at the end. A topic is filled, then the
program `odograph jobs stream` takes it in by full batches, with each number of executors and partitions in
turn. Frames/s and CPU time are those from batch ``WARM`` on to the last full one.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from infra.clients.db import session
from infra.clients.tables import aligned
from infra.contract.topics import kafka_topic
from infra.settings.sections import Profile
from infra.settings.settings import load
from infra.stack import processes
from infra.stack.hosts.cluster import SPARK_CONF
from infra.stack.kafka import create_topics
from infra.stack.service import HOST
from infra.stack.supervisor import odograph
from load_tests.drills.site import Site, opened, until
from load_tests.filling import Filling, fill
from load_tests.query_rate import EMPTY, say
from load_tests.queues import scaled_out

EXECUTORS: Final = (1, 2)
PARTITIONS: Final = (1, 2, 4)
WARM: Final = 4
FULL: Final = 0.8
"""Of the second batch: as many records has one that is full."""
READY_S: Final = 300.0
TAKEN_S: Final = 600.0
EMPTY_TOO: Final = f"{EMPTY}, odograph.query_progress"
BATCHES: Final = """
SELECT extract(epoch FROM at), input_rows, batch_ms / 1000.0 FROM odograph.query_progress
WHERE query = 'telemetry' AND input_rows > 0 ORDER BY at
"""


@dataclass(frozen=True, slots=True)
class Point:
    """Of one run: ``us`` is CPU time a frame by part."""

    partitions: int
    executors: int
    frames_per_s: float
    batch_s: float
    us: dict[str, float]


def measured(site: Site, partitions: int, executors: int, filling: Filling, place: int) -> Point:
    """The stream jobs over a filled topic, by so many executors."""
    prefix = f"scale{partitions}."
    base, conf = site.env["ODOGRAPH_PATHS_CHECKPOINTS"], site.cluster.base / "conf"
    own = conf / f"executors-{executors}.conf"
    own.write_text(f"{(conf / SPARK_CONF.name).read_text()}\nspark.cores.max {executors}\n")
    with session(site.endpoints.db_owner_url) as connection:
        connection.execute(EMPTY_TOO)
    site.start(
        "jobs", odograph("jobs", "stream"), ODOGRAPH_KAFKA_PREFIX=prefix,
        PYSPARK_SUBMIT_ARGS=f"--properties-file {own} pyspark-shell",
        ODOGRAPH_PATHS_CHECKPOINTS=f"{base}/{prefix}{executors}.{place}",
    )  # fmt: skip
    until(lambda: len(_batches(site)) >= WARM, READY_S, f"{WARM} batches are in")
    begun, before = len(_batches(site)), _cpu_s(site)
    until(lambda: sum(rows for _, rows, _ in _batches(site)) >= filling.frames, TAKEN_S, "all is taken in")
    after, found = _cpu_s(site), _batches(site)
    site.stop("jobs")
    # The newest may lie behind the last full one; what comes after that is too short to say anything.
    full = [each for each in found if each[1] >= FULL * found[1][1]]
    frames = sum(rows for _, rows, _ in found[begun:])
    return Point(
        partitions, executors,
        frames_per_s=sum(rows for _, rows, _ in full[WARM:-1]) / (full[-1][0] - full[WARM][0]),
        batch_s=statistics.median(length for *_, length in full[WARM:]),
        us={part: 1e6 * (spent - before[part]) / frames for part, spent in after.items()},
    )  # fmt: skip


def _batches(site: Site) -> list[tuple[float, int, float]]:
    """When each began [s], its records, how long it took [s]."""
    with session(site.endpoints.db_owner_url) as connection:
        return [(float(at), rows, float(took)) for at, rows, took in connection.execute(BATCHES).fetchall()]


def _cpu_s(site: Site) -> dict[str, float]:
    workers = [f"spark-worker-{number}" for number in range(1, site.cluster.profile.workers + 1)]
    return {
        "executors": sum(processes.cpu_s(site.pid(name)) for name in workers),
        "driver": processes.cpu_s(site.pid("jobs")),
        "PostgreSQL": processes.cpu_s(site.pid("postgres")),
    }


def table(points: Sequence[Point], batch: int) -> str:
    """Medians of the rounds, each rate over the first one, and what the queues make of the first one's costs.

    The simulation is given CPU time a frame of one executor and one partition, and how much longer than that
    their batches took: what it says of more of them is held against what was measured.
    """
    rows: list[tuple[object, ...]] = []
    found = [_median(points, *key) for key in sorted({(p.partitions, p.executors) for p in points})]
    first, parts = found[0], [*points[0].us]
    slower = 1e6 / first.frames_per_s / sum(first.us.values())
    for point in found:
        place, rate = (point.partitions, point.executors), point.frames_per_s
        simulated = scaled_out(first.us, batch, *place, slower)
        off = "fitted" if point is first else f"{simulated / rate - 1:+.0%}"
        costs = (round(point.us[part]) for part in parts)
        ratio = f"{rate / first.frames_per_s:.2f}"
        rows.append((*place, round(rate), ratio, round(simulated), off, f"{point.batch_s:.2f}", *costs))
    heads = ("partitions", "executors", "frames/s", "ratio", "simulated", "off", "a batch, s")
    return aligned(rows, [*heads, *(f"us a frame: {part}" for part in parts)])


def _median(points: Sequence[Point], partitions: int, executors: int) -> Point:
    same = [p for p in points if (p.partitions, p.executors) == (partitions, executors)]
    return Point(
        partitions,
        executors,
        statistics.median(p.frames_per_s for p in same),
        statistics.median(p.batch_s for p in same),
        {part: statistics.median(p.us[part] for p in same) for part in same[0].us},
    )


def main() -> None:
    """Fill, run, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--frames", type=int, default=120_000)
    parser.add_argument("--vehicles", type=int, default=4_000)
    parser.add_argument("--batch", type=int, default=10_000, help="records of a batch at most [10,000]")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--partitions", default=",".join(map(str, PARTITIONS)), help="comma between them")
    given = parser.parse_args()
    filling = Filling(given.frames, given.vehicles, scattered=False)
    partitions = [int(text) for text in given.partitions.split(",")]
    # The archive takes one batch at the start and is out of the way.
    jobs: dict[str, object] = {"max_offsets": given.batch, "trigger_s": 0.1, "archive_trigger_s": 3600}
    points: list[Point] = []
    with opened(load(), "scale-out", say, profile=Profile(workers=max(EXECUTORS)), jobs=jobs) as site:
        bootstrap = site.endpoints.kafka_bootstrap
        for count in partitions:
            settings = site.settings.changed({"kafka": {"partitions": count, "prefix": f"scale{count}."}})
            create_topics(bootstrap, settings.kafka.prefix, settings.kafka)
            fill(bootstrap, kafka_topic(settings.kafka.prefix, "telemetry"), filling)
        page = site.endpoints.http_ports["maintenance"]
        site.env["ODOGRAPH_PATHS_LOOKUPS"] = f"http://{HOST}:{page}/lookups"
        site.start("maintenance", odograph("maintenance"))
        for place, count, executors in itertools.product(range(given.rounds), partitions, EXECUTORS):
            points.append(measured(site, count, executors, filling, place))
            say(f"{points[-1]}")
    print(table(points, given.batch))


if __name__ == "__main__":
    main()
