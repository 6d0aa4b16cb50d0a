"""Both MQTT clients as listeners, and coming back after a last will; a real broker and a link that breaks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from edge_simulator.sending.lean_publisher import LeanPublisher
from edge_simulator.sending.paho_publisher import PahoPublisher
from edge_simulator.sending.publishing import Message, Publishing
from infra.clients.mqtt_broker import MqttBroker
from load_tests.drills.link import Link
from tests.integration.broker_support import ROOT, Broker, Listener, a_broker
from tests.support import eventually

pytestmark = pytest.mark.integration

Client = type[PahoPublisher] | type[LeanPublisher]


@pytest.fixture(scope="module")
def broker(clean_environment: None) -> Iterator[Broker]:
    with a_broker() as made:
        yield made


@pytest.fixture(params=[PahoPublisher, LeanPublisher], ids=["paho", "lean"])
def client(request: pytest.FixtureRequest) -> Client:
    found: Client = request.param
    return found


def tell(publisher: Publishing, topic: str, text: str) -> None:
    publisher.publish(0, Message(topic, text.encode()))
    assert publisher.drain(10) == 0


def heard(publisher: Publishing, count: int) -> list[tuple[str, bytes]]:
    """What the publisher has heard, when it is ``count`` different messages."""
    found: list[tuple[str, bytes]] = []

    def enough() -> bool:
        publisher.drive(0.01)
        found.extend((message.topic, message.payload) for message in publisher.take())
        return len(set(found)) >= count

    eventually(enough, 60, f"{count} messages")
    return found


def test_a_listener_hears_what_came_while_it_was_away_and_leaves_no_session_behind(
    broker: Broker, client: Client
) -> None:
    name = f"ear-{client.__name__}"
    filters = {0: [f"{ROOT}/{name}/alert", f"{ROOT}/all/notice"]}
    with client(MqttBroker("127.0.0.1", broker.port), [f"{name}-sender"]) as sender:
        sender.connect(5)
        with (
            Link("127.0.0.1", broker.port) as link,
            client(MqttBroker("127.0.0.1", link.port), [name, f"{name}-deaf"], filters=filters) as publisher,
        ):
            publisher.connect(5)
            tell(sender, f"{ROOT}/{name}/alert", "1")
            assert heard(publisher, 1) == [(f"{ROOT}/{name}/alert", b"1")]
            for number in range(50):
                publisher.publish(0, Message(f"{ROOT}/{name}/telemetry", b"%d" % number))
            link.refuse()
            eventually(lambda: publisher.drive(0.01) or publisher.counts.reconnects, 60, "the end of it")
            tell(sender, f"{ROOT}/{name}/alert", "2")
            tell(sender, f"{ROOT}/all/notice", "3")
            link.heal()
            found = heard(publisher, 2)
            assert [payload for _, payload in found][-2:] == [b"2", b"3"]
            assert publisher.drain(20) == 0
            assert publisher.counts.acked == {"telemetry": 50}
        with client(
            MqttBroker("127.0.0.1", broker.port), [name], filters={0: [f"{ROOT}/{name}/else"]}
        ) as again:
            again.connect(5)
            tell(sender, f"{ROOT}/{name}/alert", "4")
            tell(sender, f"{ROOT}/{name}/else", "5")
            assert heard(again, 1) == [(f"{ROOT}/{name}/else", b"5")]


def test_who_comes_back_after_its_last_will_says_again_that_it_is_there(
    broker: Broker, client: Client
) -> None:
    name = f"back-{client.__name__}"
    topic = f"{ROOT}/{name}/status"

    def said(listener: Listener) -> list[bytes]:
        return [payload for where, payload in list(listener.received) if where == topic]

    here = Message(topic, b"online", "status", retain=True)
    gone = Message(topic, b"offline", "status")
    with (
        Listener(name).listening(broker.port) as listener,
        Link("127.0.0.1", broker.port) as link,
        client(MqttBroker("127.0.0.1", link.port), [f"{name}-0"], {0: gone}) as publisher,
    ):
        publisher.connect(5)
        publisher.publish(0, here)
        assert publisher.drain(10) == 0
        link.refuse()
        eventually(lambda: publisher.drive(0.01) or publisher.counts.reconnects, 60, "the connection's end")
        eventually(lambda: said(listener)[-1:] == [b"offline"], 60, "the will")
        link.heal()
        eventually(lambda: publisher.drive(0.01) or len(said(listener)) == 3, 60, "the birth again")
        assert said(listener) == [b"online", b"offline", b"online"]
        assert publisher.drain(10) == 0
