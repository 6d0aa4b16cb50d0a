"""The commands of the local stack: setup, up, down, status, doctor, config."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from infra.stack.identity import Issued
    from infra.stack.stack import Stack

device = typer.Typer(name="device", help="Certificates of vehicles and gateways.", no_args_is_help=True)
Json = Annotated[bool, typer.Option("--json", help="for machines: JSON on standard output")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (setup, up, install, down, status, doctor, config, bom, watch):
        app.command()(command)
    app.command(hidden=True)(run)
    app.add_typer(device)


def setup(
    browser: Annotated[bool, typer.Option("--browser", help="Chromium too, for the browser tests")] = False,
) -> None:
    """Fetch what the local stack runs on (about 0.6 GB, once a user): jars, PostgreSQL, Mosquitto, Java."""
    from infra.stack import fetch

    stack = _stack()
    fetch.fetch_all(stack.settings.paths.cache, stack.embedded)
    if browser:
        fetch.ensure_chromium()
    fetch.say(f"all there: {stack.settings.paths.cache}")


def up(
    secure: Annotated[bool, typer.Option("--secure", help="certificates and logins, from now on")] = False,
    services_only: Annotated[bool, typer.Option(help="only MQTT, Kafka and the database")] = False,
    wait_s: Annotated[float, typer.Option(min=0, help="wait at most this long for readiness, s")] = 120.0,
) -> None:
    """Start the local stack in the background: services, then bridge, jobs and dashboard. Twice is fine."""
    from infra.stack import fetch, supervisor
    from infra.stack.probes import page

    stack = _stack(secure)
    fetch.fetch_all(stack.settings.paths.cache, stack.embedded)
    addresses = stack.up()
    if services_only:
        return
    with stack.lock():
        begun = supervisor.start_in_background(stack.home)
    _say("supervisor: started" if begun else "supervisor: runs already")
    late = supervisor.wait_ready(addresses.pages, wait_s, _say)
    typer.echo(page(addresses.pages["dashboard"])[0])
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
    at the broker or was dropped there. Then tables with how long they are kept, and folders.
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


Name = Annotated[str, typer.Argument(help="a vehicle's id, or gateway-...")]
Days = Annotated[float, typer.Option(help="how long it is valid")]
Request = Annotated[Path | None, typer.Option(exists=True, help="the device's own certificate request (PEM)")]


@device.command()
def enrol(
    name: Name, days: Days = 365, request: Request = None,
    vehicle: Annotated[list[str] | None, typer.Option(help="of a gateway: whom it speaks for")] = None,
) -> None:  # fmt: skip
    """Give a device its first certificate; prints where certificate, key and our authority lie."""
    from infra.stack import devices

    asked = None if request is None else request.read_bytes()
    typer.echo(_files(devices.enrol(stack := _stack(), name, days, vehicle or (), asked), stack))


@device.command()
def rotate(name: Name, days: Days = 365, request: Request = None) -> None:
    """Give a device a further certificate. The old ones stay valid: revoke them once it has the new one."""
    from infra.stack import devices

    asked = None if request is None else request.read_bytes()
    typer.echo(_files(devices.rotate(stack := _stack(), name, days, asked), stack))


@device.command()
def revoke(name: Name, serial: Annotated[str, typer.Option(help="this certificate only")] = "") -> None:
    """Revoke a device's certificates, for ever. It is not let in, and may do nothing where it is in."""
    from infra.stack import devices

    for one in devices.revoke(_stack(), name, serial):
        _say(f"revoked: {one.name} {one.fingerprint}")


@device.command("list")
def list_devices(as_json: Json = False) -> None:
    """List certificates with their state: valid, expires soon (30 days), expired, revoked."""
    import datetime as dt

    from infra.clients.tables import aligned
    from infra.stack import devices

    now = dt.datetime.now(dt.UTC)
    found = [(o.name, o.state(now), o.ends, o.fingerprint) for o in devices.authority(_stack()).issued()]
    heads = ("device", "state", "until", "serial")
    if as_json:
        import orjson

        typer.echo(orjson.dumps([dict(zip(heads, row, strict=True)) for row in found]).decode())
    else:
        typer.echo(aligned(found, heads))


def _files(made: Issued, stack: Stack) -> str:
    from infra.stack.identity import FOLDER, SERVICES

    key = str(made.key) if made.key.exists() else "the device's own"
    authority = stack.home / FOLDER / SERVICES / "ca.pem"
    return f"certificate {made.certificate}\nkey {key}\nbroker's authority {authority}"


def config(as_json: Json = False) -> None:
    """Show every setting in force, where it comes from and what it means; secrets masked."""
    from infra.settings.settings import load
    from infra.stack.report import report, settings_in_force

    sys.stdout.write(report(settings_in_force(load()), as_json))


def bom() -> None:
    """Print the bill of materials of this installation: CycloneDX 1.6, JSON."""
    import json

    from infra.settings.settings import load
    from infra.stack.bom import bill

    typer.echo(json.dumps(bill(load().paths.cache), indent=1))


def run() -> None:
    """Keep the processes of the pipeline running, in the foreground (what `up` starts in the background)."""
    import structlog

    from infra.clients import log
    from infra.stack import supervisor

    log.configure("supervisor")
    stack = _stack()
    supervisor.supervise(stack.home, stack.settings.bridge.shards, structlog.get_logger().info)


def watch() -> None:
    """Measure every part each few seconds, for the page Operations, until stopped (`up` starts it)."""
    from infra.clients import log
    from infra.settings.settings import load
    from infra.stack.watch import process

    log.configure(process.NAME)
    process.run(load())


def _stack(secure: bool = False) -> Stack:
    from infra.settings.settings import load
    from infra.stack.stack import Stack

    return Stack(load(secure=True) if secure else load(), _say)


def _say(text: str) -> None:
    typer.echo(text, err=True)
