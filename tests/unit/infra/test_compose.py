"""The compose file gives the same services as the embedded stack."""

from __future__ import annotations

from pathlib import Path

import yaml

from infra.settings.sections import Mqtt
from infra.stack import kafka, mosquitto, postgres

COMPOSE = yaml.safe_load((Path(__file__).parents[3] / "infra" / "compose.yaml").read_text())
OWN_PLACES = ("#", "listener", "persistence_location")


def test_mosquitto_has_the_same_settings() -> None:
    defaults = Mqtt()
    text = mosquitto.TEMPLATE.read_text().format(
        port=0,
        host="",
        data="",
        max_queued=defaults.max_queued_messages,
        autosave_s=defaults.autosave_s,
        max_packet=defaults.max_message_bytes,
        access=mosquitto.OPEN,
        connections="false",
    )
    embedded = [line for line in text.splitlines() if not line.startswith(OWN_PLACES)]
    composed = COMPOSE["configs"]["mosquitto"]["content"].splitlines()
    assert [line for line in composed if not line.startswith(OWN_PLACES)] == embedded


def test_kafka_has_the_same_topic_settings() -> None:
    environment = COMPOSE["services"]["kafka"]["environment"]
    template = kafka.TEMPLATE.read_text().replace("{copies}", "1").replace("{in_sync}", "1")
    for line in template.splitlines():
        key, _, value = line.partition("=")
        if key.startswith(
            ("offsets.", "transaction.", "share.", "auto.", "group.", "broker.", "log.segment")
        ):
            assert environment["KAFKA_" + key.upper().replace(".", "_")] == value, key


def test_the_database_has_the_same_settings() -> None:
    command = COMPOSE["services"]["timescaledb"]["command"]
    composed = dict(option.removeprefix("-c").split("=") for option in command[1:])
    lines = postgres.TEMPLATE.read_text().splitlines()
    embedded = dict(line.split(" = ") for line in lines if not line.startswith("#"))
    assert {key: embedded[key].strip("'") for key in composed} == composed


def test_every_service_listens_on_loopback_only() -> None:
    published = [port for service in COMPOSE["services"].values() for port in service["ports"]]
    assert [port for port in published if not port.startswith("127.0.0.1:")] == []
