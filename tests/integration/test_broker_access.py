"""A Mosquitto with names: each vehicle writes below its own topic only, the bridge logs in from a file."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from bridge.uplink import service
from bridge.uplink.mqtt_source import MqttSource
from infra.contract.errors import ServiceError
from infra.contract.policy import mosquitto_acl
from infra.contract.topics import mqtt_topic
from infra.settings.settings import Settings
from infra.stack import mosquitto
from infra.stack.downloads import cache
from infra.stack.downloads.rootfs import CONFIG, write_config
from infra.stack.service import Runner, free_port
from infra.stack.stack import Stack
from load_tests.mqtt_flood import vehicle_id
from load_tests.secure_broker import password_file
from tests.support import Lane, eventually

pytestmark = [pytest.mark.integration, pytest.mark.tables]
ME, OTHER = vehicle_id(0), vehicle_id(1)
NAMED_ONLY = """\
allow_anonymous false
password_file {folder}/passwords
acl_file {folder}/acl
"""
WORDS = {"odograph-bridge": "b" * 24, ME: "v" * 24}


@contextlib.contextmanager
def named_broker(stack: Stack, home: Path, root: str) -> Iterator[int]:
    """A broker of this test's own that takes nobody without a name."""
    port = free_port()
    rootfs = cache.rootfs(stack.settings.paths.cache)
    service = mosquitto.mosquitto(rootfs, home / "data", home / "config", port)
    files = {
        "passwords": password_file(WORDS),
        "acl": mosquitto_acl(root, {}).replace("user bridge\n", "user odograph-bridge\n"),
    }

    def prepare() -> None:
        service.prepare()
        text = (home / "config" / mosquitto.CONFIG_FILE).read_text()
        assert "allow_anonymous true\n" in text
        named = text.replace("allow_anonymous true\n", NAMED_ONLY.format(folder=CONFIG))
        write_config(home / "config", mosquitto.USER, {**files, mosquitto.CONFIG_FILE: named})

    runner = Runner(home)
    runner.start(replace(service, prepare=prepare, probe=lambda: listening(port)))
    try:
        yield port
    finally:
        runner.stop("mosquitto")


def listening(port: int) -> str:
    try:
        return f"it says {refusal(port, None)}"
    except OSError as error:
        raise ServiceError(str(error)) from error


def client(user: str | None, word: str = "") -> mqtt.Client:
    made = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
    if user is not None:
        made.username_pw_set(user, word)
    return made


def refusal(port: int, user: str | None, word: str = "") -> str | None:
    """What the broker says to a connection; None: welcome."""
    codes: list[object] = []
    made = client(user, word)
    made.on_connect = lambda _c, _d, _f, code, _p: codes.append(code)
    made.connect("127.0.0.1", port)
    deadline_s = time.monotonic() + 10
    while not codes and time.monotonic() < deadline_s:
        made.loop(0.1)
    made.disconnect()
    return None if str(codes[0]) == "Success" else str(codes[0])


def bridge_source(lane: Lane, port: int, folder: Path) -> MqttSource:
    word = folder / "bridge.password"
    word.write_text(WORDS["odograph-bridge"] + "\n")
    word.chmod(0o600)
    bridge = lane.settings.bridge.model_copy(update={"user": "odograph-bridge", "password_file": word})
    settings: Settings = lane.settings.model_copy(update={"bridge": bridge})
    return service.lane_of("telemetry", settings, replace(lane.endpoints, mqtt_port=port)).inlets[0].source


def test_a_vehicle_writes_below_its_own_topic_only_and_the_bridge_reads_all(
    lane: Lane, stack: Stack, tmp_path: Path
) -> None:
    root = lane.settings.mqtt.root
    with named_broker(stack, lane.home / "named", root) as port:
        assert refusal(port, None) == "Not authorized"
        assert refusal(port, ME, "wrong") == "Not authorized"
        source = bridge_source(lane, port, tmp_path)
        eventually(lambda: source.poll(1, 0.1) == [] and source.subscribed, 60, "the bridge is logged in")
        vehicle = client(ME, WORDS[ME])
        answers: dict[int, str] = {}
        vehicle.on_publish = lambda _c, _d, mid, code, _p: answers.update({mid: str(code)})
        vehicle.connect("127.0.0.1", port)
        vehicle.loop_start()
        try:
            others = (mqtt_topic(root, OTHER, "telemetry"), f"{root}/{OTHER}/telemetry")
            ours = (mqtt_topic(root, ME, "telemetry"), f"{root}/{ME}/telemetry")
            forged = [vehicle.publish(topic, b"forged", qos=1).mid for topic in others]
            honest = [vehicle.publish(topic, b"honest", qos=1).mid for topic in ours]
            eventually(lambda: len(answers) == 4, 60, "all are answered")
        finally:
            vehicle.disconnect()
            vehicle.loop_stop()
        assert [answers[mid] for mid in forged + honest] == ["Not authorized"] * 2 + ["Success"] * 2
        found: list[tuple[bytes, bytes]] = []

        def both() -> bool:
            found.extend((topic, raw) for topic, _, raw in source.poll(10, 0.1))
            return len(found) == 2

        eventually(both, 60, "the honest messages")
        assert found == [(topic.encode(), b"honest") for topic in ours]
        source.close()
