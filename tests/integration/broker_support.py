"""A Mosquitto for one module's tests, and a subscriber to it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from infra.contract import frame
from infra.settings.settings import load
from infra.stack.access.identity import ensure_keys
from infra.stack.downloads import cache
from infra.stack.downloads.fetch import fetch_all
from infra.stack.mosquitto import mosquitto
from infra.stack.processes import guarded
from infra.stack.service import Runner, Service, free_port
from tests import forked
from tests.support import odograph_command

ROOT = "sim-test"


class Broker:
    """A Mosquitto of this module, with a home that ``odograph simulate`` takes for a running stack."""

    def __init__(self, home: Path, service: Service) -> None:
        self.home = home
        self.port = service.port
        self._service = service
        self._runner = Runner(home)
        self._begun: list[forked.Command] = []

    def start(self) -> None:
        self._runner.start(self._service)

    def stop(self) -> None:
        self._runner.stop(self._service.name)

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "ODOGRAPH_PATHS_HOME": str(self.home), "ODOGRAPH_MQTT_ROOT": ROOT}

    def command(self, *arguments: str) -> forked.Command:
        """``odograph <arguments>``, which runs at the longest as long as the broker."""
        self._begun.append(forked.Command(arguments, self.env))
        return self._begun[-1]

    def end_commands(self) -> None:
        for command in self._begun:
            if command.poll() is None:  # its test has failed
                command.kill()

    def run(self, *arguments: str) -> dict[str, Any]:
        """``odograph <arguments> --json`` to its end; its summary."""
        done = forked.run([*arguments, "--json"], self.env, 90)
        assert done.stdout, done.stderr
        summary: dict[str, Any] = orjson.loads(done.stdout)
        return summary


@contextlib.contextmanager
def a_broker() -> Iterator[Broker]:
    """A Mosquitto that runs while the block does."""
    home = Path(tempfile.mkdtemp(prefix="odograph-sim-"))
    folder = load(paths={"home": str(home)}).paths.cache
    fetch_all(folder, ("mosquitto",))
    with guarded(home, remove=True):
        port = free_port()
        places = (home / "data" / "mosquitto", home / "config")
        made = Broker(home, mosquitto(cache.rootfs(folder), *places, port))
        made.start()
        reached_at(home, port)
        yield made
        made.end_commands()
        made.stop()


def reached_at(home: Path, port: int) -> None:
    """Let commands with this home find a broker on the port, and nothing else."""
    keys = ("kafka_bootstrap", "db_owner_url", "db_ingest_url", "db_dashboard_url")
    addresses = {"mqtt_host": "127.0.0.1", "mqtt_port": port, **dict.fromkeys(keys, "")}
    (home / "endpoints.json").write_bytes(orjson.dumps(addresses))
    ensure_keys(load(paths={"home": str(home)}))


def simulated(home: Path, *arguments: str, before: tuple[str, ...] = ()) -> dict[str, Any]:
    """The summary of three vehicles' run of 20 frames at the stack of ``home``; ``before``: the command."""
    words = ("simulate", "-c", "3", "--rate", "20", "--limit", "20", *arguments, "--json")
    env = {**os.environ, "ODOGRAPH_PATHS_HOME": str(home)}
    if before:
        command = [*before, *odograph_command(), *words]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=90, check=False)
    else:
        done = forked.run(words, env, 90)
    assert done.returncode == 0, done.stderr
    summary: dict[str, Any] = orjson.loads(done.stdout)
    return summary


class Listener:
    """A plain subscriber with a session of its own that outlives the broker's restart."""

    def __init__(self, name: str) -> None:
        self.received: list[tuple[str, bytes]] = []
        self.subscribed = threading.Event()
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=name, clean_session=False)
        self._client.reconnect_delay_set(1, 1)
        self._client.on_connect = lambda client, *_: client.subscribe(f"{ROOT}/#", qos=1)
        self._client.on_subscribe = lambda *_: self.subscribed.set()
        self._client.on_message = lambda _c, _d, m: self.received.append((m.topic, m.payload))

    @contextlib.contextmanager
    def listening(self, port: int) -> Iterator[Listener]:
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        assert self.subscribed.wait(60)
        self.received.clear()  # what earlier tests left retained
        try:
            yield self
        finally:
            self._client.disconnect()
            self._client.loop_stop()

    def channel(self, name: str, boot_id: int | None = None) -> list[bytes]:
        found = [p for topic, p in self.received if topic.endswith(f"/{name}")]
        return [p for p in found if boot_id is None or b'"boot_id":%d' % boot_id in p]

    def reporting(self) -> set[str]:
        """Vehicles that have sent a frame."""
        return {topic.split("/")[-2] for topic, _ in list(self.received) if topic.endswith("/telemetry")}

    def sequences(self, boot_id: int) -> dict[str, list[int]]:
        """Sequence numbers of each vehicle in order of arrival, repeated ones once."""
        found: dict[str, dict[int, None]] = defaultdict(dict)
        for payload in self.channel("telemetry", boot_id):
            body = frame.decode(payload)
            found[body["vehicle_id"]].setdefault(body["seq"])
        return {vehicle: list(seqs) for vehicle, seqs in found.items()}
