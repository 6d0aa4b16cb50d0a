"""``odograph archive push | fetch``: the archive's second place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from infra.archive.mirror import Store

Day = Annotated[str | None, typer.Option(help="a day of receipt, UTC [all]")]


def register() -> None:
    """Add the commands to ``odograph archive``."""
    from infra.archive.cli import app

    app.command()(push)
    app.command()(fetch)


def push(day: Day = None) -> None:
    """Bring the place at ODOGRAPH_ARCHIVE_URL up to date. `odograph jobs stream` does it by itself."""
    from infra.archive import mirror, reader
    from infra.archive.layout import archive_of, day_span
    from infra.contract.settings import load

    settings = load()
    folder = archive_of(settings.paths.home)
    span = (0, 1 << 62) if day is None else day_span(day)
    hours = [hour for hour in reader.hours(folder) if span[0] <= hour < span[1]]
    for store in _stores():
        done = mirror.push(folder, store, hours, settings.archive.grace_min * 60_000)
        typer.echo(
            f"{settings.archive.url}: {done.sent} files, {done.bytes:,} bytes sent, {done.removed} removed"
        )


def fetch(day: Annotated[str, typer.Option(help="a day of receipt, UTC")]) -> None:
    """Put back from ODOGRAPH_ARCHIVE_URL what is missing here or not as it was written."""
    from infra.archive import mirror
    from infra.archive.layout import archive_of, day_span, hours_between
    from infra.contract.settings import load

    folder, hours = archive_of(load().paths.home), hours_between(*day_span(day))
    for store in _stores():
        mirror.fetch_manifests(folder, store, hours)
        names = mirror.fetch(folder, store, hours)
        typer.echo("\n".join([*names, f"{len(names)} files fetched"]))


def _stores() -> Iterator[Store]:
    """The place, with a Java machine of its own around it."""
    from infra.contract.errors import ConfigError
    from infra.contract.settings import load
    from stream_jobs.hadoop_store import HadoopStore
    from stream_jobs.session import build_session

    settings = load()
    if not settings.archive.url:
        raise ConfigError("there is no second place: set ODOGRAPH_ARCHIVE_URL, as hdfs://host:port/odograph")
    spark = build_session(settings, "archive", settings.jobs.instant_mb, "local[1]", {})
    try:
        yield HadoopStore(spark, settings.archive.url)
    finally:
        spark.stop()
