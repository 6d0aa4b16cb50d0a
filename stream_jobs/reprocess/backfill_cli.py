"""``odograph backfill``: a generated day or recorded drives into archive and windows."""

from __future__ import annotations

import json as jsons
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from infra.settings.settings import Settings


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(backfill)


def backfill(
    day_folder: Annotated[
        Path | None, typer.Option(help="a generated day (odograph simulate --day), as .odograph/days/NAME")
    ] = None,
    drives: Annotated[Path | None, typer.Option(help="or a folder of recorded drives (.csv)")] = None,
    mapping: Annotated[
        Path | None, typer.Option(help="what the columns mean [mapping.yaml in the folder, else RSK Twizy]")
    ] = None,
    start: Annotated[
        str, typer.Option(help="kept: recorded times; or when the drives begin, as 2026-11-20T08:00 (UTC)")
    ] = "kept",
    run_id: Annotated[
        str | None, typer.Option(help="name of the drives' day [drives-<name of the folder>]")
    ] = None,
    archive_only: Annotated[
        bool, typer.Option("--archive-only", help="no windows: needs no service; say it again without")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="what was done, as JSON on stdout")] = False,
) -> None:
    """Bring records of the past into archive and windows, beside the live stream and not through it.

    Files go into the archive as they are; then the batch layer makes the windows, trips and roll-ups of their
    time. Alerts are not raised for the past. One that was killed is finished by the same command.

    Exit codes: 0 done; 1 a file is damaged or a service away; 2 wrong option or a folder that cannot be used.
    """
    import threading
    from dataclasses import asdict

    from infra.contract.errors import ConfigError
    from infra.settings.settings import endpoints, load
    from stream_jobs.archive.manifest import archive_of
    from stream_jobs.reprocess.backfill.intake import take_in

    settings = load()
    if (day_folder is None) == (drives is None):
        raise ConfigError("give either --day-folder or --drives")
    day = day_folder if drives is None else _day_of(settings, drives, mapping, start, run_id)
    assert day is not None
    taken = take_in(archive_of(settings.paths.home), day.absolute())
    said = {"day": taken.name, "files": len(taken.files), "files_new": taken.fresh, "frames": taken.frames,
            "vehicles": taken.vehicles}  # fmt: skip
    if not archive_only and taken.pieces_ms:
        from stream_jobs.reprocess.backfill.work import bring_in

        done = bring_in(settings, endpoints(settings), taken, _say, threading.Event())
        said |= asdict(done)
    typer.echo(
        jsons.dumps(said) if json else "\n".join(f"{k.replace('_', ' '):<16} {v}" for k, v in said.items())
    )


def _day_of(settings: Settings, drives: Path, mapping: Path | None, start: str, run_id: str | None) -> Path:
    from edge_simulator.recordings import drive_day
    from edge_simulator.recordings import replay as convoys
    from infra.contract.errors import ConfigError

    begin = convoys.parse_start(start)
    if begin == "now":
        raise ConfigError(
            "--start now: a back-fill is of the past; kept, or a time as 2026-11-20T08:00 (UTC)"
        )
    convoy = convoys.convoy(drives, mapping, 1.0, begin)
    for recording in convoy.recordings:
        for drive in recording.drives:
            for text in (*drive.bad_rows, *drive.bad_values)[:5]:
                _say(f"{drive.name}, row {text}")
    return drive_day.make(convoy, drives, settings, run_id or f"drives-{drives.absolute().name}")


def _say(text: str) -> None:
    typer.echo(text, err=True)
