"""The commands ``odograph simulate``, ``odograph replay`` and ``odograph roads``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from edge_simulator import edr_cli, scenarios_cli
from edge_simulator.simulate_cli import simulate


def register(app: typer.Typer) -> None:
    """Add the simulator's commands."""
    app.command("simulate")(simulate)
    app.command("replay")(replay)
    app.add_typer(scenarios_cli.app, name="scenarios")
    app.add_typer(edr_cli.app, name="edr")
    app.command("roads", hidden=True)(roads)


def replay(
    drives: Annotated[Path, typer.Option(help="folder of recorded drives (.csv)")],
    mapping: Annotated[
        Path | None, typer.Option(help="what the columns mean [mapping.yaml in the folder, else RSK Twizy]")
    ] = None,
    speed: Annotated[float, typer.Option(help="times as fast as recorded")] = 60.0,
    start: Annotated[
        str, typer.Option(help="now: each drive ends when it is sent; kept: recorded times")
    ] = "now",
    run_id: Annotated[str | None, typer.Option(help="name of the run's folder [replay-<time>]")] = None,
    log_frames: Annotated[bool, typer.Option(help="write every message sent to frames.jsonl")] = False,
    drain: Annotated[str, typer.Option(help="time for the last PUBACKs")] = "15s",
    json: Annotated[bool, typer.Option("--json", help="the summary as JSON on stdout")] = False,
) -> None:
    """Send recorded drives through MQTT, as if the vehicles were on the road.

    Rows become frames of up to 10 samples, 1 s apart; a gap begins a new frame. Bad rows and values are
    counted and named. With --start kept, sending a drive again repeats its identities: duplicates.

    Exit codes: 0 all was acknowledged; 1 broker away or frames without PUBACK; 2 wrong option or
    a file that cannot be used (nothing is sent then).
    """
    from edge_simulator import replay as convoys
    from edge_simulator.console import now_ms, say, show
    from edge_simulator.publisher import Publisher
    from edge_simulator.run import Plan
    from edge_simulator.runfiles import RunFiles
    from edge_simulator.scenario import duration_ms
    from edge_simulator.stopping import StopFlag
    from infra.contract import settings
    from infra.contract.errors import ConfigError

    if start not in ("now", "kept"):
        raise ConfigError(f"--start {start}: now or kept is wanted")
    in_force = settings.load()
    drain_s = duration_ms(drain, "--drain") / 1000
    convoy = convoys.convoy(drives, mapping, speed, "now" if start == "now" else "kept")
    address = settings.endpoints(in_force)
    name = run_id or f"replay-{now_ms()}"
    with (
        StopFlag(say) as stop,
        Publisher(address.mqtt_host, address.mqtt_port, [f"odograph-{name}"]) as publisher,
    ):
        publisher.connect(deadline_s=5.0)
        with RunFiles(in_force.paths.home, name, log_frames) as files:
            plan = Plan(name, in_force.mqtt.root, 20_000, drain_s)
            summary = convoys.run(plan, convoy, publisher, files, say, stop)
    show(summary, json)
    if not summary["finished"]:
        raise typer.Exit(1)


def roads(
    seed: Annotated[int, typer.Option(min=0, help="seed of the city")] = 1,
    lat: Annotated[float, typer.Option(help="latitude of the centre, deg")] = 48.137,
    lon: Annotated[float, typer.Option(help="longitude of the centre, deg")] = 11.575,
) -> None:
    """Print the simulated city's road edges, one JSON object a line."""
    import orjson

    from edge_simulator.roads import city

    names = ("edge_id", "road_class", "speed_limit_kmh", "length_m", "path")
    for row in city(seed, lat, lon).edges():
        sys.stdout.write(orjson.dumps(dict(zip(names, row, strict=True))).decode() + "\n")
