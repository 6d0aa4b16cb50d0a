"""The commands ``odograph privacy export | erase``."""

from pathlib import Path
from typing import Annotated

import orjson
import typer

from infra.clients.tables import aligned
from infra.contract.errors import ConfigError
from infra.settings.settings import load
from infra.settings.values import duration_ms

privacy = typer.Typer(no_args_is_help=True, help="All data of one vehicle: a copy for its owner, or its end.")
Vehicle = Annotated[str, typer.Argument(help="vehicle id, 17 characters")]
Basis = Annotated[str, typer.Option(help="legal basis, KIND: REFERENCE; without it the kinds are listed")]
Json = Annotated[bool, typer.Option("--json", help="JSON on standard output")]


@privacy.command()
def export(
    vehicle: Vehicle,
    out: Annotated[Path, typer.Option(help="a folder that does not exist yet")],
    basis: Basis = "",
    as_json: Json = False,
) -> None:
    """Write everything that is known of a vehicle: a CSV a table, its frames, its certificates, a manifest.

    Manifest and audit log name the legal basis; the audit log also who did it.
    """
    from infra.contract.legal_basis import legal_basis
    from stream_jobs.privacy.export import export as run

    made = run(load(), vehicle, out, legal_basis(basis))
    rows = [(name, one["rows"], one["bytes"], one["sha256"]) for name, one in made["files"].items()]
    typer.echo(orjson.dumps(made).decode() if as_json else aligned(rows, ("file", "rows", "bytes", "sha256")))


@privacy.command()
def erase(
    vehicle: Vehicle,
    yes: Annotated[bool, typer.Option("--yes", help="do it: nothing brings the data back")] = False,
    wait: Annotated[str, typer.Option(help="for the consumers of the log at most")] = "15m",
    as_json: Json = False,
) -> None:
    """Erase everything that is known of a vehicle up to now; crash records under lock stay.

    The vehicle must not send any more. The ledger keeps how many frames there were, under a name that is
    nobody's. The audit log says who did it.
    """
    from stream_jobs.privacy.erase import erase as run

    if not yes:
        raise ConfigError("nothing was erased: it cannot be undone; with --yes it is done")
    found = run(load(), vehicle, duration_ms(wait, "--wait") / 1000, lambda text: typer.echo(text, err=True))
    if as_json:
        typer.echo(orjson.dumps(found).decode())
        return
    rows = [*found.rows.items(), *((f"topic {name}", count) for name, count in found.log.items())]
    rows += [("archive: frames", found.frames), ("files of the home", found.files)]
    kept = [f"kept under lock: crash record {crash_id}" for crash_id in found.kept]
    typer.echo("\n".join([aligned(rows, ("where", "erased")), *kept, *found.remarks, f"now {found.name}"]))
