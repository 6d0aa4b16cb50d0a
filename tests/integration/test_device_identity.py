"""A secure broker, as `odograph up --secure` makes it: who is taken, who is refused; nothing is lost."""

from __future__ import annotations

import datetime as dt
import gc
import json
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from bridge.downlink.vehicles import notify
from bridge.uplink import service
from bridge.uplink.mqtt_source import MqttSource
from edge_simulator.sending.lean_publisher import LeanPublisher
from edge_simulator.sending.publishing import Message
from infra.clients.mqtt_broker import MqttBroker
from infra.contract.errors import ConfigError, ServiceError
from infra.contract.policy import FOLDERS
from infra.contract.topics import mqtt_topic
from infra.settings.settings import Endpoints, endpoints, load
from infra.stack.access import devices, identity
from infra.stack.access.identity import Authority, Issued
from infra.stack.doctor import _hops
from infra.stack.downloads.fetch import fetch_all
from infra.stack.mosquitto import CONFIG_FILE, USER, broker_figures, mosquitto_reread, tells_refused
from infra.stack.processes import guarded
from infra.stack.stack import PRIVATE, Stack
from load_tests.mqtt_flood import vehicle_id
from stream_jobs.audit_log.refusals import NOBODY, Refusal, of_mosquitto
from tests.integration.broker_support import simulated
from tests.support import eventually

pytestmark = [
    pytest.mark.integration,
    # paho leaves the socket of a failed handshake to the garbage collector
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
ME, OTHER, THIEF = vehicle_id(0), vehicle_id(1), vehicle_id(2)


@dataclass(frozen=True)
class Site:
    """A home with a secure broker, and the bridge's session at it."""

    stack: Stack
    where: Endpoints

    @property
    def root(self) -> str:
        return self.stack.settings.mqtt.root

    def log(self) -> str:
        return self.stack.runner.log("mosquitto").read_text()

    def as_device(self, one: Issued) -> MqttBroker:
        return devices.broker_of(self.where, self.stack.home, one)

    def bridge(self) -> MqttSource:
        where = endpoints(self.stack.settings, ("mqtt_host",), "bridge")
        return service.lane_of("telemetry", self.stack.settings, where).inlets[0].source


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    home = Path(tempfile.mkdtemp(prefix="odograph-secure-"))
    settings = load(paths={"home": str(home)}, secure=True, mqtt={"max_message_bytes": 1 << 21})
    fetch_all(settings.paths.cache, ("mosquitto",))
    stack = Stack(settings, lambda _: None, {}, ["mosquitto"])
    with guarded(home, remove=True):
        yield Site(stack, stack.up())
        gc.collect()  # those sockets, before the next module's tests meet them
        stack.down()


class Vehicle:
    """A plain MQTT 5 client; what the broker answered."""

    def __init__(self, broker: MqttBroker, client_id: str) -> None:
        self.codes: dict[int, str] = {}
        self.heard: list[bytes] = []
        self.end = ""
        made = mqtt.Client(CallbackAPIVersion.VERSION2, client_id, protocol=MQTTProtocolVersion.MQTTv5)
        made.reconnect_delay_set(60, 60)
        broker.log_in(made)
        made.on_publish = lambda _c, _d, mid, code, _p: self.codes.update({mid: str(code)})
        made.on_message = lambda _c, _d, message: self.heard.append(message.payload)
        made.on_disconnect = lambda _c, _d, _f, code, _p: setattr(self, "end", str(code))
        made.connect(broker.host, broker.port)
        made.loop_start()
        self.client = made

    def answer(self, topic: str, payload: bytes) -> str:
        mid = self.client.publish(topic, payload, qos=1).mid
        eventually(lambda: mid in self.codes or bool(self.end), 20, f"an answer to {topic}")
        return self.codes.get(mid, self.end)

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


def refusal(broker: MqttBroker, client_id: str = "x") -> str | None:
    """How a connection ends that is not let in; None: it is."""
    try:
        vehicle = Vehicle(broker, client_id)
    except (OSError, ConfigError) as error:
        return str(error)
    try:
        eventually(lambda: vehicle.client.is_connected() or bool(vehicle.end), 20, "an answer")
        with suppress(AssertionError):  # TLS 1.3 tells a client's fault after the handshake
            eventually(lambda: bool(vehicle.end), 0.3, "an end")
        return vehicle.end or None
    finally:
        vehicle.close()


def collected(source: MqttSource, found: list[tuple[str, bytes]]) -> int:
    for topic, packet_id, payload in source.poll(1000, 0.05):
        source.ack([packet_id])
        found.append((topic.decode(), payload))
    return len(found)


def test_a_vehicle_writes_and_hears_its_own_only_and_every_other_way_in_is_refused(
    site: Site, tmp_path: Path
) -> None:
    source = site.bridge()
    eventually(lambda: source.poll(1, 0.1) == [] and source.subscribed, 60, "the bridge is logged in")
    mine = devices.enrol(site.stack, ME)
    vehicle = Vehicle(site.as_device(mine), "odograph-bridge-telemetry")  # the bridge's session is not had so
    own = [mqtt_topic(site.root, ME, name) for name in ("telemetry", "crash", "status")]
    foreign = [mqtt_topic(site.root, OTHER, "telemetry"), f"{site.root}/{OTHER}/alert", "odograph-retire/x"]
    foreign += [mqtt_topic(site.root, ME, "alert"), f"{site.root}/all/notice", f"{site.root}/{ME}/notice"]
    assert {topic: vehicle.answer(topic, b"mine") for topic in own} == dict.fromkeys(own, "Success")
    refused = {topic: vehicle.answer(topic, b"forged") for topic in foreign}
    assert refused == dict.fromkeys(foreign, "Not authorized")

    vehicle.client.subscribe([("#", 1), (f"{site.root}/all/notice", 1)])
    notify(site.stack.settings, site.where, "Ice", "MINOR", (), 60, keep=False)
    eventually(lambda: b"Ice" in b"".join(vehicle.heard), 20, "the notice")
    assert b"mine" not in vehicle.heard

    gone = devices.enrol(site.stack, OTHER)
    still_in = Vehicle(site.as_device(gone), OTHER)
    topic = mqtt_topic(site.root, OTHER, "telemetry")
    assert still_in.answer(topic, b"before") == "Success"
    devices.revoke(site.stack, OTHER)
    assert still_in.answer(topic, b"after") == "Not authorized"
    still_in.close()

    before = len(site.log())
    forged = Authority(tmp_path, identity.DEVICES).issue(THIEF)
    expired = Authority(site.stack.home, identity.DEVICES).issue(THIEF, days=-1)
    listener = site.as_device(mine)
    ways = {
        "revoked": site.as_device(gone),
        "expired": site.as_device(expired),
        "of another authority": site.as_device(forged),
        "self-signed": replace(listener, **self_signed(tmp_path, ME)),
        "none": replace(listener, cert_file="", key_file=""),
        "a vehicle's at the programs' listener": replace(listener, port=site.where.mqtt_port),
        "a program's at the vehicles' listener": replace(site.where.mqtt, port=site.where.device_port),
    }
    assert [way for way, broker in ways.items() if refusal(broker, "odograph-bridge-telemetry") is None] == []
    plain = MqttBroker(listener.host, listener.port)
    assert refusal(plain) is not None

    def logged() -> str:  # the broker writes its log with a delay
        return site.log()[before:]

    def told() -> list[Refusal]:  # what the audit log gets of it
        found = [each[1] for each in map(of_mosquitto, logged().splitlines()) if each is not None]
        return [refusal for refusal in found if refusal[1].startswith("connection")]

    eventually(lambda: len(told()) == len(ways) + 1, 20, "each refusal in the log")
    assert {who for who, _ in told()} == {NOBODY}

    assert vehicle.answer(own[0], b"x" * (1 << 21)) in ("Packet too large", "Unspecified error")  # or cut off
    eventually(lambda: f"Client {ME} disconnected due to oversize packet" in logged(), 20, "the oversize one")
    vehicle.close()
    found: list[tuple[str, bytes]] = []
    eventually(lambda: collected(source, found) >= 4, 60, "what was allowed, in the bridge")
    frames = [payload for topic, payload in found if "/notice" not in topic and payload != b"before"]
    assert frames == [b"mine"] * 3
    assert (source.epoch, source.counts["sessions_lost"]) == (1, 0)  # nobody took the bridge's session
    source.close()
    assert broker_figures(site.where.mqtt).dropped == 0


def self_signed(folder: Path, name: str) -> dict[str, str]:
    key = ec.generate_private_key(ec.SECP256R1())
    now = dt.datetime.now(dt.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(subject)
    builder = builder.public_key(key.public_key()).serial_number(1).not_valid_before(now - dt.timedelta(1))
    made = builder.not_valid_after(now + dt.timedelta(1)).sign(key, hashes.SHA256())
    pem, none = serialization.Encoding.PEM, serialization.NoEncryption()
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, none)
    (folder / "self.pem").write_bytes(made.public_bytes(pem) + private)
    (folder / "self.pem").chmod(0o600)
    return dict.fromkeys(("cert_file", "key_file"), str(folder / "self.pem"))


def test_rotation_loses_no_frame_and_an_ending_certificate_is_warned_of(site: Site) -> None:
    name = vehicle_id(7)
    source, found = site.bridge(), list[tuple[str, bytes]]()
    eventually(lambda: source.poll(1, 0.1) == [] and source.subscribed, 60, "the bridge is logged in")
    broker, rereads = site.stack.runner.find("mosquitto"), site.log().count("Reloading config")
    assert broker is not None
    old = devices.enrol(site.stack, name, days=20)
    finding = next(f for f in _hops(site.stack) if f.name == "hop: vehicle to broker")
    assert not finding.fine
    assert f"{name} {old.ends:%Y-%m-%d}" in finding.detail
    topic, sent = mqtt_topic(site.root, name, "telemetry"), []
    with pytest.raises(ConfigError, match="rotate"):
        devices.enrol(site.stack, name)
    for one in (old, devices.rotate(site.stack, name)):
        with LeanPublisher([], [name], own=[site.as_device(one)]) as publisher:
            publisher.connect(20)
            frames = [uuid.uuid4().bytes for _ in range(200)]
            publisher.publish_many([0] * 200, [Message(topic, frame) for frame in frames])
            assert publisher.drain(20) == 0
            sent += frames
        site.stack.renew_identities()  # nothing changed: nothing is reread
        mosquitto_reread(broker.pid, site.stack.runner.log("mosquitto"))  # with frames in between
    for _ in range(2):  # killed before it told the broker, it is given again
        devices.revoke(site.stack, name, old.fingerprint)
    assert site.log().count("Reloading config") == rereads + 4
    assert refusal(site.as_device(old)) is not None
    assert refusal(site.as_device(devices.valid(devices.authority(site.stack), name)[-1])) is None
    eventually(lambda: collected(source, found) >= 400, 60, "all frames in the bridge")
    assert [payload for _, payload in found if len(payload) == 16] == sent
    source.close()
    assert not [f for f in _hops(site.stack) if name in f.detail]


def test_another_setting_of_what_it_tells_waits_for_the_brokers_next_start(site: Site) -> None:
    config = site.stack.home / "config" / "mosquitto"
    before = (config / CONFIG_FILE).read_text()
    assert tells_refused(config)
    settings = site.stack.settings
    silent = settings.model_copy(update={"mqtt": settings.mqtt.model_copy(update={"log_refused": False})})
    Stack(silent, lambda _: None, {}, ["mosquitto"]).renew_identities()
    assert (config / CONFIG_FILE).read_text() == before


def test_a_reread_leaves_absent_clients_alone(site: Site) -> None:
    """One that is ended once more has two ends of its session; the broker falls over the second one."""
    name, kept = vehicle_id(20), Properties(PacketTypes.CONNECT)
    kept.SessionExpiryInterval = 60
    client = mqtt.Client(CallbackAPIVersion.VERSION2, name, protocol=MQTTProtocolVersion.MQTTv5)
    (at := site.as_device(devices.enrol(site.stack, name))).log_in(client)
    client.connect(at.host, at.port, clean_start=False, properties=kept)
    client.loop_start()
    eventually(client.is_connected, 20, "a session")
    client.disconnect()
    client.loop_stop()
    ended = f"Client {name} disconnected."
    eventually(lambda: ended in site.log(), 60, "its end")
    broker = site.stack.runner.find("mosquitto")
    assert broker is not None
    mosquitto_reread(broker.pid, site.stack.runner.log("mosquitto"))
    refusal(site.as_device(devices.enrol(site.stack, vehicle_id(21))))  # the log is written with a delay
    eventually(lambda: f"as {vehicle_id(21)}" in site.log(), 60, "whoever came after the reread")
    assert site.log().count(ended) == 1


def test_a_gateway_speaks_for_the_vehicles_that_it_names(site: Site) -> None:
    with pytest.raises(ConfigError, match="a gateway names its vehicles"):
        devices.enrol(site.stack, "gateway-depot")
    named = (vehicle_id(20), vehicle_id(21))
    gateway = Vehicle(site.as_device(devices.enrol(site.stack, "gateway-depot", vehicles=named)), "any")
    assert gateway.answer(mqtt_topic(site.root, named[1], "telemetry"), b"x") == "Success"
    for topic in (mqtt_topic(site.root, vehicle_id(22), "telemetry"), f"{site.root}/{named[0]}/alert"):
        assert gateway.answer(topic, b"x") == "Not authorized"
    gateway.close()


def test_a_request_keeps_the_key_on_the_device(site: Site) -> None:
    name, key = vehicle_id(30), Ed25519PrivateKey.generate()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    asked = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, None)
    pem = asked.public_bytes(serialization.Encoding.PEM)
    with pytest.raises(ConfigError, match=f"a request for CN={ME}"):
        devices.rotate(site.stack, ME, request=pem)
    made = devices.enrol(site.stack, name, request=pem)
    assert not made.key.exists()
    certificate = x509.load_pem_x509_certificate(made.certificate.read_bytes())
    assert certificate.public_key() == key.public_key()


def test_the_simulator_drives_a_fleet_by_a_certificate_each_or_by_gateways(site: Site) -> None:
    source, found = site.bridge(), list[tuple[str, bytes]]()
    eventually(lambda: source.poll(1, 0.1) == [] and source.subscribed, 60, "the bridge is logged in")
    for connections, devices_made in (("per-vehicle", 3), ("1", 1)):
        known = len(devices.authority(site.stack).issued())
        summary: dict[str, Any] = simulated(site.stack.home, "--connections", connections)
        assert summary["finished"]
        assert len(devices.authority(site.stack).issued()) == known + devices_made
        found.clear()
        frames = summary["messages"]["acked"]
        eventually(lambda frames=frames: collected(source, found) >= frames, 60, "all in the bridge")
    source.close()


def test_beyond_loopback_nothing_listens_without_certificates(tmp_path: Path) -> None:
    open_home = load(paths={"home": str(tmp_path)}, mqtt={"address": "0.0.0.0"})
    with pytest.raises(ConfigError, match=r"ODOGRAPH_MQTT_ADDRESS 0\.0\.0\.0: .* odograph up --secure"):
        Stack(open_home, lambda _: None, {}, ["mosquitto"]).up()
    with pytest.raises(ConfigError, match="this home takes everybody"):
        devices.enrol(Stack(load(paths={"home": str(tmp_path)}), lambda _: None), ME)


def test_addresses_of_a_secure_home_hold_no_key(site: Site) -> None:
    written = json.loads((site.stack.home / "endpoints.json").read_text())
    assert written["mqtt_access"]["cert_file"].endswith("/ca/services/{who}.pem")
    assert (site.stack.home / "ca").stat().st_mode & 0o077 == 0
    assert {path.stat().st_mode & 0o077 for path in (site.stack.home / "ca").rglob("*.key")} == {0}
    secrets = (
        "secrets.json",
        "evidence.key",
        "pseudonym.key",
        "ca/devices/ca.key",
        "ca/services/operator.pem",
    )
    for secret in (*secrets, "logs/mosquitto.log"):
        (path := site.stack.home / secret).read_text()
        taken = subprocess.run(["cat", path], user=USER, capture_output=True, text=True, check=False)
        assert "Permission denied" in taken.stderr, f"a taken broker reads {secret}"
    closed = {name: 0o007 if name in FOLDERS else 0o077 for name in PRIVATE}
    assert {(site.stack.home / name).stat().st_mode & bits for name, bits in closed.items()} == {0}
    run = site.stack.home / "run"
    (site.stack.home / "endpoints.json").write_text(json.dumps(written | {"dashboard_tls": ""}))
    (run / "supervisor.pid").write_text((run / "mosquitto.pid").read_text())
    with pytest.raises(ServiceError, match="odograph down"):
        site.stack._check_secure()
    (run / "supervisor.pid").unlink()
