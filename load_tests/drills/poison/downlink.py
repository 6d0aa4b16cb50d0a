"""Rows 7, 8 and 9: addresses that cannot be honoured, a hostile webhook, alerts of a stranger."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from email.utils import parsedate_to_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from paho.mqtt import publish

from bridge.downlink import webhooks
from edge_simulator.sending import run
from infra.clients import database_url, kafka
from infra.clients.db import session
from infra.clients.mqtt_broker import MqttBroker
from infra.contract import downlink, topics
from infra.contract.errors import ServiceError
from infra.settings import settings
from infra.stack import postgres
from infra.stack.downloads import cache
from load_tests.drills.defects import replace as replaced
from load_tests.drills.poison.attack import Attack, program
from load_tests.drills.site import Site, until
from load_tests.drills.verdict import Promise
from load_tests.secure_broker import secure_broker

COMMAND_S: Final = 90.0
SOON_S: Final = 60.0
PASSWORD: Final = "p@ss/word"
BRIDGE: Final = "row7-bridge"
OTHER_VIN: Final = "1HGCM82633A900009"
SECRET: Final = b"a secret of the drill"
ABSURD: Final = "Sat, 21 Nov 2026 12:01:30 +99999999999"
ATTEMPTS_S: Final = 20.0
REFUSED: Final = {
    "ODOGRAPH_KAFKA_BOOTSTRAP": "kafka://h:9092",
    "ODOGRAPH_DB_URL": "postgresql://me:s3cret@h/d?sslmod=require",
    "ODOGRAPH_MQTT_URI": "mqtt://h",
    "ODOGRAPH_BROKER_URL": "mqtt://h",
}
"""Some settings that cannot be honoured, each tried alone; the unit tests try all kinds.

The last is of no section of the settings: nothing but the list of unknown variables sees it.
"""


def addresses(site: Site, mutant: str | None) -> Iterable[Promise]:
    """Row 7: a broker with TLS, certificate and password, a database of four users; wrong settings."""
    name = f"row7-{time.time_ns()}"
    home, of_broker = site.home / name, site.home / "lanes" / name  # whose programs end with the site's
    rootfs = cache.rootfs(site.settings.paths.cache)
    with secure_broker(rootfs, of_broker, PASSWORD) as broker:
        env = site.env | _external(site, home, broker)
        up = _odograph(env, mutant, "up", "--services-only")
        yield Promise("odograph up takes external services over", up.returncode == 0, _end(up))
        if up.returncode:
            return
        found = settings.Endpoints(**json.loads((home / "home" / settings.ENDPOINTS_FILE).read_text()))
        users = [_user(url) for url in (found.db_owner_url, found.db_ingest_url, found.db_dashboard_url)]
        yield Promise("each role of the database is a user of its own", len(set(users)) == 3, f"{users}")
        kept = "application_name=row7" in database_url.with_name(found.db_owner_url, "other")
        yield Promise("parameters of an address survive another database", kept, f"{kept}")
        there = replace(site, env=env)
        with _running(there, program(mutant, "bridge")) as connected:
            said = site.log(BRIDGE).strip().rpartition("\n")[2][:300]
            yield Promise("the bridge logs in by mqtts with certificate and password", connected, said)
            options = ("-c", "2", "--interval", "1s", "--duration", "3s", "--json", "--run-id", "row7")
            sent = _odograph(env, mutant, "simulate", *options)
            summary = json.loads(sent.stdout or "{}")
            whole = sent.returncode == 0 and summary["acked"] == summary["sent"] > 0
            yield Promise("a fleet sends by mqtts with certificate and password", whole, _end(sent))
            stored = _acked(site, found, summary.get("sent", 1))
            yield Promise("the bridge carries it to Kafka", stored, f"{stored}")
        other = env | {"ODOGRAPH_MQTT_CA_FILE": str(of_broker / "other.pem")}
        told = _odograph(other, mutant, "notify", "Ice")
        named = told.returncode == 2 and "ODOGRAPH_MQTT_URL" in told.stderr
        yield Promise("an address other than that in force is an error", named, _end(told))
        _odograph(other, mutant, "up", "--services-only")
        seen = _odograph(other, mutant, "notify", "Ice")
        refused = seen.returncode == 1 and "not trusted" in seen.stderr
        yield Promise("a broker of another authority is refused", refused, _end(seen))
        shown = _odograph(env, mutant, "config").stdout + site.log(BRIDGE) + up.stderr
        hidden = PASSWORD not in shown and "p%40ss" not in shown
        yield Promise("no password in configuration and logs", hidden, f"{len(shown)} characters")
    for name, value in REFUSED.items():
        told = _odograph(site.env | {name: value}, mutant, "config")
        right = told.returncode == 2 and name in told.stderr and "s3cret" not in told.stderr
        yield Promise(f"{name} that cannot be honoured is an error", right, _end(told))


def _external(site: Site, home: Path, broker: MqttBroker) -> dict[str, str]:
    """Settings under which the site's services are external ones, behind the secure broker."""
    e = site.endpoints
    word = PASSWORD.replace("@", "%40").replace("/", "%2F")
    return {
        "ODOGRAPH_PATHS_HOME": str(home / "home"),
        "ODOGRAPH_KAFKA_PREFIX": "row7.",
        "ODOGRAPH_MQTT_URL": f"mqtts://{broker.user}:{word}@{broker.host}:{broker.port}",
        "ODOGRAPH_MQTT_CA_FILE": broker.ca_file,
        "ODOGRAPH_MQTT_CERT_FILE": broker.cert_file,
        "ODOGRAPH_MQTT_KEY_FILE": broker.key_file,
        "ODOGRAPH_KAFKA_BOOTSTRAP": e.kafka_bootstrap,
        "ODOGRAPH_DB_URL": e.db_owner_url + "?application_name=row7",
        "ODOGRAPH_DB_INGEST_URL": e.db_ingest_url,
        "ODOGRAPH_DB_DASHBOARD_URL": e.db_dashboard_url,
        "ODOGRAPH_DB_DISPATCH_URL": e.db_dispatch_url,
    }


def _odograph(env: Mapping[str, str], mutant: str | None, *words: str) -> subprocess.CompletedProcess[str]:
    command = program(mutant, *words)
    return subprocess.run(
        command, env=dict(env), capture_output=True, text=True, timeout=COMMAND_S, check=False
    )


def _end(done: subprocess.CompletedProcess[str]) -> str:
    lines = done.stderr.strip().splitlines() or [""]
    return f"exit code {done.returncode}: {lines[-1][:160]}"


def _user(url: str) -> str:
    with session(url) as connection:
        row = connection.execute("SELECT current_user").fetchone()
    return str(row[0]) if row else ""


@contextlib.contextmanager
def _running(site: Site, command: tuple[str, ...]) -> Iterator[bool]:
    """A bridge while the block runs; whether the broker has let it in, within the time."""
    child = site.start(BRIDGE, command)

    def connected() -> bool:
        return "mqtt connected" in site.log(BRIDGE)

    with contextlib.suppress(ServiceError):
        until(lambda: connected() or child.poll() is not None, SOON_S, "a bridge")
    yield connected()
    site.stop(BRIDGE)


def _acked(site: Site, found: settings.Endpoints, wanted: int) -> bool:
    """Whether the bridge has stored so many messages within the time."""
    there = replace(site, endpoints=found)
    with contextlib.suppress(Exception):
        until(lambda: there.metrics().get("odograph_bridge_acked_total", 0) >= wanted, SOON_S, "stored")
        return True
    return False


class Receiver:
    """A webhook's server; ``trouble``: it answers each alert's first attempt with an absurd Retry-After."""

    def __init__(self, trouble: bool = True) -> None:
        self.seen: list[tuple[dict[str, str], bytes]] = []
        self.accepted: list[str] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.seen.append((dict(self.headers), body))
                key = self.headers[webhooks.HEADER_ID]
                first = trouble and [told[webhooks.HEADER_ID] for told, _ in receiver.seen].count(key) == 1
                self.send_response(503 if first else 200)
                if first:
                    self.send_header("Retry-After", ABSURD)
                else:
                    receiver.accepted.append(key)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_args: object) -> None:
                """An attempt is no news."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()


def webhook(site: Site, mutant: str | None) -> Iterable[Promise]:
    """Row 8: a Retry-After with an absurd zone, then the accepted request again under another key."""
    receiver = Receiver()
    file, secret = site.home / "row8.toml", site.home / "row8.secret"
    secret.write_bytes(SECRET)
    secret.chmod(0o600)
    url = f"http://127.0.0.1:{receiver.server.server_address[1]}/"
    each = 'notify = "alert"\nrepeat_s = 0\n'
    file.write_text(f'[[webhook]]\nname = "row8"\nurl = "{url}"\nsecret_file = "{secret}"\n{each}')
    site.env["ODOGRAPH_DOWNLINK_WEBHOOKS"] = str(file)
    try:
        site.start("downlink", program(mutant, "downlink"))
        site.wait_ready("downlink")
        _tell(site, _alert("row8-a", OTHER_VIN), _alert("row8-b", OTHER_VIN))
        with contextlib.suppress(Exception):
            until(lambda: len(receiver.accepted) >= 2, ATTEMPTS_S, "both accepted")
        restarts = site.metrics("downlink").get("odograph_downlink_restarts_total", 0)
    finally:
        del site.env["ODOGRAPH_DOWNLINK_WEBHOOKS"]
        site.stop("downlink")
        receiver.server.shutdown()
        receiver.server.server_close()
    order = receiver.accepted == ["row8-a", "row8-b"]
    yield Promise("each alert is taken at its second attempt, in order", order, f"{receiver.accepted}")
    yield Promise("nothing is begun anew", restarts == 0 and len(receiver.seen) == 4,
                  f"{restarts:g} restarts, {len(receiver.seen)} attempts")  # fmt: skip
    if receiver.seen:
        headers, body = receiver.seen[0]
        now_s = time.time()
        forged = headers | {webhooks.HEADER_ID: "row8-c"}
        genuine = webhooks.genuine(SECRET, headers, body, now_s)
        yield Promise("a request verifies as it came", genuine, f"{genuine}")
        taken = webhooks.genuine(SECRET, forged, body, now_s) or _old_scheme(forged, body)
        yield Promise("under another key it does not", not taken, f"verifies: {taken}")


def _old_scheme(headers: Mapping[str, str], body: bytes) -> bool:
    """Whether the signature holds for timestamp and body alone."""
    signed = headers[webhooks.HEADER_TIMESTAMP].encode() + b"." + body
    word = hmac.new(SECRET, signed, hashlib.sha256).hexdigest()
    return headers[webhooks.HEADER_SIGNATURE].endswith(word)


def stranger(site: Site, mutant: str | None) -> Iterable[Promise]:
    """Row 9: anybody publishes to a vehicle's topic, and plays again what the service said."""
    site.start("downlink", program(mutant, "downlink"))
    site.wait_ready("downlink")
    name = f"row9-{time.time_ns()}"
    options = ("-c", "1", "--interval", "1s", "--run-id", name, "--log-frames")
    site.start(name, program(mutant, "simulate", *options))
    log = site.home / "runs" / name / "frames.jsonl"
    until(lambda: log.exists() and b"\n" in log.read_bytes(), SOON_S, "the vehicle's first frame")
    vin = orjson.loads(log.read_bytes().splitlines()[0])["payload"]["vehicle_id"]
    service, thief = downlink.signer(site.settings), downlink.Signer(Ed25519PrivateKey.generate())
    now_ms = time.time_ns() // 1_000_000
    fresh, old = now_ms + 600_000, now_ms - 1000
    mine = _alert("row9-forged", vin)
    unsigned = downlink.encode_alert(mine, now_ms, fresh)
    _publish(site, vin, unsigned)
    _publish(site, vin, thief.sealed("alert", unsigned))
    played = downlink.encode_alert(_alert("row9-old", vin), now_ms, old)
    _publish(site, vin, service.sealed("alert", played))
    others = downlink.encode_alert(_alert("row9-other", OTHER_VIN), now_ms, fresh)
    _publish(site, vin, service.sealed("alert", others))
    keys = ("downlink_unsigned", "downlink_expired", "downlink_misdirected", "alerts_received")

    def counts() -> dict[str, int]:
        return {key: site.run_file(name).get(key, 0) for key in keys}

    until(lambda: sum(counts().values()) >= 4, SOON_S, "the vehicle has heard four messages")
    heard, limping = counts(), site.run_file(name)["limp_home"]
    text = "unsigned, another's key, an old one, another vehicle's: counted"
    yield Promise(text, list(heard.values()) == [2, 1, 1, 0], f"{heard}")
    yield Promise("the vehicle drives on as before", limping == 0, f"limp home {limping}")
    _tell(site, _alert("row9-true", vin))
    with contextlib.suppress(Exception):
        until(lambda: counts()["alerts_received"] >= 1, ATTEMPTS_S, "the service's own alert")
    got = counts()["alerts_received"] - heard["alerts_received"]
    yield Promise("the service's own alert reaches it", got == 1, f"{got}")
    site.stop(name)
    site.stop("downlink")


def _alert(alert_id: str, vehicle_id: str) -> dict[str, Any]:
    """A critical one of this moment, as the jobs write it."""
    at = time.time_ns() // 1_000_000
    return {
        "alert_id": alert_id, "vehicle_id": vehicle_id, "rule": alert_id, "rule_version": 1,
        "severity": "CRITICAL", "event_ms": at, "value": 121.0, "limit": 115.0, "message": "Hot",
        "boot_id": 1, "seq": 7, "received_ms": at, "lat_deg": 48.1, "lon_deg": 11.5,
    }  # fmt: skip


def _tell(site: Site, *alerts: dict[str, Any]) -> None:
    producer = kafka.producer(site.endpoints.kafka_bootstrap)
    topic = topics.kafka_topic(site.settings.kafka.prefix, "alerts")
    for body in alerts:
        producer.produce(topic, orjson.dumps(body), body["vehicle_id"].encode())
    producer.flush(10)


def _publish(site: Site, vin: str, payload: bytes) -> None:
    topic = topics.mqtt_topic(site.settings.mqtt.root, vin, "alert")
    publish.single(topic, payload, 1, hostname=site.endpoints.mqtt_host, port=site.endpoints.mqtt_port)


def _no_login() -> None:
    """User, password and TLS of the address are dropped."""
    replaced(MqttBroker, "log_in", lambda _: lambda _self, _client: None)


def _one_user() -> None:
    """The owner's address serves every role."""

    def one(honest: Any) -> Any:
        def all_owner(db: Any, words: Any) -> dict[str, str]:
            return dict.fromkeys(honest(db, words), db.url.get_secret_value())

        return all_owner

    replaced(postgres, "addresses", one)


def _ignored() -> None:
    """Variables that nothing reads are ignored."""
    replaced(settings, "unknown_variables", lambda _: lambda _environment: [])


def _zone() -> None:
    """A date is reckoned with, whatever its zone."""

    def careless(honest: Any) -> Any:
        def pause(attempt: int, answer: Any, now: Any, chance: Any) -> float:
            if answer.retry_after and not answer.retry_after.isdecimal():
                return float((parsedate_to_datetime(answer.retry_after) - now).total_seconds())
            return float(honest(attempt, answer, now, chance))

        return pause

    replaced(webhooks, "pause_s", careless)


def _keyless() -> None:
    """Timestamp and body alone are signed."""

    def old(_honest: Any) -> Any:
        def sign(secret: bytes, _key: str, timestamp_s: int, body: bytes) -> str:
            return "v2=" + hmac.new(secret, b"%d." % timestamp_s + body, hashlib.sha256).hexdigest()

        return sign

    replaced(webhooks, "sign", old)


def _believed() -> None:
    """A vehicle takes a message whoever signed it, or nobody."""

    def believing(honest: Any) -> Any:
        def opened(self: Any, kind: str, raw: bytes) -> bytes:
            return honest(self, kind, raw) or raw.partition(b',"signature"')[0].removesuffix(b"}") + b"}"

        return opened

    replaced(downlink.Verifier, "opened", believing)


def _timeless() -> None:
    """A vehicle does not look at when a message is over."""
    replaced(run, "now_ms", lambda _: lambda: 0)


ATTACKS: Final = (
    Attack("row7", "addresses with TLS and password; settings that cannot be honoured", addresses,
           {"login-dropped": _no_login, "one-database-user": _one_user, "setting-ignored": _ignored}),
    Attack("row8", "a webhook's absurd Retry-After; a request again under another key", webhook,
           {"retry-after-raises": _zone, "key-unsigned": _keyless}),
    Attack("row9", "alerts of a stranger, old ones, another vehicle's", stranger,
           {"unsigned-believed": _believed, "old-believed": _timeless}),
)  # fmt: skip
