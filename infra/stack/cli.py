"""The commands of the local stack: setup, up, down, status, doctor, config."""

import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from infra.clients import log
from infra.clients.tables import aligned
from infra.settings.settings import endpoints, load, report, settings_in_force

if TYPE_CHECKING:
    from infra.stack.access.identity import Issued
    from infra.stack.stack import Stack

device = typer.Typer(name="device", help="Certificates of vehicles and gateways.", no_args_is_help=True)
cluster = typer.Typer(
    no_args_is_help=True, help="Several of each server on this machine, as on hosts of their own."
)
Json = Annotated[bool, typer.Option("--json", help="for machines: JSON on standard output")]
ServicesOnly = Annotated[bool, typer.Option(help="only MQTT, Kafka and the database")]
WaitS = Annotated[float, typer.Option(min=0, help="wait at most this long for readiness, s")]
CLUSTER: Final = {"kafka": 3, "mqtt": 2, "postgres": 2, "workers": 3, "hosts": 2}
BRIDGES: Final = 2


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (setup, up, install, down, status, doctor, failover, config, bom, watch):
        app.command()(command)
    for command in (run, proxy, mirror):
        app.command(hidden=True)(command)
    app.add_typer(device)
    for command in (status, down):
        cluster.command()(command)
    app.add_typer(cluster, name="cluster")


def setup(
    browser: Annotated[bool, typer.Option("--browser", help="Chromium too, for the browser tests")] = False,
) -> None:
    """Fetch what the local stack runs on (about 0.9 GB, once a user): jars, PostgreSQL, Mosquitto, Java."""
    from infra.stack.downloads import fetch

    stack = _stack()
    fetch.fetch_all(stack.settings.paths.cache, stack.kinds)
    if browser:
        fetch.ensure_chromium()
    fetch.say(f"all there: {stack.settings.paths.cache}")


def up(
    secure: Annotated[bool, typer.Option("--secure", help="certificates and logins, from now on")] = False,
    services_only: ServicesOnly = False,
    wait_s: WaitS = 120.0,
) -> None:
    """Start the local stack in the background: services, then bridge, jobs and dashboard.

    It prints the dashboard's address. A second call starts what is missing. Exit 1 if a program is not ready
    in time.
    """
    _begin(_stack(secure), services_only, wait_s)


@cluster.command("up")
def cluster_up(
    kafka: Annotated[
        int | None, typer.Option(help="Kafka brokers beside one controller; 0: one node", show_default="3")
    ] = None,
    mqtt: Annotated[int | None, typer.Option(help="MQTT brokers; 0: one", show_default="2")] = None,
    postgres: Annotated[
        int | None,
        typer.Option(help="2: a primary and a synchronous standby; 0: one server", show_default="2"),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Spark workers, with master and HDFS; 0: no Spark cluster", show_default="3"),
    ] = None,
    hosts: Annotated[
        int | None,
        typer.Option(help="hosts of programs; each beyond the first has standbys", show_default="2"),
    ] = None,
    bridges: Annotated[
        int | None, typer.Option(help="bridges that share the fleet's slots", show_default="2")
    ] = None,
    services_only: Annotated[bool, typer.Option(help="only the servers")] = False,
    wait_s: WaitS = 600.0,
) -> None:
    """Start a cluster on this machine in the background. Exit 1 if it is not ready in time.

    The first start fixes how many servers there are; later starts take the same numbers. Use a home of its
    own (ODOGRAPH_PATHS_HOME): one that has the data of `odograph up` is refused. A second call starts what
    is missing.
    """
    from infra.stack.hosts.cluster import ALONE
    from infra.stack.stack import Stack

    given = {"kafka": kafka, "mqtt": mqtt, "postgres": postgres, "workers": workers, "hosts": hosts}
    wanted: dict[str, object] = {name: count for name, count in given.items() if count is not None}
    found = load(cluster=wanted)
    if load().cluster == ALONE:
        found = load(cluster=CLUSTER | wanted, bridge={"shards": BRIDGES})
    if bridges is not None:
        found = load(cluster=found.cluster.model_dump(), bridge={"shards": bridges})
    _begin(Stack(found, _say), services_only, wait_s)


def _begin(stack: "Stack", services_only: bool, wait_s: float) -> None:
    from infra.stack import supervisor
    from infra.stack.downloads import fetch
    from infra.stack.probes import page

    fetch.fetch_all(stack.settings.paths.cache, stack.kinds)
    if services_only:  # nobody reads the broker's log, or puts it aside when it is full
        quiet = stack.settings.mqtt.model_copy(update={"log_refused": False})
        stack.settings = stack.settings.model_copy(update={"mqtt": quiet})
    stack.up()
    if services_only:
        return
    with stack.lock(), supervisor.alone(stack.home):
        begun = supervisor.start_in_background(stack.home)
    _say("supervisor: started" if begun else "supervisor: runs already")
    pages = stack.pages()
    late = supervisor.wait_ready(pages, wait_s, _say)
    if not stack.passive:
        typer.echo(page(pages.get("proxy", pages["dashboard"])))
    if late:
        raise typer.Exit(1)


def install() -> None:
    """Create topics, roles and tables in external services, once and after an upgrade; starts nothing."""
    _stack().install()
    _say("all there")


def down() -> None:
    """Stop everything that `up` started; the data stays."""
    from infra.stack import supervisor

    stack = _stack()
    with stack.lock():
        stopped = supervisor.stop_in_background(stack.home)
    stopped += stack.down()
    _say(f"stopped: {', '.join(stopped)}" if stopped else "nothing ran")


def status(as_json: Json = False) -> None:
    """Show each service and process: state, address, pid, uptime, memory; what lies in Kafka; lag and sizes.

    Lag in three ways: records in Kafka without result, event time behind now, event to view; and what waits
    at the broker or was dropped there. Then tables with how long they are kept, and folders. Exit 1 where
    a service or process is not as it should be.
    """
    from infra.stack import status

    stack = _stack()
    rows = status.parts(stack)
    sys.stdout.write(status.report(stack, rows, as_json))
    if any(row.trouble for row in rows):
        raise typer.Exit(1)


def doctor(as_json: Json = False) -> None:
    """Examine every part, name what is wrong and the next step. Exit 1 when anything is wrong."""
    from infra.stack import doctor as examination

    found = examination.examine(_stack())
    sys.stdout.write(examination.report(found, as_json))
    if not all(finding.fine for finding in found):
        raise typer.Exit(1)


def failover(
    to: Annotated[str, typer.Option(help="the region that acts from now on: this home's")] = "",
    follow: Annotated[
        bool, typer.Option("--follow", help="this region's log begins anew as the copy of the other one's")
    ] = False,
    catch_up_s: Annotated[
        float, typer.Option(min=0, help="wait this long for the copy, s, if the other region answers")
    ] = 30.0,
    services_only: ServicesOnly = False,
    wait_s: WaitS = 120.0,
) -> None:
    """Let this region act in the other one's place (--to, its name), or follow it again (--follow).

    The database must take writes: promote its standby first. What of the other region's log was not copied
    is named; its records come by themselves when that region's Kafka is back.
    """
    from infra.contract.errors import ConfigError
    from infra.stack.hosts import regions

    if bool(to) is follow:
        raise ConfigError("--to NAME or --follow: one of them")
    stack = _stack()
    if follow:
        regions.follow(stack.settings, catch_up_s, _say)
    else:
        regions.fail_over(stack.settings, to, catch_up_s, _say)
    _begin(_stack(), services_only, wait_s)


Name = Annotated[str, typer.Argument(help="a vehicle's id, or gateway-...")]
Days = Annotated[float, typer.Option(min=0, max=3650, help="how long it is valid")]
Request = Annotated[typer.FileBinaryRead | None, typer.Option(help="the device's own CSR (PEM)")]


@device.command()
def enrol(
    name: Name, days: Days = 365, request: Request = None,
    vehicle: Annotated[list[str] | None, typer.Option(help="of a gateway: whom it speaks for")] = None,
) -> None:  # fmt: skip
    """Give a device its first certificate; prints where certificate, key and our authority lie."""
    from infra.stack.access import devices

    asked = request.read() if request else None
    typer.echo(_files(devices.enrol(stack := _stack(), name, days, vehicle or (), asked), stack))


@device.command()
def rotate(name: Name, days: Days = 365, request: Request = None) -> None:
    """Give a device a further certificate. The old ones stay valid: revoke them once it has the new one."""
    from infra.stack.access import devices

    asked = request.read() if request else None
    typer.echo(_files(devices.rotate(stack := _stack(), name, days, asked), stack))


@device.command()
def revoke(name: Name, serial: Annotated[str, typer.Option(help="this certificate only")] = "") -> None:
    """Revoke a device's certificates, for ever. It is not let in, and may do nothing where it is in."""
    from infra.stack.access import devices

    for one in devices.revoke(_stack(), name, serial):
        _say(f"revoked: {one.name} {one.fingerprint}")


@device.command("list")
def list_devices(as_json: Json = False) -> None:
    """List certificates with their state: valid, expires soon (30 days), expired, revoked."""
    import datetime as dt

    import orjson

    from infra.stack.access import devices

    now = dt.datetime.now(dt.UTC)
    found = [(o.name, o.state(now), o.ends, o.fingerprint) for o in devices.authority(_stack()).issued()]
    heads = ("device", "state", "until", "serial")
    rows = [dict(zip(heads, row, strict=True)) for row in found]
    typer.echo(orjson.dumps(rows).decode() if as_json else aligned(found, heads))


def _files(made: "Issued", stack: "Stack") -> str:
    from infra.stack.access.identity import FOLDER, SERVICES

    key = str(made.key) if made.key.exists() else "the device's own"
    authority = stack.home / FOLDER / SERVICES / "ca.pem"
    return f"certificate {made.certificate}\nkey {key}\nbroker's authority {authority}"


def config(as_json: Json = False) -> None:
    """Show every setting in force, where it comes from and what it means; secrets masked."""
    sys.stdout.write(report(settings_in_force(load()), as_json))


def bom() -> None:
    """Print the bill of materials of this installation: CycloneDX 1.6, JSON."""
    import json

    from infra.stack.downloads.cache import bill

    typer.echo(json.dumps(bill(load().paths.cache), indent=1))


def run() -> None:
    """Keep the processes of the pipeline running, in the foreground (what `up` starts in the background)."""
    import os

    import structlog

    from infra.clients.health import stopped_by_signals
    from infra.stack import probes, status, supervisor

    os.umask(0o022)  # the group of the logs reads them, and does no more
    log.configure("supervisor")
    stack, say = _stack(), structlog.get_logger().info
    port = stack.ports()["jobs"]
    keeper = supervisor.Supervisor(
        stack.home, stack.programs(), say, services=stack.kept, respawn=stack.respawn,
        first=lambda program: "ODOGRAPH_PATHS_HOME" not in program.env,  # of another host: a standby
        due=lambda: probes.readyz(port) is None,
    )  # fmt: skip
    with status.sizes_kept(stack), stopped_by_signals() as stop, keeper:
        keeper.watch(stop)


def proxy() -> None:
    """Lead to the dashboards of all hosts under one address, until stopped (`cluster up` starts it)."""
    import asyncio

    from infra.stack.hosts.proxy import serve

    ports = endpoints(load(), ()).http_ports
    targets = [port for name, port in ports.items() if name.partition("-")[0] == "dashboard"]
    asyncio.run(serve(ports["proxy"], targets))


def mirror() -> None:
    """Copy the other region's log into this one's Kafka, while this region follows, until stopped."""
    from infra.stack.hosts import mirror

    log.configure(mirror.NAME)
    mirror.run(load())


def watch() -> None:
    """Measure every part each few seconds, for the page Operations, until stopped (`up` starts it)."""
    from infra.stack.watch import process

    log.configure(process.NAME)
    process.run(load())


def _stack(secure: bool = False) -> "Stack":
    from infra.stack.stack import Stack

    return Stack(load(secure=True) if secure else load(), _say)


def _say(text: str) -> None:
    typer.echo(text, err=True)
