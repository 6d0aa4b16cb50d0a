"""The commands ``odograph jobs``, ``maintenance`` and ``audit``; and the other groups of this package."""

import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from infra.clients.log import configure
from infra.contract.errors import ConfigError
from infra.contract.topics import LIVE, kafka_topic
from infra.settings.settings import endpoints, load
from infra.settings.values import duration_ms
from stream_jobs.alerts.cli import alerts, incidents
from stream_jobs.archive.cli import app as archive
from stream_jobs.audit_log.cli import audit_log
from stream_jobs.crashes.cli import crash_app as crash
from stream_jobs.privacy.cli import privacy
from stream_jobs.replay.cli import replays as replay
from stream_jobs.reprocess.cli import backfill, recompute
from stream_jobs.roads.cli import eta, traffic

jobs = typer.Typer(no_args_is_help=True, help="The stream jobs: each command is one process.")
user_sql = typer.Typer(
    no_args_is_help=True, help="SQL on the stream: users' queries (ODOGRAPH_JOBS_SQL_DIR)."
)


def register(app: typer.Typer) -> None:
    """Add this package's commands to the application."""
    groups = {
        "jobs": jobs, "alerts": alerts, "incidents": incidents, "archive": archive, "crash": crash,
        "privacy": privacy, "replay": replay,
    }  # fmt: skip
    for name, group in groups.items():
        app.add_typer(group, name=name)
    app.command("audit-log")(audit_log)
    for command in (maintenance, eta, traffic, recompute, backfill, audit):
        app.command()(command)
    jobs.add_typer(user_sql, name="sql")


@jobs.command()
def stream() -> None:
    """Windows, trips, stateful rules, users' SQL, archive, nightly recomputation (Spark, micro-batches)."""
    from stream_jobs.app.jobs import run

    configure("jobs")
    run(load())


@jobs.command()
def instant() -> None:
    """Alerts that need one frame or crash record only, within milliseconds (Spark, real-time mode)."""
    from stream_jobs.app.instant import run

    configure("instant")
    run(load())


@jobs.command()
def events() -> None:
    """Alerts, crash records, status messages and dead letters from Kafka into the database."""
    from stream_jobs.events.store import run

    configure("events")
    run(load())


def maintenance() -> None:
    """Repair of late data, roll-ups, trends, roads, evidence, retention: periodic tasks (no Spark)."""
    from stream_jobs.maintenance.process import run

    configure("maintenance")
    run(load())


@jobs.command()
def reset(
    query: Annotated[
        str, typer.Argument(help="telemetry, archive, instant, instant-crash, sql_NAME, or: all")
    ],
) -> None:
    """Put the checkpoint of a query aside: it starts anew, from the earliest record that Kafka keeps.

    For a checkpoint that cannot be read any more; `all`, for a log that was made anew. The archive keeps its
    own and goes on behind what Kafka has dropped unread. Nothing is deleted; the query must not be running.
    """
    from infra.clients.db import connected
    from infra.clients.kafka import log_generations
    from stream_jobs.app.session import LOCAL, spark_when_asked
    from stream_jobs.recovery.checkpoints import ALL, NEVER_RESET, Checkpoint, is_of, require_stopped
    from stream_jobs.recovery.checkpoints import reset as put_aside
    from stream_jobs.recovery.files import checkpoint_files
    from stream_jobs.recovery.ledger import pass_over

    configure("jobs")
    settings = load()
    with spark_when_asked(settings, "reset", 512, LOCAL) as session:
        files = checkpoint_files(settings, session)
        logs: dict[str, str] = {}
        queries = sorted(files.names("")) if query == ALL else [query]
        if not queries:
            raise ConfigError(f"no checkpoint in {files.root}")
        if {*queries} & {*NEVER_RESET}:
            topics = [kafka_topic(settings.kafka.prefix, topic) for topic in LIVE]
            where = endpoints(settings, ("kafka_bootstrap", "db_ingest_url"))
            logs = log_generations(where.kafka_bootstrap, topics)
        for each in queries:  # first the archive, which may refuse
            checkpoint, lost = Checkpoint(files, each), 0
            if each in NEVER_RESET and is_of(checkpoint, logs):
                require_stopped(settings, each)
                with connected(where.db_ingest_url) as connection:
                    lost = pass_over(connection, checkpoint, where.kafka_bootstrap)
            if lost:
                typer.echo(
                    f"{each}: goes on behind {lost:,} records that Kafka has dropped and that are lost"
                )
            else:
                typer.echo(f"put aside: {put_aside(files, settings, each, logs)}")


@jobs.command()
def rescale(
    buckets: Annotated[
        int, typer.Argument(min=1, max=1024, help="buckets of vehicles, a multiple of those in force")
    ],
) -> None:
    """Split the state of the query telemetry into more buckets, while `odograph jobs stream` does not run.

    More buckets let more cores work. The old checkpoint is put aside; the query goes on behind it.
    """
    import threading

    from stream_jobs.app.jobs import STREAM_CONF
    from stream_jobs.app.session import LOCAL, build_session
    from stream_jobs.app.topic_writer import dead_lettering
    from stream_jobs.recovery import rescale as work
    from stream_jobs.recovery.files import checkpoint_files

    configure("jobs")
    settings = load()
    conf = STREAM_CONF | {"spark.sql.shuffle.partitions": str(buckets)}
    spark = build_session(settings, "rescale", settings.jobs.driver_mb, LOCAL, conf)
    where = endpoints(settings, ("kafka_bootstrap", "db_ingest_url"))
    database = dead_lettering(settings, where, "rescale", threading.Event())
    try:
        files = checkpoint_files(settings, lambda: spark)
        typer.echo(work.rescale(settings, files, database, spark, buckets))
    finally:
        database.close()
        spark.stop()


@jobs.command()
def package(
    target: Annotated[
        Path | None, typer.Argument(help="the archive", show_default="<home>/environment.pack")
    ] = None,
) -> None:
    """Pack interpreter, packages and what they need for the workers of a Spark cluster.

    ODOGRAPH_JOBS_ENVIRONMENT names the archive, by its path on the driver or by a Hadoop URL.
    """
    from stream_jobs.app.environment import PACKED, pack_environment

    made = pack_environment(target or load().paths.home.absolute() / PACKED)
    typer.echo(f"{made}: {made.stat().st_size >> 20} MiB; ODOGRAPH_JOBS_ENVIRONMENT={made}")


@user_sql.command(name="check")
def check_sql(
    files: Annotated[list[Path], typer.Argument(help="files with a query each")],
    as_json: Annotated[bool, typer.Option("--json", help="a line of JSON a file")] = False,
) -> None:
    """Let Spark judge queries on the stream, without services. Exit 2 names file, line and what is wrong."""
    from stream_jobs.app.jobs import STREAM_CONF
    from stream_jobs.user_sql.queries import check_files

    settings = load()
    for text in check_files(settings, files, STREAM_CONF, as_json=as_json):
        typer.echo(text)


def audit(
    since: Annotated[
        str | None, typer.Option(help="only this time up to now, as 90s, 15m, 1h", show_default="all")
    ] = None,
    day: Annotated[
        str | None, typer.Option(help="only this day in ODOGRAPH_TZ, as 2026-11-20", show_default="all")
    ] = None,
    by: Annotated[Literal["vehicle"] | None, typer.Option(help="a line for each vehicle as well")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON on standard output, all of it")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="first wait until nothing is in flight")] = False,
    at_most: Annotated[
        str | None,
        typer.Argument(metavar="DURATION", help="with --wait: at most this long", show_default="60s"),
    ] = None,
) -> None:
    """Balance what was generated against what was archived and counted. Exit 1 if the residual is not 0.

    While data flows, frames that the slowest consumer of the log has not closed yet are in flight: they are
    counted in a line of their own and balanced by the next audit, or by --wait.

    What is missing is named: vehicle, boot and sequence numbers, offsets of the log, windows. A frame
    belongs to the time of its first sample. Where no simulator ran, gaps between sequence numbers
    show it. Vehicles whose identity two devices use at once are named too.
    """
    from stream_jobs.audit import report
    from stream_jobs.audit.ledger import wanted
    from stream_jobs.audit.run import audit as run_audit

    if at_most is not None and not wait:
        raise ConfigError(f"{at_most}: a duration is wanted after --wait only")
    wait_s = duration_ms(at_most or "60s", "--wait") / 1000 if wait else 0.0
    settings = load()
    scope = wanted(since, day, settings.tz, time.time_ns() // 1_000_000)
    found = run_audit(settings, endpoints(settings), scope, wait_s)
    typer.echo(report.as_json(found) if as_json else report.as_text(found, by is not None, settings.tz))
    if found.residual != 0:
        raise typer.Exit(1)
