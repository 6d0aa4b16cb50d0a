"""A rehearsal of Spark's queries and of Kafka, at set-up: Java keeps every class that they load.

Finding, reading and checking some 20,000 classes in the jars is nearly half of the CPU time of a start. From
an archive of them (class data sharing) they come ready-made.
"""

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import typer

from infra.clients import kafka
from infra.contract.errors import ServiceError
from infra.contract.topics import CLOCK, kafka_topic
from infra.settings.settings import Endpoints, Settings, load
from infra.stack.downloads import cache
from infra.stack.kafka import create_topics
from infra.stack.kafka import kafka as kafka_service
from infra.stack.processes import guarded
from infra.stack.service import HOST, Runner, free_port
from stream_jobs.app import instant, queries
from stream_jobs.app.jobs import STREAM_CONF
from stream_jobs.app.session import JAVA_OPTIONS, build_session
from stream_jobs.rules.model import INSTANT, load_rules, of_query

AT_MOST_S: Final = 300.0
POLL_S: Final = 0.1
KEEP: Final = "-XX:ArchiveClassesAtExit={} -Xlog:disable"  # without a line for each class that cannot be kept
HEAP_MB: Final = 256
SLOTS: Final = 24  # of all queries at once; in real-time mode each partition holds one


def main(folder: Path, downloads: Path) -> None:
    """Leave ``kafka.jsa`` and ``spark.jsa`` in ``folder``; raises ServiceError where a query does not run."""
    short = {"instant_trigger_s": 5, "crash_trigger_s": 5, "rules": None}
    paths = {"home": str(folder / "home"), "cache": str(downloads)}
    settings = load(paths=paths, kafka={"prefix": "rehearsal."}, jobs=short)
    with guarded(settings.paths.home, remove=True):
        runner, port = Runner(settings.paths.home), free_port()
        jars, data = cache.jars(downloads, "kafka")[0].parent, settings.paths.home / "data"
        keep = KEEP.format(folder / "kafka.jsa").split()
        service = kafka_service(jars, data, port, free_port([port]), HEAP_MB)
        java, *words = service.command
        service = replace(service, command=(java, *keep, *words))
        typer.echo("rehearsal: Kafka starts")
        where = Endpoints("", 0, f"{HOST}:{port}", "", "", "")
        runner.start(service)
        create_topics(where.kafka_bootstrap, settings.kafka.prefix)
        producer = kafka.producer(where.kafka_bootstrap)
        for topic in (*instant.TOPICS.values(), CLOCK):
            producer.produce(kafka_topic(settings.kafka.prefix, topic), b"{}", b"rehearsal")
        producer.flush()
        _queries(settings, where, folder / "spark.jsa")
        typer.echo("rehearsal: Kafka ends")
        runner.stop(service.name)


def _queries(settings: Settings, where: Endpoints, archive: Path) -> None:
    typer.echo("rehearsal: Spark starts")
    options = f"{STREAM_CONF[JAVA_OPTIONS]} {KEEP.format(archive)}"
    conf = STREAM_CONF | {JAVA_OPTIONS: options, "spark.sql.ansi.enabled": "false"}
    spark = build_session(settings, "rehearsal", settings.jobs.driver_mb, f"local[{SLOTS}]", conf)
    gateway: Any = spark.sparkContext._gateway
    typer.echo("rehearsal: queries in micro-batches")
    _carry_out(queries.rehearsal(spark, settings, where), "a batch of each query")
    typer.echo("rehearsal: queries in real-time mode")
    rules = of_query(load_rules(None), INSTANT)
    _carry_out(instant.rehearsal(spark, settings, where, rules), "the real-time queries")
    typer.echo("rehearsal: Spark ends")
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # what Java waits for, to end
    gateway.proc.wait(AT_MOST_S)


def _carry_out(steps: Iterator[None], what: str) -> None:
    end = time.monotonic() + AT_MOST_S
    for _ in steps:
        if time.monotonic() > end:
            raise ServiceError(f"rehearsal: {what}: not within {AT_MOST_S:g} s")
        time.sleep(POLL_S)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
