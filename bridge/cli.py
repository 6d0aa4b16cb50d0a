"""The command ``odograph bridge``."""

from __future__ import annotations

from typing import Annotated

import typer

from bridge import downlink_cli
from bridge.dead_letters.dead_letters_cli import dead_letters


def register(app: typer.Typer) -> None:
    """Add the bridge's commands."""
    app.command("bridge")(bridge)
    app.add_typer(dead_letters, name="dead-letters")
    downlink_cli.register(app)


def bridge(
    shard: Annotated[
        str | None,
        typer.Option(help="share of the fleet that this one carries, i/n from 1/n to n/n [1/1: the whole]"),
    ] = None,
    guarantee: Annotated[
        str | None, typer.Option(help="at-least-once or at-most-once [at-least-once]")
    ] = None,
    prepare: Annotated[
        bool, typer.Option("--prepare", help="only make this shard's sessions at the broker, which then fill")
    ] = False,
    retire: Annotated[
        str | None,
        typer.Option(help="carry over what the broker holds for shard i/n, then end its sessions for good"),
    ] = None,
) -> None:
    """Carry MQTT messages to Kafka, in the foreground, until Ctrl-C or SIGTERM.

    Each message is acknowledged to the broker only when Kafka has stored it. What cannot be understood
    goes to the topic dead-letter with its reason. On SIGTERM what was read is finished first.

    Settings (environment, then .odograph.toml, then default):

      ODOGRAPH_BRIDGE_CLIENT_ID            MQTT client id, kept for ever: it names the broker's queue for us
                                           [odograph-bridge]

      ODOGRAPH_BRIDGE_SHARD                what --shard says [1/1]

      ODOGRAPH_BRIDGE_GUARANTEE            what --guarantee says [at-least-once]

      ODOGRAPH_BRIDGE_VEHICLE_RATE         messages/s that one vehicle may send for long; 0: no limit [200]

      ODOGRAPH_BRIDGE_VEHICLE_BURST        messages that one vehicle may send at once [20000]

      ODOGRAPH_BRIDGE_CRASH_RATE, _BURST   the same for crash messages [20, 2000]

      ODOGRAPH_BRIDGE_DEAD_LETTERS_PER_MINUTE  rejected messages kept, more are only counted; 0: all [6000]

      ODOGRAPH_BRIDGE_USER, _PASSWORD_FILE login at the broker [anonymous]

      ODOGRAPH_BRIDGE_IDENTITY_PROPERTY    MQTT 5 user property in which the broker names the sender [none]

      ODOGRAPH_BRIDGE_MAX_IN_FLIGHT        messages between MQTT and Kafka, at most [20000]

      ODOGRAPH_BRIDGE_MAX_IN_FLIGHT_BYTES  bytes between MQTT and Kafka, at most [67108864]

      ODOGRAPH_BRIDGE_DRAIN_S              time to finish after SIGTERM, seconds [10]

      ODOGRAPH_BRIDGE_HTTP_PORT            port of /livez /readyz /metrics; 0: a free one, kept [0]

    Exit codes: 0 all that was read is stored; 1 some of it is not (it comes again) or a lane failed;
    2 a setting is wrong.
    """
    from bridge import resharding, uplink
    from infra.clients.log import configure
    from infra.contract.errors import ConfigError
    from infra.contract.shard import Shard
    from infra.settings import settings

    configure("bridge")
    if retire is not None and (shard is not None or prepare):
        raise ConfigError("--retire I/N stands alone: it names the shard itself")
    options = {"shard": retire or shard, "guarantee": guarantee}
    said = {key: value for key, value in options.items() if value is not None}
    in_force = settings.load(**({"bridge": said} if said else {}))
    Shard.parse(in_force.bridge.shard)  # a wrong one is told before anything is asked
    if prepare and in_force.bridge.guarantee == "at-most-once":
        raise ConfigError("--prepare makes sessions, which at-most-once does not use")
    addresses = settings.endpoints(in_force)
    if prepare:
        raise typer.Exit(resharding.prepare(in_force, addresses))
    if retire is not None:
        raise typer.Exit(resharding.retire(in_force, addresses))
    raise typer.Exit(uplink.run(in_force, addresses))
