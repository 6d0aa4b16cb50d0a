"""The command ``odograph archive``: what is there, is it whole, pack it, let old records go."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

app = typer.Typer(no_args_is_help=True, help="The archive of all records: list, verify, compact, expire.")

Day = Annotated[str | None, typer.Option(help="a day of receipt, UTC, or a generated day [all]")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON on standard output")]


def register(root: typer.Typer) -> None:
    """Add the command."""
    root.add_typer(app, name="archive")


@app.command(name="list")
def list_(day: Day = None, as_json: AsJson = False) -> None:
    """Hours of receipt with their files, records and bytes."""
    from infra.archive import report

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
    from infra.archive import report
    from infra.archive.verify import verified
    from infra.archive.writer import adopt as adopt_hour

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

    from infra.archive.upkeep import Rules, alone, settle
    from infra.archive.upkeep import compact as packed_hours
    from infra.archive.writer import now_ms
    from infra.contract.errors import ArchiveError
    from infra.contract.settings import load

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

    from infra.archive import report
    from infra.archive.layout import DAY_MS
    from infra.archive.upkeep import Rules, alone, due_hours, settle
    from infra.archive.upkeep import expire as expire_hours
    from infra.archive.writer import now_ms
    from infra.contract.errors import ConfigError
    from infra.contract.settings import load

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


def _wanted(day: str | None) -> tuple[Any, list[int]]:
    """The folder and its hours that were asked for."""
    from infra.archive import reader
    from infra.archive.layout import archive_of
    from infra.contract.settings import load

    home = load().paths.home
    if day is None:
        return archive_of(home), reader.hours(archive_of(home))
    return reader.hours_of_day(home, day)


def _refuse_generated(folder: Any) -> None:
    from infra.archive.reader import DAY_SUMMARY
    from infra.contract.errors import ConfigError

    if (folder / DAY_SUMMARY).exists():
        raise ConfigError(f"{folder} is a generated day: its files stay as its run.json says")


def _fail(failures: Any) -> None:
    from infra.contract.errors import ArchiveError

    if failures:
        raise ArchiveError("; ".join(map(str, failures)))


def _say(text: str) -> None:
    typer.echo(text, err=True)
