"""The command ``odograph archive``: what is there, is it whole, pack it, let old records go."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stream_jobs.archive.mirror import Store

app = typer.Typer(no_args_is_help=True, help="The archive of all records: list, verify, compact, expire.")

Day = Annotated[str | None, typer.Option(help="a day of receipt, UTC, or a generated day [all]")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON on standard output")]


def register(root: typer.Typer) -> None:
    """Add the command."""
    root.add_typer(app, name="archive")


@app.command(name="list")
def list_(day: Day = None, as_json: AsJson = False) -> None:
    """Hours of receipt with their files, records and bytes."""
    from stream_jobs.archive import verify as report

    folder, hours_ms = _wanted(day)
    lines = report.hours_of(folder, hours_ms)
    typer.echo(json.dumps(lines) if as_json else report.hours_text(folder, lines))


@app.command()
def verify(
    day: Day = None,
    quick: Annotated[bool, typer.Option(help="sizes and counts only: no file is read")] = False,
    adopt: Annotated[bool, typer.Option(help="give files that the manifest does not know a line")] = False,
    as_json: AsJson = False,
) -> None:
    """Is it whole? Files by the manifest; the log's offsets without hole or double. Exit 1: it is not."""
    from stream_jobs.archive import verify as report
    from stream_jobs.archive.verify import verified
    from stream_jobs.archive.writer import adopt as adopt_hour

    folder, hours_ms = _wanted(day)
    if adopt:
        _say(f"{sum(len(adopt_hour(folder, hour)) for hour in hours_ms)} files taken into the manifest")
    verdict = verified(folder, hours_ms, quick)
    typer.echo(json.dumps(report.verdict_json(verdict)) if as_json else report.verdict_text(folder, verdict))
    raise typer.Exit(0 if verdict.whole else 1)


@app.command()
def compact(
    day: Day = None,
    now: Annotated[
        bool, typer.Option("--now", help="every hour that has ended, and no time of grace")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Pack the files of closed hours into few, and drop those that were replaced.

    `odograph maintenance` does it by itself. With --now who listed files before this moment may miss them.
    """
    from dataclasses import asdict, replace

    from infra.contract.errors import ArchiveError
    from infra.settings.settings import load
    from stream_jobs.archive.upkeep import Rules, alone, settle
    from stream_jobs.archive.upkeep import compact as packed_hours
    from stream_jobs.archive.writer import now_ms

    rules = Rules.of(load().archive)
    if now:
        rules = replace(rules, pack_after_ms=0, grace_ms=0)
    folder, hours_ms = _wanted(day)
    _refuse_generated(folder)
    failures: list[ArchiveError] = []
    done: list[dict[str, Any]] = []
    with alone(folder):
        for packed in packed_hours(folder, hours_ms, rules, now_ms(), failures.append):
            done.append(asdict(packed))
            if not as_json:
                typer.echo(packed.text())
        settled = sum(settle(folder, hour, rules.grace_ms, now_ms()) for hour in hours_ms)
    if as_json:
        typer.echo(json.dumps({"packed": done, "settled": settled}))
    else:
        typer.echo(f"{len(done)} hours packed; in {settled} hours replaced files were dropped")
    _fail(failures)


@app.command()
def expire(
    keep_days: Annotated[
        int | None, typer.Option(min=1, help="days to keep [ODOGRAPH_ARCHIVE_KEEP_DAYS]")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="do it; without, only say what would go")] = False,
) -> None:
    """Let records go that were received longer ago than is to be kept; their files after the grace time."""
    from dataclasses import replace

    from infra.contract.errors import ConfigError
    from infra.settings.settings import load
    from stream_jobs.archive import verify as report
    from stream_jobs.archive.manifest import DAY_MS
    from stream_jobs.archive.upkeep import Rules, alone, due_hours, settle
    from stream_jobs.archive.upkeep import expire as expire_hours
    from stream_jobs.archive.writer import now_ms

    rules = Rules.of(load().archive)
    if keep_days is not None:
        rules = replace(rules, keep_ms=keep_days * DAY_MS)
    if rules.keep_ms is None:
        raise ConfigError("nothing expires: set ODOGRAPH_ARCHIVE_KEEP_DAYS or give --keep-days")
    folder, hours_ms = _wanted(None)
    due = due_hours(folder, hours_ms, rules, now_ms())
    typer.echo(report.hours_text(folder, report.hours_of(folder, due)))
    if not yes:
        typer.echo(f"{len(due)} hours would go; do it with --yes" if due else "nothing has expired")
        return
    with alone(folder):
        expire_hours(folder, due, rules, now_ms())
        dropped = sum(settle(folder, hour, rules.grace_ms, now_ms()) for hour in hours_ms)
    typer.echo(f"{len(due)} hours expired; in {dropped} hours files were dropped")


@app.command()
def push(day: Day = None) -> None:
    """Bring the place at ODOGRAPH_ARCHIVE_URL up to date. `odograph jobs stream` does it by itself."""
    from infra.settings.settings import load
    from stream_jobs.archive import mirror, reader
    from stream_jobs.archive.manifest import archive_of, day_span

    settings = load()
    folder = archive_of(settings.paths.home)
    span = (0, 1 << 62) if day is None else day_span(day)
    hours = [hour for hour in reader.hours(folder) if span[0] <= hour < span[1]]
    for store in _stores():
        done = mirror.push(folder, store, hours, settings.archive.grace_min * 60_000)
        typer.echo(
            f"{settings.archive.url}: {done.sent} files, {done.bytes:,} bytes sent, {done.removed} removed"
        )


@app.command()
def fetch(day: Annotated[str, typer.Option(help="a day of receipt, UTC")]) -> None:
    """Put back from ODOGRAPH_ARCHIVE_URL what is missing here or not as it was written."""
    from infra.settings.settings import load
    from stream_jobs.archive import mirror
    from stream_jobs.archive.manifest import archive_of, day_span, hours_between

    folder, hours = archive_of(load().paths.home), hours_between(*day_span(day))
    for store in _stores():
        mirror.fetch_manifests(folder, store, hours)
        names = mirror.fetch(folder, store, hours)
        typer.echo("\n".join([*names, f"{len(names)} files fetched"]))


def _wanted(day: str | None) -> tuple[Any, list[int]]:
    """The folder and its hours that were asked for."""
    from infra.settings.settings import load
    from stream_jobs.archive import reader
    from stream_jobs.archive.manifest import archive_of

    home = load().paths.home
    if day is None:
        return archive_of(home), reader.hours(archive_of(home))
    return reader.hours_of_day(home, day)


def _refuse_generated(folder: Any) -> None:
    from infra.contract.errors import ConfigError
    from stream_jobs.archive.reader import DAY_SUMMARY

    if (folder / DAY_SUMMARY).exists():
        raise ConfigError(f"{folder} is a generated day: its files stay as its run.json says")


def _fail(failures: Any) -> None:
    from infra.contract.errors import ArchiveError

    if failures:
        raise ArchiveError("; ".join(map(str, failures)))


def _say(text: str) -> None:
    typer.echo(text, err=True)


def _stores() -> Iterator[Store]:
    """The place, with a Java machine of its own around it."""
    from infra.contract.errors import ConfigError
    from infra.settings.settings import load
    from stream_jobs.app.hadoop_store import HadoopStore
    from stream_jobs.app.session import build_session

    settings = load()
    if not settings.archive.url:
        raise ConfigError("there is no second place: set ODOGRAPH_ARCHIVE_URL, as hdfs://host:port/odograph")
    spark = build_session(settings, "archive", settings.jobs.instant_mb, "local[1]", {})
    try:
        yield HadoopStore(spark, settings.archive.url)
    finally:
        spark.stop()
