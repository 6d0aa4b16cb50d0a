"""The command ``odograph archive``: what is there, is it whole, pack it, let old records go."""

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from infra.contract.errors import ArchiveError, ConfigError
from infra.settings.settings import load

app = typer.Typer(no_args_is_help=True, help="The archive of all records: list, verify, compact, expire.")

Day = Annotated[
    str | None, typer.Option(help="a day of receipt, UTC, or a generated day", show_default="all")
]
Received = Annotated[str | None, typer.Option(help="a day of receipt, UTC", show_default="all")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON on standard output")]


@app.command(name="list")
def list_(day: Day = None, as_json: AsJson = False) -> None:
    """Hours of receipt with their files, records and bytes."""
    from stream_jobs.archive.verify import hours_json, hours_text

    folder, hours_ms = _wanted(day)
    lines = hours_json(folder, hours_ms)
    typer.echo(json.dumps(lines) if as_json else hours_text(folder, lines))


@app.command()
def verify(
    day: Day = None,
    quick: Annotated[bool, typer.Option(help="sizes and counts only: no file is read")] = False,
    adopt: Annotated[bool, typer.Option(help="give files that the manifest does not know a line")] = False,
    as_json: AsJson = False,
) -> None:
    """Is it whole? Files by the manifest; the log's offsets without hole or double. Exit 1: it is not."""
    from stream_jobs.archive.verify import verdict_text, verified
    from stream_jobs.archive.writer import adopt as adopt_hour
    from stream_jobs.audit_log.cli import end_check

    folder, hours_ms = _wanted(day)
    if adopt:
        adopted = sum(len(adopt_hour(folder, hour)) for hour in hours_ms)
        typer.echo(f"{adopted} files taken into the manifest", err=True)
    verdict = verified(folder, hours_ms, quick)
    fields = asdict(verdict) | {"unlisted": [str(path) for path in verdict.unlisted], "whole": verdict.whole}
    typer.echo(json.dumps(fields) if as_json else verdict_text(folder, verdict))
    end_check("odograph archive verify", [*verdict.damage, *verdict.log])


@app.command()
def compact(
    day: Received = None,
    now: Annotated[
        bool, typer.Option("--now", help="every hour that has ended, and no time of grace")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Pack the files of closed hours into few, and drop those that were replaced.

    `odograph maintenance` does it by itself. With --now a reader that listed files before may not find them.
    """
    from stream_jobs.archive import upkeep
    from stream_jobs.archive.manifest import hour_name
    from stream_jobs.archive.reader import DAY_SUMMARY
    from stream_jobs.archive.writer import now_ms

    rules = load().archive
    if now:
        rules = rules.model_copy(update={"pack_after_min": 0, "grace_min": 0})
    folder, hours_ms = _wanted(day)
    if (folder / DAY_SUMMARY).exists():
        raise ConfigError(f"{folder} is a generated day: its files stay as its run.json says")
    failures, done = [], []
    with upkeep.alone(folder):
        for one in upkeep.compact(folder, hours_ms, rules, now_ms()):
            if isinstance(one, ArchiveError):
                failures.append(str(one))
                continue
            done.append(asdict(one))
            files, size = f"{one.files_before} files to {one.files_after}", f"{one.bytes_before:,} bytes to"
            text = f"{hour_name(one.hour_ms)}: {files}, {one.rows:,} records, {size} {one.bytes_after:,}"
            if not as_json:
                typer.echo(text)
        settled = sum(upkeep.settle(folder, hour, rules.grace_min, now_ms()) for hour in hours_ms)
    text = f"{len(done)} hours packed; in {settled} hours replaced files were dropped"
    typer.echo(json.dumps({"packed": done, "settled": settled}) if as_json else text)
    if failures:
        raise ArchiveError("; ".join(failures))


@app.command()
def expire(
    keep_days: Annotated[
        int | None, typer.Option(min=1, help="days to keep", show_default="ODOGRAPH_ARCHIVE_KEEP_DAYS")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="do it; without, only say what would go")] = False,
) -> None:
    """Expire records that were received before the days to keep; their files go after the grace time."""
    from stream_jobs.archive import upkeep
    from stream_jobs.archive.verify import hours_json, hours_text
    from stream_jobs.archive.writer import now_ms

    rules = load().archive
    if keep_days is not None:
        rules = rules.model_copy(update={"keep_days": keep_days})
    if not rules.keep_days:
        raise ConfigError("nothing expires: set ODOGRAPH_ARCHIVE_KEEP_DAYS or give --keep-days")
    folder, hours_ms = _wanted(None)
    due = upkeep.due_hours(folder, hours_ms, rules, now_ms())
    if due:
        typer.echo(hours_text(folder, hours_json(folder, due)))
    if not yes:
        typer.echo(f"{len(due)} hours would go; do it with --yes" if due else "nothing has expired")
        return
    with upkeep.alone(folder):
        upkeep.expire(folder, due)
        dropped = sum(upkeep.settle(folder, hour, rules.grace_min, now_ms()) for hour in hours_ms)
    typer.echo(f"{len(due)} hours expired; in {dropped} hours files were dropped")


@app.command()
def push(day: Received = None) -> None:
    """Bring the place at ODOGRAPH_ARCHIVE_URL up to date. `odograph jobs stream` does it by itself."""
    from stream_jobs.archive import mirror
    from stream_jobs.archive.manifest import hours_of_date

    folder, hours = _wanted(None)
    hours = hours if day is None else [hour for hour in hours if hour in hours_of_date(day)]
    with mirror.second_place(settings := load()) as store:
        done = mirror.push(folder, store, hours, settings.archive.grace_min * 60_000)
    counts = f"{done.sent} files, {done.bytes:,} bytes sent, {done.removed} removed"
    typer.echo(f"{settings.archive.url}: {counts}")


@app.command()
def fetch(day: Annotated[str, typer.Option(help="a day of receipt, UTC")]) -> None:
    """Put back from ODOGRAPH_ARCHIVE_URL what is missing here or not as it was written."""
    from stream_jobs.archive import mirror
    from stream_jobs.archive.manifest import hours_of_date

    hours = hours_of_date(day)
    with mirror.second_place(load()) as store:
        names = mirror.fetch(_wanted(None)[0], store, hours)
    typer.echo("\n".join([*names, f"{len(names)} files fetched"]))


def _wanted(day: str | None) -> tuple[Any, list[int]]:
    from stream_jobs.archive import reader
    from stream_jobs.archive.manifest import archive_of

    home = load().paths.home
    if day is None:
        return archive_of(home), reader.hours(archive_of(home))
    return reader.hours_of_day(home, day)
