"""The command ``odograph bridge``."""

from __future__ import annotations

import typer

from bridge import downlink_cli
from bridge.dead_letters.dead_letters_cli import dead_letters


def register(app: typer.Typer) -> None:
    """Add the bridge's commands."""
    app.command("bridge")(bridge)
    app.add_typer(dead_letters, name="dead-letters")
    downlink_cli.register(app)


def bridge() -> None:
    """Carry MQTT messages to Kafka, in the foreground, until Ctrl-C or SIGTERM.

    Each message is acknowledged to the broker only when Kafka has stored it. What cannot be understood
    goes to the topic dead-letter with its reason. On SIGTERM what was read is finished first.

    Settings (environment, then .odograph.toml, then default):

      ODOGRAPH_BRIDGE_CLIENT_ID            MQTT client id, kept for ever: it names the broker's queue for us
                                           [odograph-bridge]

      ODOGRAPH_BRIDGE_MAX_IN_FLIGHT        messages between MQTT and Kafka, at most [20000]

      ODOGRAPH_BRIDGE_MAX_IN_FLIGHT_BYTES  bytes between MQTT and Kafka, at most [67108864]

      ODOGRAPH_BRIDGE_DRAIN_S              time to finish after SIGTERM, seconds [10]

      ODOGRAPH_BRIDGE_HTTP_PORT            port of /livez /readyz /metrics; 0: a free one, kept [0]

    Exit codes: 0 all that was read is stored; 1 some of it is not (it comes again) or a lane failed;
    2 a setting is wrong.
    """
    from bridge import uplink
    from infra.contract import settings
    from infra.log import configure

    configure("bridge")
    in_force = settings.load()
    raise typer.Exit(uplink.run(in_force, settings.endpoints(in_force)))
