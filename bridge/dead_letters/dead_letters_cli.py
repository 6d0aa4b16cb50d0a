"""The commands ``odograph dead-letters list | show | reinject``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from bridge.dead_letters.work import DeadLetters

Json = Annotated[bool, typer.Option("--json", help="for machines: JSON on standard output")]
Reason = Annotated[str | None, typer.Option("--reason", help="only this reason, as bad_json")]
Vehicle = Annotated[str | None, typer.Option("--vehicle", help="only this vehicle id")]
Since = Annotated[
    str | None,
    typer.Option("--since", help="only received since: 10m, 2h, 7d ago; or 2026-11-20T08:00, UTC"),
]

dead_letters = typer.Typer(
    no_args_is_help=True, help="What could not be understood: look at it, send it in again."
)


@dead_letters.command("list")
def list_(
    reason: Reason = None,
    vehicle: Vehicle = None,
    since: Since = None,
    limit: Annotated[int, typer.Option(min=0, help="the newest so many; counts are over all")] = 50,
    as_json: Json = False,
) -> None:
    """List dead letters, newest last, and count them by reason. A letter's offset is its id."""
    from bridge.dead_letters import text
    from bridge.dead_letters.letter import Selection
    from infra.contract.errors import ServiceError

    letters = _letters()
    found = letters.list(Selection(reason, vehicle), _since_ms(since), limit)
    try:
        marked = letters.marked()
    except ServiceError as error:
        typer.echo(f"which were re-injected is not known: {error}", err=True)
        marked = set()
    rows = text.rows(found.newest, marked)
    typer.echo(text.list_json(rows, found.by_reason) if as_json else text.list_text(rows, found.by_reason))


@dead_letters.command()
def show(
    offset: Annotated[int, typer.Argument(min=0, help="the letter's offset")],
    raw: Annotated[bool, typer.Option("--raw", help="the raw bytes alone, on standard output")] = False,
    limit: Annotated[int, typer.Option("--bytes", min=0, help="show so many bytes at most")] = 1024,
) -> None:
    """Show one dead letter: its headers, then its bytes as hexadecimal and text."""
    from bridge.dead_letters import text

    letter = next(iter(_letters().find([offset])))
    if raw:
        sys.stdout.buffer.write(letter.value)
        return
    typer.echo(text.letter_text(letter, limit))


@dead_letters.command()
def reinject(
    offsets: Annotated[list[int] | None, typer.Argument(min=0, help="offsets of letters")] = None,
    reason: Reason = None,
    vehicle: Vehicle = None,
    since: Since = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what would happen")] = False,
    again: Annotated[bool, typer.Option("--again", help="also those that went in before")] = False,
    as_json: Json = False,
) -> None:
    """Send dead letters in again, as if they were received now, where today's contract lets them through.

    A letter that still breaks the contract stays and is named. Every letter stays in the dead-letter topic;
    going in twice changes no result. Name the letters by offset, or by --reason with --vehicle and --since.

    Exit codes: 0 all went in (now or before); 1 some stay, or a service is away; 2 wrong usage.
    """
    from bridge.dead_letters import text
    from bridge.dead_letters.letter import Selection
    from infra.contract.errors import ConfigError

    if bool(offsets) == bool(reason) or (offsets and (vehicle or since)):
        raise ConfigError("name the letters: either OFFSET..., or --reason R with --vehicle and --since")
    letters = _letters()
    chosen = (
        letters.find(offsets) if offsets else letters.select(Selection(reason, vehicle), _since_ms(since))
    )
    report = letters.reinject(chosen, dry_run, again)
    typer.echo(text.report_json(report) if as_json else text.report_text(report, dry_run))
    if report.stays:
        raise typer.Exit(1)


def _letters() -> DeadLetters:
    from bridge.dead_letters.work import DeadLetters
    from infra.settings import settings

    in_force = settings.load()
    return DeadLetters(in_force, settings.endpoints(in_force))


def _since_ms(since: str | None) -> int | None:
    from bridge.dead_letters.text import since_ms
    from bridge.dead_letters.work import now_ms

    return None if since is None else since_ms(since, now_ms())
