"""A check that finds evidence, records or the audit log itself altered is in the audit log."""

from collections.abc import Sequence

import typer

from infra.contract.errors import ConfigError, ServiceError
from infra.contract.topics import VEHICLE_ID
from infra.settings.settings import endpoints, load
from infra.sql import queries


def note_failed_check(command: str, wrong: Sequence[str]) -> None:
    """Note how much is wrong and the first of it, its vehicle unnamed; where nobody can, say so."""
    if not wrong:
        return
    first = VEHICLE_ID.sub("{vehicle}", wrong[0])
    try:
        url = endpoints(load(), ("db_ingest_url",)).db_ingest_url
        queries.note(url, "check failed", None, f"{command}: {len(wrong)} found, the first: {first}")
    except (ServiceError, ConfigError) as error:
        typer.echo(f"not noted in the audit log: {error}", err=True)
