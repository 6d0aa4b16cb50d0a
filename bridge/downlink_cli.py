"""The commands ``odograph downlink``, ``notify`` and ``undelivered``."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

Severity = Literal["WARNING", "MINOR", "MAJOR", "CRITICAL"]


def register(app: typer.Typer) -> None:
    """Add the downlink's commands."""
    app.command("downlink")(downlink)
    app.command("notify")(notify)
    app.command("undelivered")(undelivered)


def downlink() -> None:
    """Carry alerts from Kafka to the vehicles (MQTT) and to webhooks (HTTP), until Ctrl-C or SIGTERM.

    Each alert goes to <root>/<vehicle>/alert at QoS 1 and to every webhook of the file at least once; each
    destination has its own place in the log. The first start begins with what comes then.

    Settings: ODOGRAPH_DOWNLINK_WEBHOOKS (TOML file), ODOGRAPH_DOWNLINK_HTTP_PORT; see odograph config.

    Exit codes: 0 ended as asked; 2 a setting or the file of webhooks is wrong.
    """
    from bridge.downlink import service
    from infra.clients.log import configure
    from infra.settings import settings

    configure("downlink")
    in_force = settings.load()
    raise typer.Exit(service.run(in_force, settings.endpoints(in_force)))


def notify(
    text: Annotated[str, typer.Argument(help="what to say, at most 1000 characters")],
    severity: Annotated[Severity, typer.Option(help="how severe")] = "WARNING",
    vehicle: Annotated[
        list[str] | None, typer.Option(help="VIN, may be given again; none: all vehicles")
    ] = None,
    valid: Annotated[
        str, typer.Option(help="so long the broker holds it for vehicles that are away, as 15m")
    ] = "15m",
    keep: Annotated[
        bool, typer.Option("--keep", help="also for vehicles that come within that time (retained)")
    ] = False,
) -> None:
    """Publish a notice to all vehicles (<root>/all/notice) or to some (<root>/<VIN>/notice).

    A kept notice replaces the one kept before. Exit codes: 0 the broker has it; 1 it has not; 2 wrong use.
    """
    from bridge.downlink import notices
    from infra.contract.downlink import signer
    from infra.settings import settings

    in_force = settings.load()
    wanted = notices.Notice(text, severity, tuple(vehicle or ()), notices.length_s(valid), keep)
    where = settings.endpoints(in_force)
    sent = notices.send(wanted, in_force.mqtt.root, where, signer(in_force))
    typer.echo(f"notice {sent} published")


def undelivered(
    limit: Annotated[int, typer.Option(min=1, help="the newest so many")] = 20,
    json: Annotated[bool, typer.Option("--json", help="a JSON object a line")] = False,
) -> None:
    """List the alerts that a destination did not take, oldest first: they are kept for 30 days.

    Exit codes: 0 listed; 1 Kafka is away.
    """
    from bridge.downlink import dead_deliveries
    from infra.settings import settings

    in_force = settings.load()
    rows = dead_deliveries.newest(in_force, settings.endpoints(in_force), limit)
    for line in dead_deliveries.lines(rows, json):
        typer.echo(line)
