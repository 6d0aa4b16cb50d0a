"""What a Spark setting is worth to a query: variants in turn, each in a Java machine of its own.

Run: python -m load_tests.conf_trials --variant parallel:spark.driver.extraJavaOptions=-XX:+UseParallelGC
         [--variant NAME:KEY=VALUE;KEY=VALUE ...] [--query telemetry] [--frames N] [--rounds N]

The variant ``shipped`` changes nothing and is always among them. Trust the ratios of CPU time: all variants
share one topic and one machine, round by round.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from infra.clients.db import session
from infra.clients.log import configure
from infra.contract.topics import kafka_topic
from infra.settings import settings as contract
from load_tests.drills.site import Site, opened
from load_tests.filling import Filling, fill
from load_tests.query_rate import EMPTY, say
from load_tests.query_runs import known, run
from stream_jobs.app import jobs, queries

SHIPPED = "shipped"
ONE_S = 600.0


def changes(text: str) -> tuple[str, dict[str, str]]:
    """A variant's name and settings."""
    name, _, pairs = text.partition(":")
    return name, dict(pair.split("=", 1) for pair in pairs.split(";"))


def here(query: str, frames: int, conf: Mapping[str, str]) -> None:
    """One run in this process; its figures as JSON on standard output."""
    jobs.STREAM_CONF.update(conf)
    in_force = contract.load()
    print(json.dumps(asdict(run(in_force, contract.endpoints(in_force), known()[query], frames))))


def apart(site: Site, query: str, frames: int, conf: Mapping[str, str]) -> dict[str, Any]:
    """One run in a process of its own, tables empty before it."""
    with session(site.endpoints.db_owner_url) as connection:
        connection.execute(EMPTY)
    command = [sys.executable, "-m", "load_tests.conf_trials", "--query", query, "--frames", str(frames)]
    env = site.env | {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    done = subprocess.run(
        [*command, "--here", json.dumps(conf)],
        env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=ONE_S, check=True,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def table_of(found: Mapping[str, list[dict[str, Any]]]) -> str:
    """Medians by variant, and ratios to what ships."""
    cpu = {name: statistics.median(r["cpu_s_per_100k"] for r in runs) for name, runs in found.items()}
    rate = {name: statistics.median(r["samples_per_s"] for r in runs) for name, runs in found.items()}
    head = (
        "| variant | CPU s per 100,000 frames | of shipped | samples/s | of shipped |\n|---|---|---|---|---|"
    )
    rows = [
        f"| {name} | {cpu[name]:.2f} | {cpu[name] / cpu[SHIPPED]:.2f} | {rate[name]:,.0f} | "
        f"{rate[name] / rate[SHIPPED]:.2f} |"
        for name in found
    ]
    return "\n".join([head, *rows])


def main() -> None:
    """Fill, run, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--variant", action="append", default=[])
    parser.add_argument("--query", default="telemetry")
    parser.add_argument("--frames", type=int, default=120_000)
    parser.add_argument("--vehicles", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--max-offsets", type=int, default=20_000)
    parser.add_argument("--here", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    configure("conf-trials")
    if asked.here is not None:
        here(asked.query, asked.frames, json.loads(asked.here))
        return
    variants: dict[str, dict[str, str]] = {SHIPPED: {}} | dict(map(changes, asked.variant))
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in variants}
    batches: dict[str, object] = {
        "max_offsets": asked.max_offsets,
        "trigger_s": 0.1,
        "archive_trigger_s": 0.1,
    }
    with opened(contract.load(), "conf-trials", say, jobs=batches) as site:
        topic = kafka_topic(site.settings.kafka.prefix, queries.TOPIC)
        fill(site.endpoints.kafka_bootstrap, topic, Filling(asked.frames, asked.vehicles, scattered=False))
        for _ in range(asked.rounds):
            for name, conf in variants.items():
                found[name].append(apart(site, asked.query, asked.frames, conf))
                say(f"{name}: {json.dumps(found[name][-1])}")
    print(table_of(found))


if __name__ == "__main__":
    main()
