"""The compose files give the same services as the embedded stack."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.settings.sections import Mqtt
from infra.stack import kafka, mosquitto, postgres

INFRA = Path(__file__).parents[3] / "infra"
COMPOSE = yaml.safe_load((INFRA / "compose.yaml").read_text())
CLUSTER = yaml.safe_load((INFRA / "deploy" / "compose.cluster.yaml").read_text())
OWN_PLACES = ("#", "listener", "persistence_location")
BOTH = pytest.mark.parametrize("file", [COMPOSE, CLUSTER], ids=["one", "cluster"])


def of_image(file: dict[str, Any], image: str) -> list[dict[str, Any]]:
    return [each for each in file["services"].values() if each["image"].startswith(image)]


@BOTH
def test_mosquitto_has_the_same_settings(file: dict[str, Any]) -> None:
    own = {"port": 0, "host": "", "data": "", "access": mosquitto.OPEN, "connections": "false"}
    text = mosquitto.TEMPLATE.read_text().format(**Mqtt().model_dump() | own)
    embedded = [line for line in text.splitlines() if not line.startswith(OWN_PLACES)]
    composed = file["configs"]["mosquitto"]["content"].splitlines()
    assert [line for line in composed if not line.startswith(OWN_PLACES)] == embedded


@pytest.mark.parametrize(
    ("file", "copies", "in_sync"), [(COMPOSE, 1, 1), (CLUSTER, 3, 2)], ids=["one", "cluster"]
)
def test_kafka_has_the_same_topic_settings(file: dict[str, Any], copies: int, in_sync: int) -> None:
    template = kafka.TEMPLATE.read_text().replace("{copies}", f"{copies}").replace("{in_sync}", f"{in_sync}")
    for line in template.splitlines():
        key, _, value = line.partition("=")
        if key.startswith(
            ("offsets.", "transaction.", "share.", "auto.", "group.", "broker.", "log.segment")
        ):
            name = "KAFKA_" + key.upper().replace(".", "_")
            assert {each["environment"][name] for each in of_image(file, "apache/kafka")} == {value}, key


@BOTH
def test_the_database_has_the_same_settings(file: dict[str, Any]) -> None:
    lines = postgres.TEMPLATE.read_text().splitlines()
    embedded = dict(line.split(" = ") for line in lines if not line.startswith("#"))
    for each in of_image(file, "timescale"):
        composed = dict(option.removeprefix("-c").split("=") for option in each["command"][1:])
        assert {key: embedded[key].strip("'") for key in composed} == composed


@BOTH
def test_every_service_listens_on_loopback_only(file: dict[str, Any]) -> None:
    published = [port for service in file["services"].values() for port in service.get("ports", ())]
    assert published
    assert [port for port in published if not port.startswith("127.0.0.1:")] == []
