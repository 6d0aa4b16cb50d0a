"""The commands of recorded drives: ``odograph replay --drives`` and ``odograph drives check``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from edge_simulator.recordings.drive_report import FileReport


def register(app: typer.Typer) -> None:
    """Add the commands."""
    drives = typer.Typer(no_args_is_help=True, help="Recorded drives.")
    drives.command("check")(check)
    drives.callback()(_group)
    app.add_typer(drives, name="drives")


def _group() -> None:
    """Look into recorded drives without sending anything."""


def replay(
    drives: Annotated[Path, typer.Option(help="folder of recorded drives (.csv)")],
    mapping: Annotated[
        Path | None, typer.Option(help="what the columns mean [mapping.yaml in the folder, else RSK Twizy]")
    ] = None,
    speed: Annotated[float, typer.Option(help="times as fast as recorded")] = 60.0,
    start: Annotated[
        str,
        typer.Option(
            help="now: a recording ends when it is sent; kept: recorded times; or when it is to begin, as "
            "2026-11-20T08:00 (UTC)"
        ),
    ] = "now",
    run_id: Annotated[str | None, typer.Option(help="name of the run's folder [replay-<time>]")] = None,
    log_frames: Annotated[bool, typer.Option(help="write every message sent to frames.jsonl")] = False,
    drain: Annotated[str, typer.Option(help="time for the last PUBACKs")] = "15s",
    json: Annotated[bool, typer.Option("--json", help="the summary as JSON on stdout")] = False,
) -> None:
    """Send recorded drives through MQTT, as if the vehicles were on the road.

    Rows become frames of up to 10 samples; a gap begins a new frame. Bad rows and values are
    counted and named. With --start kept or a time, sending a drive again repeats its identities: duplicates.

    Exit codes: 0 all was acknowledged; 1 broker away or frames without PUBACK; 2 wrong option or
    a file that cannot be used (nothing is sent then).
    """
    from edge_simulator.console import now_ms, say, show
    from edge_simulator.recordings import replay as convoys
    from edge_simulator.runfiles import RunFiles
    from edge_simulator.sending.paho_publisher import PahoPublisher
    from edge_simulator.sending.run import Plan
    from edge_simulator.stopping import StopFlag
    from infra.settings import settings
    from infra.settings.values import duration_ms

    in_force = settings.load()
    drain_s = duration_ms(drain, "--drain") / 1000
    convoy = convoys.convoy(drives, mapping, speed, convoys.parse_start(start))
    address = settings.endpoints(in_force)
    name = run_id or f"replay-{now_ms()}"
    with (
        StopFlag(say) as stop,
        PahoPublisher(address.mqtt, [f"odograph-{name}"]) as publisher,
    ):
        publisher.connect(deadline_s=5.0)
        with RunFiles(in_force.paths.home, name, log_frames) as files:
            plan = Plan(name, in_force.mqtt.root, 20_000, drain_s)
            summary = convoys.run(plan, convoy, publisher, files, say, stop)
    show(summary, json)
    if not summary["finished"]:
        raise typer.Exit(1)


def check(
    folder: Annotated[Path, typer.Argument(help="folder of recorded drives (.csv)")],
    mapping: Annotated[
        Path | None, typer.Option(help="what the columns mean [mapping.yaml in the folder, else RSK Twizy]")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="the report as JSON on stdout")] = False,
) -> None:
    """Read recorded drives and say what is in them and what is wrong with them; nothing is sent.

    Exit codes: 0 every file can be used; 1 one cannot; 2 no folder, no file, or a wrong mapping.
    """
    from edge_simulator.recordings import drive_report
    from edge_simulator.recordings.drives import look_into

    meaning, files = look_into(folder, mapping)
    reports = [drive_report.report(file, meaning) for file in files]
    _tell(reports, json)
    if any(report.error for report in reports):
        raise typer.Exit(1)


def _tell(reports: list[FileReport], as_json: bool) -> None:
    import dataclasses

    import orjson

    from edge_simulator.recordings.drive_report import lines

    if as_json:
        sys.stdout.write(orjson.dumps([dataclasses.asdict(one) for one in reports]).decode() + "\n")
        return
    for one in reports:
        sys.stdout.write("\n".join(lines(one)) + "\n")
