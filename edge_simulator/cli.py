"""The commands ``odograph simulate`` and ``odograph roads``; those of recorded drives are in drives_cli."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edge_simulator import drives_cli

if TYPE_CHECKING:
    from edge_simulator.publisher import Message
    from edge_simulator.world import World


def register(app: typer.Typer) -> None:
    """Add the simulator's commands."""
    app.command("simulate")(simulate)
    drives_cli.register(app)
    app.command("roads", hidden=True)(roads)


def simulate(
    vehicles: Annotated[int, typer.Option("-c", "--vehicles", help="vehicles")] = 100,
    rate: Annotated[
        float | None, typer.Option(help="frames/s of the whole fleet (or give --interval)")
    ] = None,
    interval: Annotated[
        str | None,
        typer.Option("-I", "--interval", help="time between two frames of a vehicle, as 500ms, 1s [1s]"),
    ] = None,
    duration: Annotated[str | None, typer.Option(help="how long, as 90s, 5m; none: until Ctrl-C")] = None,
    limit: Annotated[
        int | None, typer.Option("-L", "--limit", min=1, help="stop after so many frames")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="same seed, same bytes (with the same --start-ms)")] = 1,
    start_ms: Annotated[
        int | None, typer.Option(help="first sample's time, ms since 1970 [one frame before now]")
    ] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=COUNT or NAME=SHARE: overheating, slow_leak, rapid_leak, weak_battery, crash, pothole"
        ),
    ] = None,
    late: Annotated[float, typer.Option(help="share held back, within the lateness bound")] = 0.0,
    late_beyond: Annotated[float, typer.Option(help="share held back beyond the bound")] = 0.0,
    duplicate: Annotated[float, typer.Option(help="share sent twice")] = 0.0,
    disorder: Annotated[float, typer.Option(help="share overtaken by the vehicle's next frame")] = 0.0,
    lost: Annotated[float, typer.Option(help="share never sent")] = 0.0,
    clock_ahead: Annotated[float, typer.Option(help="share stamped in 2036")] = 0.0,
    clock_unset: Annotated[float, typer.Option(help="share stamped in 1970")] = 0.0,
    poison: Annotated[float, typer.Option(help="bad messages added, as a share of frames")] = 0.0,
    connections: Annotated[
        str, typer.Option(help="MQTT connections, a number or per-vehicle (then each has its last will)")
    ] = "1",
    max_in_flight: Annotated[int, typer.Option(min=1, help="messages without PUBACK, at most")] = 20_000,
    lat: Annotated[float, typer.Option(help="latitude of the city's centre, deg")] = 48.137,
    lon: Annotated[float, typer.Option(help="longitude of the city's centre, deg")] = 11.575,
    run_id: Annotated[str | None, typer.Option(help="name of the run's folder [sim-<time>-<seed>]")] = None,
    log_frames: Annotated[bool, typer.Option(help="write every message sent to frames.jsonl")] = False,
    drain: Annotated[str, typer.Option(help="time for the last PUBACKs")] = "15s",
    json: Annotated[bool, typer.Option("--json", help="the summary as JSON on stdout")] = False,
) -> None:
    """Drive a fleet through a made-up city and publish what it measures, QoS 1, every PUBACK awaited.

    Each frame holds 10 samples; with --interval 1s they are 100 ms apart. --rate and --vehicles together give
    the interval vehicles/rate, and the samples spread over it (over its last 10 s at most).

    A line a second on stderr; the summary on stdout. Ctrl-C finishes what is in flight first.

    Exit codes: 0 all was acknowledged; 1 broker away or messages without PUBACK; 2 wrong option.
    """
    from edge_simulator import faults, scenario
    from edge_simulator.world import World
    from infra.contract import settings

    in_force = settings.load()
    shares = scenario.LinkShares(
        late, late_beyond, duplicate, disorder, lost, clock_ahead, clock_unset, poison
    )
    beat = scenario.cadence(
        vehicles, rate, scenario.duration_ms(interval, "--interval") if interval else None
    )
    frames = None
    if duration is not None:
        frames = max(1, scenario.duration_ms(duration, "--duration") // beat.interval_ms)
    wanted = scenario.Scenario(
        seed=seed, vehicles=vehicles, cadence=beat, frames_per_vehicle=frames, limit=limit, lat_deg=lat,
        lon_deg=lon, lateness_ms=1000 * in_force.jobs.lateness_s, link=shares,
        start_ms=start_ms if start_ms is not None else _now_ms() - scenario.SAMPLES * beat.dt_ms,
        faults=tuple(faults.parse(text) for text in fault or ()),
    )  # fmt: skip
    drain_s = scenario.duration_ms(drain, "--drain") / 1000
    name = run_id or f"sim-{_now_ms()}-{seed}"
    clients = _connection_names(connections, vehicles, name)
    _simulate(
        in_force, wanted, World, name, clients, (max_in_flight, drain_s, log_frames, json), start_ms is None
    )


def _simulate(
    in_force: Any, wanted: Any, make_world: Callable[[Any], World], name: str, clients: list[str],
    how: tuple[int, float, bool, bool], live: bool,
) -> None:  # fmt: skip
    """Build the world, connect, run, print."""

    from edge_simulator.publisher import Publisher
    from edge_simulator.run import Plan, Run
    from edge_simulator.runfiles import RunFiles
    from edge_simulator.scenario import SAMPLES
    from edge_simulator.stopping import StopFlag
    from infra.contract import settings

    max_in_flight, drain_s, log_frames, as_json = how
    address = settings.endpoints(in_force)
    world = make_world(wanted)
    world.warm_up()
    if live:
        world.begin_at(_now_ms() - SAMPLES * wanted.cadence.dt_ms)
    plan = Plan(name, in_force.mqtt.root, max_in_flight, drain_s)
    wills = _wills(world, in_force.mqtt.root) if len(clients) == wanted.vehicles > 1 else {}
    with (
        StopFlag(_say) as stop,
        Publisher(address.mqtt_host, address.mqtt_port, clients, wills) as publisher,
    ):
        publisher.connect(deadline_s=5.0 + 0.01 * len(clients))
        with RunFiles(in_force.paths.home, name, log_frames) as files:
            summary = Run(plan, world, publisher, files, _say).go(stop)
    _print(summary, as_json)
    if not summary["finished"]:
        owed = summary["messages"]["owed"]
        _say(f"{owed} messages were not acknowledged within {drain_s:g} s")
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


def _connection_names(text: str, vehicles: int, name: str) -> list[str]:
    from infra.contract.errors import ConfigError

    if text == "per-vehicle":
        count = vehicles
    elif text.isdecimal() and int(text) >= 1:
        count = min(int(text), vehicles)
    else:
        raise ConfigError(f"--connections {text}: a number from 1 on, or per-vehicle, is wanted")
    return [f"odograph-{name}-{k}" for k in range(count)]


def _wills(world: World, root: str) -> dict[int, Message]:
    from edge_simulator.publisher import Message
    from infra.contract.topics import mqtt_topic

    lasts = world.farewells(world.scenario.start_ms)
    return {
        item.vehicle: Message(mqtt_topic(root, world.vehicle_ids[item.vehicle], "status"), item.payload)
        for item in lasts
    }


def _now_ms() -> int:
    import time

    return time.time_ns() // 1_000_000


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _print(summary: dict[str, Any], as_json: bool) -> None:
    import orjson

    if as_json:
        sys.stdout.write(orjson.dumps(summary).decode() + "\n")
        return
    for key, value in summary.items():
        sys.stdout.write(f"{key}  {value}\n")
