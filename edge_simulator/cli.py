"""The commands ``odograph simulate``, ``scenarios``, ``drives``, ``edr`` and the hidden ``roads``."""

import sys
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer
from typer import Argument, Option

from infra.contract.errors import ConfigError
from infra.settings import settings
from infra.settings.values import duration_ms

scenarios = typer.Typer(no_args_is_help=True, help="Ready scenarios for odograph simulate --scenario.")
drives = typer.Typer(no_args_is_help=True, help="Look into recorded drives without sending anything.")
edr = typer.Typer(no_args_is_help=True, help="Event data recorders: what triggers them, and their records.")

Text = str | None
Texts = list[str] | None
Into = Literal["archive", "mqtt"]
Client = Literal["auto", "paho", "lean"]
Profile = Literal["steady", "day"]
Sensors = Literal["fine", "obd"]
EdrProfile = Literal["us563_2006", "us563_2024"]
LAST_MS: Final = 253_370_764_800_000  # the year 9999 begins


def _share(meaning: str) -> Any:
    """An option of the radio link, from 0 to 1."""
    return Option(min=0, max=1, help=meaning, rich_help_panel="Link, as shares of frames")


def register(app: typer.Typer) -> None:
    """Add the simulator's commands."""
    app.command("simulate")(simulate)
    app.add_typer(scenarios, name="scenarios")
    app.add_typer(drives, name="drives")
    app.add_typer(edr, name="edr")
    app.command("roads", hidden=True)(roads)


def simulate(
    scenario: Annotated[Text, Option(help="a ready scenario or a YAML file; options win over it")] = None,
    vehicles: Annotated[int | None, Option("-c", "--vehicles", help="vehicles", show_default="100")] = None,
    rate: Annotated[float | None, Option(help="frames/s of the whole fleet (or --interval)")] = None,
    interval: Annotated[
        Text, Option("-I", "--interval", help="from frame to frame, as 500ms", show_default="1s")
    ] = None,
    duration: Annotated[Text, Option(help="how long, as 90s, 5m; none: until Ctrl-C")] = None,
    limit: Annotated[int | None, Option("-L", "--limit", help="stop after so many frames")] = None,
    seed: Annotated[
        int | None, Option(help="same seed, same bytes (with the same start)", show_default="1")
    ] = None,
    start_ms: Annotated[
        int | None,
        Option(min=0, max=LAST_MS, help="first sample, ms since 1970", show_default="one frame before now"),
    ] = None,
    day: Annotated[Text, Option(help="this whole day, as 2026-11-20, faster than real time")] = None,
    into: Annotated[Into, Option(help="where a --day goes: archive files, or the broker")] = "archive",
    profile: Annotated[
        Profile | None, Option(help="day: commuters, nights; else all drive", show_default="steady")
    ] = None,
    begins: Annotated[
        Text, Option(help="local time of day at the start, as 07:30", show_default="now")
    ] = None,
    sensors: Annotated[
        Sensors | None, Option(help="obd: whole degC, km/h, 0.1 V ...", show_default="fine")
    ] = None,
    fault: Annotated[
        Texts, Option(help="NAME=COUNT, =SHARE or @RATE; may be repeated; see odograph scenarios faults")
    ] = None,
    edr_profile: Annotated[
        EdrProfile | None, Option(help="what crash records hold", show_default="us563_2024")
    ] = None,
    crash_pulse: Annotated[
        bool | None, Option("--crash-pulse", help="raw accelerations in crash records")
    ] = None,
    crash_chunk_bytes: Annotated[
        int | None,
        Option(help="larger crash records go in parts, bytes", show_default="mqtt.crash_chunk_bytes"),
    ] = None,
    set_: Annotated[
        Texts, Option("--set", help="any key of a scenario file: link.outage_share=0.3; may be repeated")
    ] = None,
    roads: Annotated[bool, Option("--roads", help="put its roads into the database, for the map")] = False,
    late: Annotated[float | None, _share("delayed, but no longer than jobs.lateness_s")] = None,
    late_beyond: Annotated[float | None, _share("delayed for longer than jobs.lateness_s")] = None,
    duplicate: Annotated[float | None, _share("sent twice, the same bytes")] = None,
    disorder: Annotated[float | None, _share("sent after their successor")] = None,
    lost: Annotated[float | None, _share("never sent")] = None,
    clock_ahead: Annotated[float | None, _share("stamped in 2036")] = None,
    clock_unset: Annotated[float | None, _share("stamped in 1970")] = None,
    poison: Annotated[float | None, _share("messages besides that break the contract")] = None,
    connections: Annotated[str, Option(help="MQTT: a number, or per-vehicle (each has its last will)")] = "1",
    processes: Annotated[int, Option(min=1, help="split the fleet, a world each on the same map")] = 1,
    client: Annotated[Client, Option(help="lean for load, paho; auto: paho for one vehicle")] = "auto",
    react: Annotated[bool, Option(help="live: vehicles hear alerts, limp home on a critical one")] = True,
    max_in_flight: Annotated[int, Option(min=1, help="messages without PUBACK, at most")] = 20_000,
    lat: Annotated[
        float | None, Option(help="latitude of the city's centre, deg", show_default="48.137")
    ] = None,
    lon: Annotated[
        float | None, Option(help="longitude of the city's centre, deg", show_default="11.575")
    ] = None,
    run_id: Annotated[Text, Option(help="name of the run's folder", show_default="sim-<time>-<seed>")] = None,
    log_frames: Annotated[bool, Option(help="write every message sent to frames.jsonl")] = False,
    keep_sent: Annotated[Text, Option(help="keep frames this long after PUBACK; resend after a loss")] = None,
    drain: Annotated[str, Option(help="time for the last PUBACKs")] = "15s",
    json: Annotated[bool, Option("--json", help="the summary as JSON on stdout")] = False,
) -> None:
    """Drive a fleet through a made-up city and publish what it measures, QoS 1, every PUBACK awaited.

    Each frame holds 10 samples; with --interval 1s they are 100 ms apart. --rate and --vehicles together give
    the interval vehicles/rate, and the samples spread over it (over its last 10 s at most).

    A line a second on stderr, every ten where that is no terminal; the summary on stdout. Ctrl-C finishes
    what is in flight first.

    Exit codes: 0 all was acknowledged; 1 broker away or messages without PUBACK; 2 wrong option.
    """
    from edge_simulator.console import now_ms, say, show
    from edge_simulator.day import make
    from edge_simulator.scenario import over, read, settings_of
    from edge_simulator.sending import fleet_processes
    from edge_simulator.sending.run import RunOptions, connection_names, publish
    from edge_simulator.town.roads import region, towns
    from infra.sql import queries

    if day is not None and (begins is not None or start_ms is not None):
        raise ConfigError("--day is a whole local day: neither --begins nor --start-ms goes with it")
    in_force = settings.load()
    link = {
        "late": late, "late_beyond": late_beyond, "duplicate": duplicate, "disorder": disorder, "lost": lost,
        "clock_ahead": clock_ahead, "clock_unset": clock_unset, "poison": poison,
    }  # fmt: skip
    options = {
        "vehicles": vehicles, "rate": rate, "interval": interval, "duration": duration, "limit": limit,
        "seed": seed, "profile": profile, "sensors": sensors, "faults": tuple(fault or ()), "link": link,
        "place": {"lat": lat, "lon": lon}, "clock": {"begins": begins},
        "recorders": {"profile": edr_profile, "keep_pulse": crash_pulse, "chunk_bytes": crash_chunk_bytes},
    }  # fmt: skip
    options = over(settings_of(set_ or ()), options)
    wanted = read(scenario, in_force, options, start_ms, day)
    name = run_id or (f"day-{day}-{wanted.seed}" if day else f"sim-{now_ms()}-{wanted.seed}")
    if roads:
        net = region(wanted.seed, wanted.lat_deg, wanted.lon_deg, towns(wanted.profile, wanted.vehicles))
        url = settings.endpoints(in_force, ("db_ingest_url",)).db_ingest_url
        say(f"map: {queries.store_roads(url, f'city-{wanted.seed}', net.edges())} road edges")
    if day is not None and into == "archive":
        show(make(wanted, in_force, name, say), json)
        return
    run_options = RunOptions(
        name, in_force.mqtt.root, max_in_flight, duration_ms(drain, "--drain") / 1000, paced=day is None,
        clients=connection_names(connections, wanted.vehicles, name), client=client,
        log_frames=log_frames, live=start_ms is None and day is None, react=react,
        keep_s=duration_ms(keep_sent, "--keep-sent") / 1000 if keep_sent else 0.0,
    )  # fmt: skip
    if processes == 1:
        summary = publish(in_force, wanted, run_options)
    else:
        summary = fleet_processes.run(in_force, wanted, run_options, processes, connections)
    show(summary, json)
    if not summary["finished"]:
        say(f"{summary['messages']['owed']} messages were not acknowledged within {drain}")
        raise typer.Exit(1)


@scenarios.command("list")
def list_scenarios() -> None:
    """Names and titles of the ready scenarios."""
    from edge_simulator import scenario

    for name in scenario.ready():
        sys.stdout.write(f"{name:16} {scenario.load(name, {}).title}\n")


@scenarios.command("show")
def show_scenario(name: Annotated[str, Argument(help="a ready scenario")]) -> None:
    """Print a ready scenario: a start for one of your own."""
    from edge_simulator import scenario

    path = scenario.ready().get(name)
    if path is None:
        raise ConfigError(f"{name}: no such scenario; there are {', '.join(scenario.ready())}")
    sys.stdout.write(path.read_text())


@scenarios.command("faults")
def list_faults() -> None:
    """Kinds of faults for --fault: who can have each, what changes, which rule should find it."""
    from edge_simulator.faults.kinds import markdown_table

    sys.stdout.write(markdown_table() + "\n")


@scenarios.command("check")
def check_scenario(file: Annotated[str, Argument(help="a ready scenario or a YAML file")]) -> None:
    """Check a scenario whole and say what it comes to. Exit 2 with the first thing that is wrong."""
    from edge_simulator import scenario

    found = scenario.read(file, settings.load(), {})
    length = "until stopped" if found.frames_per_vehicle is None else f"{found.span_ms / 1000:g} s"
    every = f"every {found.cadence.interval_ms} ms, {found.full_rate:g} frames/s"
    sys.stdout.write(f"{found.vehicles} vehicles, {every}, {length}\n")


@drives.command("check")
def check_drives(
    folder: Annotated[Path, Argument(help="folder of recorded drives (.csv)")],
    mapping: Annotated[
        Path | None, Option(help="what columns mean", show_default="mapping.yaml, else RSK Twizy")
    ] = None,
    json: Annotated[bool, Option("--json", help="the report as JSON on stdout")] = False,
) -> None:
    """Read recorded drives and say what is in them and what is wrong with them; nothing is sent.

    Exit codes: 0 every file can be used; 1 one cannot; 2 no folder, no file, or a wrong mapping.
    """
    import orjson

    from edge_simulator.recordings import checks
    from edge_simulator.recordings.drives import look_into

    meaning, files = look_into(folder, mapping)
    reports = [checks.report(file, meaning) for file in files]
    lines = (line for one in reports for line in checks.lines(one))
    sys.stdout.write((orjson.dumps(reports).decode() if json else "\n".join(lines)) + "\n")
    if any(report.error for report in reports):
        raise typer.Exit(1)


@edr.command()
def resend(
    run: Annotated[str, Argument(help="a run's id or folder")],
    drain: Annotated[str, Option(help="time for the PUBACKs")] = "15s",
) -> None:
    """Offer the crash records of a run again that the broker has not acknowledged.

    Their identities are those of the first time: what arrived already is a duplicate, and harmless.

    Exit codes: 0 all was acknowledged; 1 broker away or records without PUBACK; 2 no such run.
    """
    from edge_simulator.console import now_ms
    from edge_simulator.edr import crash_store
    from edge_simulator.sending.paho_publisher import PahoPublisher
    from infra.stack.access import devices

    in_force = settings.load()
    drain_s = duration_ms(drain, "--drain") / 1000
    kept = crash_store.unacked([crash_store.folder_of(in_force.paths.home, run)])
    acked = 0
    if kept:
        address = settings.endpoints(in_force, ("mqtt_host",))
        name = f"resend-{now_ms()}"
        own = devices.gateway(in_force, address, name, [*map(crash_store.vehicle_of, kept)])
        with PahoPublisher(address.brokers, [f"odograph-{name}"], own=own) as publisher:
            publisher.connect(deadline_s=5.0)
            crash_store.resend(publisher, in_force.mqtt.root, kept)
            publisher.drain(drain_s)
            crash_store.note_acked(publisher.counts.acked_marks)
            acked = len(publisher.counts.acked_marks)
    sys.stdout.write(f"offered {len(kept)}  acknowledged {acked}\n")
    if acked < len(kept):
        raise typer.Exit(1)


def roads(
    seed: Annotated[int, Option(min=0, help="seed of the city")] = 1,
    lat: Annotated[float, Option(help="latitude of the centre, deg")] = 48.137,
    lon: Annotated[float, Option(help="longitude of the centre, deg")] = 11.575,
) -> None:
    """Print the simulated city's road edges, one JSON object a line."""
    import orjson

    from edge_simulator.town.roads import city

    names = ("edge_id", "road_class", "speed_limit_kmh", "length_m", "path")
    for row in city(seed, lat, lon).edges():
        sys.stdout.write(orjson.dumps(dict(zip(names, row, strict=True))).decode() + "\n")
