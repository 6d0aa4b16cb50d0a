"""The command ``odograph replay`` and those of its runs: list, show, compare, promote, rollback, drop."""

import json as jsons
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from infra.contract.errors import ConfigError
from infra.settings.settings import endpoints, load

replays = typer.Typer(help="A stored day, a stretch of the log or recorded drives, through the jobs again.")
RunId = Annotated[str, typer.Argument(help="a run: odograph replay list")]
Json = Annotated[bool, typer.Option("--json", help="for machines: JSON on standard output")]
DRIVES_SPEED = 60.0


@replays.callback(invoke_without_command=True)
def replay(
    context: typer.Context,
    day: Annotated[
        str | None,
        typer.Option(help="a stored day, as 2026-11-20 (in ODOGRAPH_TZ), or a generated day's name"),
    ] = None,
    from_offset: Annotated[
        str | None, typer.Option(help="Kafka's telemetry from here on: an offset, or partition:offset,...")
    ] = None,
    from_time: Annotated[
        str | None, typer.Option(help="Kafka's telemetry received since, as 2026-11-20T08:00 (UTC)")
    ] = None,
    drives: Annotated[Path | None, typer.Option(help="recorded drives (.csv folder)")] = None,
    speed: Annotated[
        str | None,
        typer.Option(help="times as fast as it was received, or max", show_default="shadow: max; else 60"),
    ] = None,
    vehicle: Annotated[list[str] | None, typer.Option(help="only this vehicle; may be repeated")] = None,
    into: Annotated[
        Literal["shadow", "live"] | None,
        typer.Option(
            help="shadow: jobs, topics and tables of its own; live: the live topic (--yes), drives by MQTT",
            show_default="shadow; drives at --speed 1: live",
        ),
    ] = None,
    verify: Annotated[
        bool, typer.Option(help="compare every window with the live one; exit 1 at a difference")
    ] = False,
    run: Annotated[
        str | None, typer.Option(help="name of the run; a known one goes on", show_default="r<date>_<n>")
    ] = None,
    jobs: Annotated[
        str | None,
        typer.Option(help="programs of the run", show_default="stream,instant,events; drives: and dashboard"),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="another setting for the run's jobs: jobs.window_s=20; may be repeated"),
    ] = None,
    lead: Annotated[
        str, typer.Option(help="run-up of the jobs before a day, as 30m; counts for nothing")
    ] = "1h",
    yes: Annotated[bool, typer.Option("--yes", help="consent to --into live")] = False,
    mapping: Annotated[
        Path | None,
        typer.Option(help="--drives: what the columns mean", show_default="mapping.yaml, else RSK Twizy"),
    ] = None,
    start: Annotated[
        str, typer.Option(help="--drives: now: the last sample is of now; kept; or when it begins (UTC)")
    ] = "now",
    run_id: Annotated[str | None, typer.Option(help="drives into live: name of the run's folder")] = None,
    log_frames: Annotated[bool, typer.Option(help="drives into live: every message to frames.jsonl")] = False,
    drain: Annotated[str, typer.Option(help="drives into live: time for the last PUBACKs")] = "15s",
    json: Json = False,
) -> None:
    """Replay a stored day or recorded drives through the same jobs, beside the live ones.

    Shadow runs are isolated: own topics, own database, own checkpoints, own home
    (<home>/replays/<run>). The same command with the same --run goes on where a killed one ended.

    Exit codes: 0 done (and equal with --verify); 1 a difference, or a service is away; 2 wrong usage.
    """
    if context.invoked_subcommand is not None:
        return
    from stream_jobs.replay import command
    from stream_jobs.replay.records import speed_of

    if drives is not None and (into == "live" or (into is None and speed and speed_of(speed) == 1)):
        from edge_simulator.recordings.replay import publish

        if day is not None or from_offset is not None or from_time is not None:
            raise ConfigError(command.ONE_SOURCE)
        if vehicle or verify or run or set_:
            raise ConfigError("--vehicle, --verify, --run and --set are of --into shadow; live go all drives")
        times = DRIVES_SPEED if speed is None else speed_of(speed) or 1e6
        if not publish(drives, mapping, times, start, run_id, log_frames, drain, json):
            raise typer.Exit(1)
        return
    if run_id or log_frames:
        raise ConfigError(
            "--run-id and --log-frames are of drives that go --into live; a run is named by --run"
        )
    wanted = command.Wanted(
        day=day, from_offset=from_offset, from_time=from_time, speed=speed, vehicles=tuple(vehicle or ()),
        into=into or "shadow", verify=verify, run=run, settings=tuple(set_ or ()), lead=lead, yes=yes,
        jobs=jobs or command.PROGRAMS + (",dashboard" if drives is not None else ""),
        drives=drives, mapping=mapping, start=start,
    )  # fmt: skip
    if not command.replay(wanted, lambda text: typer.echo(text, err=True), as_json=json):
        raise typer.Exit(1)


@replays.command()
def watch(run: RunId) -> None:
    """Serve a run's own dashboard until Ctrl-C: what its jobs made, whether or not serving reads it."""
    from stream_jobs.replay import shadow

    shadow.watch(run)


@replays.command("list")
def list_(json: Json = False) -> None:
    """All runs: what of, how far, promoted or not."""
    from stream_jobs.replay import command

    typer.echo(command.listed(json))


@replays.command()
def show(run: RunId) -> None:
    """Print all that is known of a run, as JSON."""
    from stream_jobs.replay import command, runs

    found = runs.load(load().paths.home, run)
    typer.echo(jsons.dumps(asdict(found) | {"read": command.promotions([found])[0]}, indent=1))


@replays.command()
def compare(run: RunId, json: Json = False) -> None:
    """Compare every table of a run with the live one: windows, trips, alerts. Exit 1 where one differs."""
    from stream_jobs.replay import command

    if not command.compared(run, lambda table: table.compared, json):
        raise typer.Exit(1)


@replays.command()
def promote(run: RunId) -> None:
    """Let the serving views read the run within its span and for its vehicles, in one transaction."""
    from stream_jobs.replay import command
    from stream_jobs.replay.promote import promote as copy_and_read

    with command.opened(run) as (found, live, own):
        copied = copy_and_read(live, own, found)
    typer.echo(
        f"promoted: {run} is read from {found.span.since:%Y-%m-%d %H:%M}Z to "
        f"{found.span.until:%Y-%m-%d %H:%M}Z for {command.whose(found, 'all vehicles')} "
        f"({copied} rows copied)"
    )


@replays.command()
def rollback(run: RunId) -> None:
    """Let the serving views read what they read before the run was promoted, in one transaction."""
    from infra.clients.db import system_user
    from stream_jobs.replay import databases, runs
    from stream_jobs.replay.promote import rollback as read_before

    settings = load()
    runs.load(settings.paths.home, run)
    with databases.connected(endpoints(settings).db_owner_url, actor=system_user()) as live:
        read_before(live, run)
    typer.echo(f"rolled back: {run} is not read any more; promoting it again needs no replay")


@replays.command()
def drop(run: RunId) -> None:
    """Remove a run: programs, topics, database, copied tables, folder. Refused while it is read."""
    from stream_jobs.replay import shadow

    shadow.drop(run)
    typer.echo(f"dropped: {run}")
