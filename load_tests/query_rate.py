"""How fast the queries are, from a filled topic to the tables, beside two yardsticks.

Run: python -m load_tests.query_rate [--frames N] [--vehicles N] [--rounds N] [--queries decode,telemetry]
     python -m load_tests.query_rate --states 1000,5000,10000      (state and cost by size of the fleet)

Services of its own, stopped at the end. ``decode`` reads Kafka and JSON and nothing else; ``naive`` makes
windows by vehicle with a row a sample. All run in turn in one Java machine, ``--rounds`` times, after one
round that is thrown away; figures are medians over the rounds. ``archive`` has batches of five times as many:
--queries archive --frames 320000 --max-offsets 8000.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict

from infra.clients.db import session
from infra.clients.log import configure
from infra.contract.topics import kafka_topic
from infra.settings.settings import Settings, load
from infra.stack.kafka import create_topics
from load_tests.drills.site import Site, opened
from load_tests.filling import Filling, fill
from load_tests.query_runs import Run, known, run
from stream_jobs.app import queries

TABLES = (
    *("vehicle_window", "road_cell_window", "road_edge_window", "vehicle_latest"),
    *("trip", "trip_stop", "idle_episode", "harsh_event", "late_vehicle_frames"),
)
EMPTY = "TRUNCATE " + ", ".join(f"odograph.{table}" for table in TABLES)


def say(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


def rounds(site: Site, settings: Settings, names: Sequence[str], filling: Filling, number: int) -> list[Run]:
    """Each query ``number`` times in turn, tables empty before each."""
    topic = kafka_topic(settings.kafka.prefix, queries.TOPIC)
    create_topics(site.endpoints.kafka_bootstrap, settings.kafka.prefix)
    fill(site.endpoints.kafka_bootstrap, topic, filling)
    runs = []
    for place in range(number):
        for name in names:
            with session(site.endpoints.db_owner_url) as connection:
                connection.execute(EMPTY)
            runs.append(run(settings, site.endpoints, known()[name], filling.frames))
            say(f"round {place}: {json.dumps(asdict(runs[-1]))}")
    return runs


def rate_table(runs: Sequence[Run], names: Sequence[str]) -> str:
    """Medians by query, and ratios to the decoding alone and to the naive windows."""
    rate = {n: statistics.median(r.samples_per_s for r in runs if r.query == n) for n in names}
    cpu = {n: statistics.median(r.cpu_s_per_100k for r in runs if r.query == n) for n in names}
    head = "| query | samples/s | of decode | of naive | CPU s per 100,000 frames |\n|---|---|---|---|---|"
    rows = [
        f"| {n} | {rate[n]:,.0f} | {_ratio(rate, n, 'decode')} | {_ratio(rate, n, 'naive')} | {cpu[n]:.1f} |"
        for n in names
    ]
    return "\n".join([head, *rows])


def _ratio(rates: dict[str, float], name: str, base: str) -> str:
    return f"{rates[name] / rates[base]:.2f}" if rates.get(base) else "-"


def state_table(found: Sequence[tuple[int, Run]]) -> str:
    """State and cost of each query by number of vehicles."""
    head = (
        "| query | vehicles | state rows | rows a vehicle | state bytes | on disk | bytes a vehicle | "
        "CPU us a frame |\n|---|---|---|---|---|---|---|---|"
    )
    rows = [
        f"| {r.query} | {v:,} | {r.state_rows:,} | {r.state_rows / v:.1f} | {r.state_bytes:,} | "
        f"{r.disk_bytes:,} | {r.disk_bytes / v:,.0f} | {10 * r.cpu_s_per_100k:.0f} |"
        for v, r in found
    ]
    return "\n".join([head, *rows])


def states(site: Site, names: Sequence[str], fleets: Sequence[int], seconds: int) -> str:
    """The stateful queries over fleets of several sizes, each driving for the same time."""
    found = []
    for place, vehicles in enumerate([fleets[0], *fleets]):  # the first one warms Java up
        kafka = site.settings.kafka.model_copy(update={"prefix": f"states{place}."})
        # three batches each: the cost of a batch is spread alike
        batch = max(1, vehicles * seconds // 3)
        own = site.settings.jobs.model_copy(update={"max_offsets": batch})
        settings = site.settings.model_copy(update={"kafka": kafka, "jobs": own})
        runs = rounds(site, settings, names, Filling(vehicles * seconds, vehicles, scattered=False), 1)
        found += [(vehicles, each) for each in runs] if place else []
    return state_table(sorted(found, key=lambda pair: (pair[1].query, pair[0])))


def main() -> None:
    """Fill, run, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    queries = [name for name in known() if name != "archive"]
    parser.add_argument("--frames", type=int, default=120_000)
    parser.add_argument("--vehicles", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=1, help="after one that is thrown away")
    parser.add_argument("--queries", help=f"comma between them, of {', '.join(known())} [all but archive]")
    parser.add_argument("--max-offsets", type=int, default=40_000)
    parser.add_argument("--scattered", action="store_true", help="each sample in a road cell of its own")
    parser.add_argument("--states", help="sizes of fleets, comma between them")
    parser.add_argument("--seconds", type=int, default=12, help="with --states: how long each fleet drives")
    asked = parser.parse_args()
    configure("query-rate")
    batches: dict[str, object] = {
        "max_offsets": asked.max_offsets,
        "trigger_s": 0.1,
        "archive_trigger_s": 0.1,
    }
    with opened(load(), "query-rate", say, jobs=batches) as site:
        if asked.states:
            names = (
                asked.queries.split(",")
                if asked.queries
                else [q for q in queries if q not in ("decode", "naive")]
            )
            print(states(site, names, [int(size) for size in asked.states.split(",")], asked.seconds))
            return
        names = asked.queries.split(",") if asked.queries else queries
        filling = Filling(asked.frames, asked.vehicles, asked.scattered)
        runs = rounds(site, site.settings, names, filling, asked.rounds + 1)
        print(rate_table(runs[len(names) :], names))


if __name__ == "__main__":
    main()
