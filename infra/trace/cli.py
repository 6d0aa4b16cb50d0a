"""The command ``odograph trace``."""

import json
from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer

from infra.contract.errors import ServiceError
from infra.settings.settings import endpoints, load
from infra.settings.values import duration_ms, vehicle_id


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(trace)


def trace(
    vehicle: Annotated[str, typer.Argument(help="vehicle id, 17 characters")],
    seq: Annotated[int, typer.Argument(min=0, help="sequence number of the frame")],
    boot: Annotated[
        int | None, typer.Option(min=0, help="boot id", show_default="the newest that has the number")
    ] = None,
    look_back: Annotated[str, typer.Option(help="how far back the archive is searched, as 90m, 48h")] = "24h",
    as_json: Annotated[bool, typer.Option("--json", help="JSON on standard output")] = False,
) -> None:
    """Follow one frame hop by hop: vehicle, bridge, log, queries, archive, windows, alerts; with times.

    The log is read where the archive does not reach yet: seconds of data, a million records at most. Exit 1
    where nothing has the frame. The audit log notes who looked.
    """
    from infra.sql import queries
    from infra.trace.follow import Wanted, follow, text

    wanted = Wanted(vehicle_id(vehicle), seq, boot)
    settings = load()
    look_back_ms = duration_ms(look_back, "--look-back")
    places = endpoints(settings)
    found = follow(settings, places, wanted, look_back_ms, partial(typer.echo, err=True))
    if not found.found:
        of = "" if boot is None else f" of boot {boot}"
        raise ServiceError(
            f"no trace of frame {seq}{of} of {vehicle}: not in the archive's last {look_back}, not in "
            "what the log holds beyond it, no dead letter. Was it sent? See runs/<run>/frames.jsonl "
            "(simulate --log-frames), odograph status for queues, --look-back for older frames"
        )
    queries.note(places.db_ingest_url, "vehicle viewed", vehicle, f"odograph trace, frame {seq}")
    typer.echo(json.dumps(asdict(found) | {"found": True}, indent=1) if as_json else text(found))
