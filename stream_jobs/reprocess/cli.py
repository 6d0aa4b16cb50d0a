"""``odograph recompute`` and ``odograph backfill``: time made again from the archive, days put into it."""

import json as jsons
from pathlib import Path
from typing import Annotated

import typer

from infra.clients.log import configure
from infra.clients.tables import aligned
from infra.contract.errors import ConfigError
from infra.settings.settings import Settings, endpoints, load
from infra.settings.values import moment_ms, vehicle_id


def recompute(
    since: Annotated[str, typer.Option("--from", help="begin of the span, as 2026-11-20T08:00 (UTC)")],
    until: Annotated[str, typer.Option("--to", help="its end; cut back to what the stream is done with")],
    vehicle: Annotated[
        str | None,
        typer.Option(help="only this vehicle's windows, trips and alerts; road windows stay as they are"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="what was restated, as JSON")] = False,
) -> None:
    """Make windows, trips and alerts again from the archive, with the transforms of the stream.

    What differs from what is stored is restated under the next revision: a second run changes nothing.
    One that was killed goes on where it was. The stream may run meanwhile.
    Exit 1: a file of the archive is damaged, or a service is away; 2: nothing closed or archived in the span.
    """
    from infra.clients.health import stopped_by_signals
    from stream_jobs.reprocess import work
    from stream_jobs.reprocess.queue import Span, moment

    whose = None if vehicle is None else vehicle_id(vehicle, "--vehicle")
    asked = Span(moment_ms(since, "--from"), moment_ms(until, "--to"), whose)
    if asked.until_ms <= asked.from_ms:
        raise ConfigError("recompute: --to is not after --from")
    configure("recompute")
    settings = load()
    addresses = endpoints(settings)
    with stopped_by_signals() as stop, work.restater(settings, addresses, "recompute", stop, _say) as restate:
        caught_up_ms = work.closed_ms(settings, addresses, restate.database)
        span = work.closed_span(settings, asked, caught_up_ms)
        run, n = work.recompute(restate, span, caught_up_ms)
    begin, end = moment(span.from_ms), moment(span.until_ms)
    if as_json:
        known = {"run": run.run_no, "from": begin.isoformat(), "to": end.isoformat(), "vehicle": vehicle}
        former = {"unfounded": n["orphaned"]}  # the former name of orphaned
        typer.echo(jsons.dumps(known | n | former))
        return
    told = f"run {run.run_no}: {begin:%Y-%m-%d %H:%M:%S} .. {end:%Y-%m-%d %H:%M:%S} UTC"
    typer.echo(f"{told}, {vehicle or 'all vehicles'}")
    typer.echo(
        "restated   {vehicle_windows} vehicle windows, {place_windows} road windows, "
        "{journeys} trips, stops and events of {vehicles} vehicles\n"
        "alerts     {alerts_added} added, {alerts_changed} changed, {alerts_withdrawn} withdrawn\n"
        "late       {late_frames} late frames taken in".format_map(n)
    )
    if orphaned := n["orphaned"]:
        typer.echo(f"orphaned   {orphaned} stored windows have no frame in the archive: left as they are")
    if span.until_ms < asked.until_ms:
        typer.echo("what is later than this span is still open: the stream may add to it")


def backfill(
    day_folder: Annotated[
        Path | None, typer.Option(help="a generated day (odograph simulate --day), as .odograph/days/NAME")
    ] = None,
    drives: Annotated[Path | None, typer.Option(help="or a folder of recorded drives (.csv)")] = None,
    mapping: Annotated[
        Path | None,
        typer.Option(help="what the columns mean", show_default="mapping.yaml in the folder, else RSK Twizy"),
    ] = None,
    start: Annotated[
        str, typer.Option(help="kept: recorded times; or when the drives begin, as 2026-11-20T08:00 (UTC)")
    ] = "kept",
    run_id: Annotated[
        str | None, typer.Option(help="name of the drives' day", show_default="drives-<name of the folder>")
    ] = None,
    archive_only: Annotated[
        bool, typer.Option("--archive-only", help="no windows: needs no service; run it again without")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="what was done, as JSON on stdout")] = False,
) -> None:
    """Bring records of the past into archive and windows, beside the live stream and not through it.

    Files go into the archive as they are; then the batch layer makes the windows, trips and roll-ups of their
    time. Alerts are not raised for the past. One that was killed is finished by the same command.

    Exit codes: 0 done; 1 a file is damaged or a service away; 2 wrong option or a folder that cannot be used.
    """
    from stream_jobs.archive.manifest import archive_of
    from stream_jobs.reprocess.backfill import bring_in, take_in

    settings = load()
    if (day_folder is None) == (drives is None):
        raise ConfigError("give either --day-folder or --drives")
    day = day_folder if drives is None else _day_of(settings, drives, mapping, start, run_id)
    assert day is not None
    taken = take_in(archive_of(settings.paths.home), day.absolute())
    done = {"day": taken.name, "files": len(taken.files), "files_new": taken.fresh, "frames": taken.frames,
            "vehicles": taken.vehicles}  # fmt: skip
    if not archive_only and taken.pieces_ms:
        done |= bring_in(settings, endpoints(settings), taken, _say)
    lines = ((name.replace("_", " "), str(value)) for name, value in done.items())
    typer.echo(jsons.dumps(done) if json else aligned(lines))


def _day_of(settings: Settings, drives: Path, mapping: Path | None, start: str, run_id: str | None) -> Path:
    from edge_simulator.recordings import replay

    begin = replay.parse_start(start)
    if begin == "now":
        raise ConfigError(
            "--start now: a back-fill is of the past; kept, or a time as 2026-11-20T08:00 (UTC)"
        )
    convoy = replay.convoy(drives, mapping, 1.0, begin)
    for recording in convoy.recordings:
        for drive in recording.drives:
            for text in (*drive.bad_rows, *drive.bad_values)[:5]:
                _say(f"{drive.name}, row {text}")
    return replay.make(convoy, settings, run_id or f"drives-{drives.absolute().name}")


def _say(text: str) -> None:
    typer.echo(text, err=True)
