"""The commands ``odograph jobs stream | instant | events``: one process each, until SIGTERM."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream_jobs.alerts.cli import alerts, incidents
from stream_jobs.archive.cli import app as archive
from stream_jobs.audit.cli import audit
from stream_jobs.crashes.cli import crash_app as crash
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
        "jobs": jobs,
        "alerts": alerts,
        "incidents": incidents,
        "archive": archive,
        "crash": crash,
        "replay": replay,
    }
    for name, group in groups.items():
        app.add_typer(group, name=name)
    for command in (maintenance, eta, traffic, recompute, backfill, audit):
        app.command()(command)
    jobs.add_typer(user_sql, name="sql")


@jobs.command()
def stream() -> None:
    """Windows by vehicle and road cell, archive, repair of late windows (Spark, micro-batches)."""
    from infra.clients.log import configure
    from infra.settings.settings import load
    from stream_jobs.app.jobs import run

    configure("jobs")
    run(load())


@jobs.command()
def instant() -> None:
    """Alerts that need one frame or crash record only, within milliseconds (Spark, real-time mode)."""
    from infra.clients.log import configure
    from infra.settings.settings import load
    from stream_jobs.app.instant import run

    configure("instant")
    run(load())


@jobs.command()
def events() -> None:
    """Alerts, crash records, status messages and dead letters from Kafka into the database."""
    from infra.clients.log import configure
    from infra.settings.settings import load
    from stream_jobs.events.store import run

    configure("events")
    run(load())


def maintenance() -> None:
    """Roll-ups, trends, cohorts, roads, ledgers, retention: periodic tasks beside the stream (no Spark)."""
    from infra.clients.log import configure
    from infra.settings.settings import load
    from stream_jobs.maintenance.process import run

    configure("maintenance")
    run(load())


@jobs.command()
def reset(query: Annotated[str, typer.Argument(help="telemetry, archive, instant, ...")]) -> None:
    """Put the checkpoint of a query aside: it starts anew, from the earliest record that Kafka keeps.

    For a checkpoint that cannot be read any more. Nothing is deleted; the query must not be running.
    """
    from infra.clients.log import configure
    from infra.settings.settings import load
    from stream_jobs.app.checkpoints import reset as put_aside

    configure("jobs")
    typer.echo(f"put aside: {put_aside(load().paths.home, query)}")


@user_sql.command(name="check")
def check_sql(
    files: Annotated[list[Path], typer.Argument(help="files with a query each")],
    as_json: Annotated[bool, typer.Option("--json", help="a line of JSON a file")] = False,
) -> None:
    """Let Spark judge queries on the stream, without services. Exit 2 names file, line and what is wrong."""
    from infra.settings.settings import load
    from stream_jobs.app.jobs import STREAM_CONF
    from stream_jobs.user_sql.queries import check_files

    settings = load()
    for text in check_files(settings, files, STREAM_CONF, as_json=as_json):
        typer.echo(text)
