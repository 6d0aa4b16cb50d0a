"""The command ``odograph simulate``: options over a scenario, then one run."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

Share = Annotated[float | None, typer.Option(min=0, max=1, rich_help_panel="Link, as shares of frames")]


def simulate(
    scenario: Annotated[
        str | None, typer.Option("--scenario", help="a ready scenario or a YAML file; options win over it")
    ] = None,
    vehicles: Annotated[int | None, typer.Option("-c", "--vehicles", help="vehicles [100]")] = None,
    rate: Annotated[
        float | None, typer.Option(help="frames/s of the whole fleet (or give --interval)")
    ] = None,
    interval: Annotated[
        str | None,
        typer.Option("-I", "--interval", help="time between two frames of a vehicle, as 500ms, 1s [1s]"),
    ] = None,
    duration: Annotated[str | None, typer.Option(help="how long, as 90s, 5m; none: until Ctrl-C")] = None,
    limit: Annotated[int | None, typer.Option("-L", "--limit", help="stop after so many frames")] = None,
    seed: Annotated[int | None, typer.Option(help="same seed, same bytes (with the same start) [1]")] = None,
    start_ms: Annotated[
        int | None, typer.Option(help="first sample's time, ms since 1970 [one frame before now]")
    ] = None,
    day: Annotated[
        str | None,
        typer.Option(help="make this whole day, as 2026-11-20, faster than real time; see --into"),
    ] = None,
    into: Annotated[
        Literal["archive", "mqtt"], typer.Option(help="where a --day goes: archive files, or the broker")
    ] = "archive",
    profile: Annotated[
        Literal["steady", "day"] | None,
        typer.Option(help="steady: everybody drives; day: commuters, rounds, nights [steady]"),
    ] = None,
    begins: Annotated[
        str | None, typer.Option(help="local time of the simulated day at the start, as 07:30 [now]")
    ] = None,
    fault: Annotated[
        list[str] | None, typer.Option(help="NAME=COUNT, =SHARE or @RATE; see odograph scenarios faults")
    ] = None,
    edr_profile: Annotated[
        Literal["us563_2006", "us563_2024"] | None, typer.Option(help="what recorders hold [us563_2024]")
    ] = None,
    crash_pulse: Annotated[
        bool | None, typer.Option("--crash-pulse", help="put raw accelerations into crash records")
    ] = None,
    crash_chunk_bytes: Annotated[
        int | None, typer.Option(help="send larger crash records in parts [mqtt.crash_chunk_bytes]")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="any key of a scenario file: link.outage_share=0.3, ambient_c=-8"),
    ] = None,
    roads: Annotated[
        bool,
        typer.Option("--roads", help="put the roads of its towns into the database: map, speeds by road"),
    ] = False,
    late: Share = None,
    late_beyond: Share = None,
    duplicate: Share = None,
    disorder: Share = None,
    lost: Share = None,
    clock_ahead: Share = None,
    clock_unset: Share = None,
    poison: Share = None,
    connections: Annotated[
        str, typer.Option(help="MQTT connections, a number or per-vehicle (then each has its last will)")
    ] = "1",
    processes: Annotated[
        int, typer.Option(min=1, help="split the fleet over so many processes, a world each on the same map")
    ] = 1,
    client: Annotated[
        Literal["auto", "paho", "lean"],
        typer.Option(help="MQTT client: lean for load, paho the reference; auto: paho for a single vehicle"),
    ] = "auto",
    react: Annotated[
        bool, typer.Option(help="live runs: vehicles hear alerts and limp home on a critical one")
    ] = True,
    max_in_flight: Annotated[int, typer.Option(min=1, help="messages without PUBACK, at most")] = 20_000,
    lat: Annotated[float | None, typer.Option(help="latitude of the city's centre, deg [48.137]")] = None,
    lon: Annotated[float | None, typer.Option(help="longitude of the city's centre, deg [11.575]")] = None,
    run_id: Annotated[str | None, typer.Option(help="name of the run's folder [sim-<time>-<seed>]")] = None,
    log_frames: Annotated[bool, typer.Option(help="write every message sent to frames.jsonl")] = False,
    keep_sent: Annotated[
        str | None, typer.Option(help="keep frames so long after their PUBACK, and resend them after a loss")
    ] = None,
    drain: Annotated[str, typer.Option(help="time for the last PUBACKs")] = "15s",
    json: Annotated[bool, typer.Option("--json", help="the summary as JSON on stdout")] = False,
) -> None:
    """Drive a fleet through a made-up city and publish what it measures, QoS 1, every PUBACK awaited.

    Each frame holds 10 samples; with --interval 1s they are 100 ms apart. --rate and --vehicles together give
    the interval vehicles/rate, and the samples spread over it (over its last 10 s at most).

    A line a second on stderr; the summary on stdout. Ctrl-C finishes what is in flight first.

    Exit codes: 0 all was acknowledged; 1 broker away or messages without PUBACK; 2 wrong option.
    """
    from edge_simulator import launch, scenario_file, setting_out
    from edge_simulator.console import now_ms, say, show
    from edge_simulator.day import make
    from edge_simulator.sending import fleet_processes
    from edge_simulator.town.stored import store_roads
    from infra.contract.errors import ConfigError
    from infra.settings import settings
    from infra.settings.values import duration_ms

    if day is not None and (begins is not None or start_ms is not None):
        raise ConfigError(
            "--day is a whole local day from midnight: neither --begins nor --start-ms goes with it"
        )
    in_force = settings.load()
    link = {
        "late": late, "late_beyond": late_beyond, "duplicate": duplicate, "disorder": disorder, "lost": lost,
        "clock_ahead": clock_ahead, "clock_unset": clock_unset, "poison": poison,
    }  # fmt: skip
    options = {
        "vehicles": vehicles, "rate": rate, "interval": interval, "duration": duration, "limit": limit,
        "seed": seed, "profile": profile, "faults": tuple(fault or ()), "link": link,
        "place": {"lat": lat, "lon": lon}, "clock": {"begins": begins},
        "recorders": {
            "profile": edr_profile, "keep_pulse": crash_pulse, "chunk_bytes": crash_chunk_bytes,
        },
    }  # fmt: skip
    options = scenario_file.over(scenario_file.settings_of(set_ or ()), options)
    wanted = setting_out.read(scenario, in_force, options, start_ms, day)
    name = run_id or (f"day-{day}-{wanted.seed}" if day else f"sim-{now_ms()}-{wanted.seed}")
    if roads:
        place, url = (wanted.lat_deg, wanted.lon_deg), settings.endpoints(in_force).db_ingest_url
        say(f"map: {store_roads(url, wanted.seed, place, wanted.profile, wanted.vehicles)} road edges")
    if day is not None and into == "archive":
        show(make(wanted, in_force, name, say), json)
        return
    manner = launch.Manner(
        name, launch.connection_names(connections, wanted.vehicles, name), max_in_flight,
        duration_ms(drain, "--drain") / 1000, log_frames, paced=day is None,
        live=start_ms is None and day is None, client=client, react=react,
        keep_s=duration_ms(keep_sent, "--keep-sent") / 1000 if keep_sent else 0.0,
    )  # fmt: skip
    if processes == 1:
        summary = launch.publish(in_force, wanted, manner)
    else:
        summary = fleet_processes.run(in_force, wanted, manner, processes, connections)
    show(summary, json)
    if not summary["finished"]:
        say(f"{summary['messages']['owed']} messages were not acknowledged within {drain}")
        raise typer.Exit(1)
