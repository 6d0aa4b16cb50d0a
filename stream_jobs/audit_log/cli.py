"""The command ``odograph audit-log``, and what commands that check evidence note in the log."""

from collections.abc import Sequence
from typing import Annotated

import typer

from infra.clients.tables import aligned
from infra.contract.errors import ConfigError, ServiceError
from infra.contract.topics import VEHICLE_ID
from infra.settings.settings import endpoints, load


def audit_log(
    vehicle: Annotated[str | None, typer.Option(help="about one vehicle")] = None,
    actor: Annotated[str | None, typer.Option(help="of one person, system user or refused program")] = None,
    limit: Annotated[int, typer.Option(min=1, help="how many of the newest")] = 100,
    verify: Annotated[bool, typer.Option("--verify", help="the whole log against its anchors")] = False,
    head: Annotated[
        str | None, typer.Option(help="with --verify: a hash that it printed earlier, still to be in the log")
    ] = None,
    anchor: Annotated[
        bool, typer.Option("--anchor", help="sign and time-stamp its head now; maintenance does it, too")
    ] = False,
) -> None:
    """List who did what: sign-ins, vehicles looked at, exports, actions on alerts, notices, promotions.

    --verify computes the chain without the database and holds it against the heads in <home>/anchors/audit:
    a log that a superuser of the database wrote anew is found by it. Exit 1 where the log was changed.
    """
    from infra.sql import queries
    from stream_jobs.audit_log import chain

    if head is not None and not verify:
        raise ConfigError("audit-log: --head is looked for with --verify only")
    settings = load()
    places = endpoints(settings, ("db_ingest_url",))
    if anchor:
        typer.echo(f"anchored at entry {chain.anchored(settings, places.db_ingest_url)}")
    if verify:
        found, wrong = chain.verified(settings, chain.read(places.db_ingest_url), head)
        typer.echo("\n".join([*found, *(wrong or ["nothing was changed"])]))
        end_check("odograph audit-log --verify", wrong)
    if anchor or verify:
        return
    rows = queries.audit_log(places.db_ingest_url, vehicle, actor, limit)
    columns = ("entry", "at", "actor", "role", "action", "vehicle_id", "detail")
    typer.echo(aligned([[row[name] for name in columns] for row in rows]) if rows else "no entries")
    whole = rows or queries.audit_log(places.db_ingest_url, None, None, 1)  # some may have been taken out
    if whole and whole[0]["broken"]:
        typer.echo(f"{whole[0]['broken']} entries do not hold: the log was changed")
        raise typer.Exit(1)


def end_check(command: str, wrong: Sequence[str]) -> None:
    """End with exit code 1 where something is wrong. How much, and the first of it, its vehicle unnamed, are
    noted in the log; where nobody can, that is said.
    """
    from infra.sql import queries

    if not wrong:
        return
    first = VEHICLE_ID.sub("{vehicle}", wrong[0])
    try:
        url = endpoints(load(), ("db_ingest_url",)).db_ingest_url
        queries.note(url, "check failed", None, f"{command}: {len(wrong)} found, the first: {first}")
    except (ServiceError, ConfigError) as error:
        typer.echo(f"not noted in the audit log: {error}", err=True)
    raise typer.Exit(1)
