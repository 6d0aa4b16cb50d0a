"""Every MQTT client of the product at a broker that wants TLS, a client's certificate and a password."""

from __future__ import annotations

import gc
import ssl
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bridge.downlink.vehicles import notify
from bridge.uplink import service
from bridge.uplink.mqtt_source import MqttSource, SourceConfig, end_session
from edge_simulator.sending.lean_publisher import LeanPublisher
from edge_simulator.sending.paho_publisher import PahoPublisher
from edge_simulator.sending.publishing import Message
from infra.clients.mqtt_broker import MqttBroker
from infra.contract.errors import ServiceError
from infra.settings.settings import Endpoints, Settings, load
from infra.stack import probes
from infra.stack.access.identity import ensure_keys
from infra.stack.downloads import cache
from infra.stack.downloads.fetch import fetch_all
from infra.stack.mosquitto import broker_figures
from infra.stack.processes import guarded
from load_tests.secure_broker import secure_broker
from tests.support import eventually

pytestmark = [
    pytest.mark.integration,
    # paho leaves the socket of a failed handshake to the garbage collector
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
PASSWORD = "p@ss/word of the tests"
CLIENTS = pytest.mark.parametrize("kind", [PahoPublisher, LeanPublisher], ids=["paho", "lean"])


@pytest.fixture(scope="module")
def broker() -> Iterator[MqttBroker]:
    home = Path(tempfile.mkdtemp(prefix="odograph-tls-"))
    home.chmod(0o711)  # the broker's user must reach its folders
    folder = load(paths={"home": str(home)}).paths.cache
    fetch_all(folder, ("mosquitto",))
    with guarded(home, remove=True), secure_broker(cache.rootfs(folder), home / "b", PASSWORD) as made:
        yield made
        gc.collect()  # those sockets, before the next module's tests meet them


def addresses(broker: MqttBroker) -> Endpoints:
    """As `odograph up` writes them."""
    access = broker.access()
    where = Endpoints(broker.host, broker.port, "127.0.0.1:1", "", "", "", mqtt_access=access)
    assert where.mqtt == broker
    assert PASSWORD not in repr(where) + repr(broker) + str(broker)
    return where


def source_of(settings: Settings, broker: MqttBroker) -> MqttSource:
    return service.lane_of("telemetry", settings, addresses(broker)).inlets[0].source


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    name = uuid.uuid4().hex[:10]
    made = load(
        paths={"home": str(tmp_path)}, mqtt={"root": f"{name}/v1"}, bridge={"client_id": f"{name}-bridge"}
    )
    ensure_keys(made)
    return made


@CLIENTS
def test_frames_and_what_vehicles_are_told_pass_in_both_directions(
    kind: type[PahoPublisher] | type[LeanPublisher], settings: Settings, broker: MqttBroker
) -> None:
    root = settings.mqtt.root
    source = source_of(settings, broker)
    eventually(lambda: source.poll(1, 0.1) == [] and source.subscribed, 60, "the bridge is connected")
    frames = [b"%d " % k + b"x" * 3000 for k in range(300)]  # more than records of TLS and buffers hold
    with kind([broker], ["tls-vehicle"], filters={0: [f"{root}/all/notice"]}) as vehicle:
        vehicle.connect(60)
        vehicle.publish_many([0] * 300, [Message(f"{root}/v/telemetry", frame) for frame in frames])
        assert vehicle.drain(60) == 0
        found: list[bytes] = []
        eventually(lambda: taken(source, found) == 300, 60, "300 frames in the bridge")
        assert found == frames
        for _ in range(20):
            notify(settings, addresses(broker), "Ice", "MINOR", (), 60, keep=False)
        heard: list[bytes] = []
        eventually(lambda: listened(vehicle, heard) == 20, 60, "20 notices in the vehicle")
    source.close()
    session = settings.paths.home / "sessions" / "ended"
    end_session(SourceConfig(broker, f"{settings.bridge.client_id}-telemetry", (), 1, session))


def taken(source: MqttSource, found: list[bytes]) -> int:
    for topic, packet_id, payload in source.poll(1000, 0.05):
        source.ack([packet_id])
        found += [payload] if topic.endswith(b"/telemetry") else []
    return len(found)


def listened(vehicle: PahoPublisher | LeanPublisher, heard: list[bytes]) -> int:
    vehicle.drive(0.05)
    heard += [message.payload for message in vehicle.take()]
    return len(heard)


def test_probe_and_figures_reach_it(broker: MqttBroker) -> None:
    assert probes.mqtt_echo(broker) == f"mqtts://127.0.0.1:{broker.port} echoes"
    assert broker_figures(broker).clients >= 1


@CLIENTS
def test_a_certificate_of_another_authority_is_refused_in_clear_words(
    kind: type[PahoPublisher] | type[LeanPublisher], settings: Settings, broker: MqttBroker
) -> None:
    wrong = replace(broker, ca_file=str(Path(broker.ca_file).parents[3] / "other.pem"))
    told = r"certificate that is not trusted \(.*\); check ODOGRAPH_MQTT_CA_FILE"
    with pytest.raises(ServiceError, match=told), kind([wrong], ["stranger"]) as vehicle:
        vehicle.connect(1.0)
    with pytest.raises(ServiceError, match=told):
        probes.mqtt_echo(wrong)
    source = source_of(settings, wrong)
    eventually(lambda: source.poll(1, 0.1) == [] and "not trusted" in str(source.reason()), 60, "refused")
    source.close()


@CLIENTS
def test_a_wrong_password_no_certificate_and_no_tls_are_refused_in_clear_words(
    kind: type[PahoPublisher] | type[LeanPublisher], broker: MqttBroker
) -> None:
    with pytest.raises(ServiceError, match=r"(?i)not authori[sz]ed|bad user name"):
        connected(kind, replace(broker, password="wrong"))
    with pytest.raises(ServiceError, match="no MQTT broker at mqtts://"):
        connected(kind, replace(broker, cert_file="", key_file=""), within_s=0.4)
    with pytest.raises(ServiceError, match="no MQTT broker at mqtt://"):
        connected(kind, MqttBroker(broker.host, broker.port, broker.user, broker.password), within_s=0.4)
    with pytest.raises(ServiceError, match="refuses us: Not authorized"):
        probes.mqtt_echo(replace(broker, password="wrong"))


def connected(
    kind: type[PahoPublisher] | type[LeanPublisher], broker: MqttBroker, within_s: float = 1.0
) -> None:
    with kind([broker], ["stranger"]) as vehicle:
        vehicle.connect(within_s)


def test_the_name_in_the_certificate_counts(broker: MqttBroker) -> None:
    context = broker.context()
    assert context is not None
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)
