"""What the downlink's tests share: alerts into Kafka, vehicles that listen, a webhook that misbehaves."""

from __future__ import annotations

import contextlib
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson
import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from bridge.downlink import webhooks
from infra.settings.settings import ENDPOINTS_FILE
from tests.integration.events_support import produce, until_ready
from tests.support import Lane, LaneProcess
from tests.support_alerts import alert

SECRET = b"a secret of the tests"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def fresh(alert_id: str, vehicle_id: str, **changes: Any) -> dict[str, Any]:
    """An alert of this moment."""
    at = now_ms()
    return alert(alert_id=alert_id, vehicle_id=vehicle_id, event_ms=at, received_ms=at) | changes


def tell(lane: Lane, alerts: Iterable[dict[str, Any]]) -> None:
    """Alerts into Kafka, as the jobs write them."""
    produce(lane, "alerts", [(body["vehicle_id"], orjson.dumps(body)) for body in alerts])


@contextlib.contextmanager
def downlink(lane: Lane) -> Iterator[LaneProcess]:
    """A ready downlink."""
    with lane.process("downlink") as process:
        until_ready(lane, "downlink")
        yield process


@contextlib.contextmanager
def listening(lane: Lane, *filters: str) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """What is published under filters below the root: last levels of the topic and the body."""
    heard: list[tuple[str, dict[str, Any]]] = []
    subscribed = threading.Event()
    root = lane.settings.mqtt.root
    client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=f"{lane.name}-ear")
    client.on_connect = lambda c, *_: c.subscribe([(f"{root}/{name}", 1) for name in filters])
    client.on_subscribe = lambda *_: subscribed.set()
    client.on_message = lambda _c, _d, m: heard.append(
        (m.topic.removeprefix(f"{root}/"), orjson.loads(m.payload))
    )
    client.connect(lane.endpoints.mqtt_host, lane.endpoints.mqtt_port)
    client.loop_start()
    assert subscribed.wait(60)
    try:
        yield heard
    finally:
        client.disconnect()
        client.loop_stop()


def alerts_read(lane: Lane, destination: str) -> int:
    """How many alerts a destination's metrics say it has read."""
    url = f"http://127.0.0.1:{lane.endpoints.http_ports['downlink']}/metrics"
    name = f'odograph_downlink_alerts_read_total{{destination="{destination}"}}'
    with urllib.request.urlopen(url, timeout=5) as page:
        lines = page.read().decode().splitlines()
    return round(sum(float(line.split()[-1]) for line in lines if line.startswith(name)))


def through(lane: Lane, port: int) -> None:
    """Let the lane's processes reach the broker by another port."""
    file = lane.home / ENDPOINTS_FILE
    file.write_bytes(orjson.dumps(orjson.loads(file.read_bytes()) | {"mqtt_port": port}))


class Receiver:
    """A webhook's server: each request takes the next of ``moods``, then all are accepted.

    A mood is a status (with Retry-After 1 for 429) or None: it hangs until the end. ``accepted`` has the ids
    in order, ``seen`` all attempts, ``forged`` those whose signature is wrong.
    """

    def __init__(self, moods: list[int | None]) -> None:
        self.accepted: list[str] = []
        self.seen: list[str] = []
        self.forged = 0
        self.moods = moods
        self._over = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler(self._answer))
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]

    def _answer(self, told: dict[str, str], body: bytes) -> int | None:
        alert_id = told[webhooks.HEADER_ID]
        self.seen.append(alert_id)
        self.forged += not webhooks.genuine(SECRET, told, body, time.time())
        self.forged += orjson.loads(body)["alert_id"] != alert_id
        mood = self.moods.pop(0) if self.moods else 200
        if mood == 200:
            self.accepted.append(alert_id)
        return mood

    def _handler(self, answer: Callable[[dict[str, str], bytes], int | None]) -> type[BaseHTTPRequestHandler]:
        over = self._over

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = answer(dict(self.headers), body)
                if status is None:
                    over.wait(30)
                    return
                self.send_response(status)
                if status == 429:
                    self.send_header("Retry-After", "1")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_args: object) -> None:
                """An attempt is no news."""

        return Handler

    def __enter__(self) -> Receiver:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
