"""The embedded MQTT broker."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from infra.clients.mqtt_broker import MqttBroker
from infra.stack import accounts, probes
from infra.stack.ports import HOST
from infra.stack.rootfs import CONFIG, DATA, inside
from infra.stack.service import Service

USER = "odograph-mosquitto"
CONFIG_FILE = "mosquitto.conf"

# Sized for an outage of the bridge: 1 GiB of queue is 80 s of 10,000 frames/s, hours of a small fleet. What
# does not fit is dropped and counted in $SYS/broker/publish/messages/dropped. Anonymous, on loopback only.
TEMPLATE = """\
listener {port} {host}
allow_anonymous true
persistence true
persistence_location {data}/
autosave_interval {autosave_s}
max_inflight_messages 20000
max_queued_messages {max_queued}
max_queued_bytes 1073741824
max_packet_size {max_packet}
sys_interval 1
set_tcp_nodelay true
connection_messages false
log_dest stderr
log_type error
log_type warning
log_type notice
"""


def mosquitto(
    root: Path,
    data: Path,
    config: Path,
    port: int,
    max_queued: int = 1_000_000,
    autosave_s: int = 30,
    max_packet: int = 1 << 20,
) -> Service:
    """Mosquitto on a loopback port with its data in ``data``, configured by ``config``.

    It holds ``max_queued`` messages for an absent client and writes what it holds every ``autosave_s``. A
    client that sends a packet of more than ``max_packet`` bytes is disconnected at the packet's header.
    """
    limits = {"max_queued": max_queued, "autosave_s": autosave_s, "max_packet": max_packet}
    text = TEMPLATE.format(port=port, host=HOST, data=DATA, **limits)
    return Service(
        name="mosquitto",
        command=inside(root, data, config, USER, "mosquitto", "-c", f"{CONFIG}/{CONFIG_FILE}"),
        port=port,
        port_setting="ODOGRAPH_MQTT_PORT",
        probe=partial(probes.mqtt_echo, MqttBroker(HOST, port)),
        prepare=partial(_prepare, data, config, text),
        ready_s=20.0,
    )


def _prepare(data: Path, config: Path, text: str) -> None:
    accounts.give_folder(data, USER)
    accounts.write_config(config, USER, {CONFIG_FILE: text})
