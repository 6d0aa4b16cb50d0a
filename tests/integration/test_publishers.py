"""Both MQTT clients by the same tests, against a real broker and a link to it that breaks."""

from __future__ import annotations

import socket
import threading

import pytest

from edge_simulator.sending.lean_publisher import LeanPublisher
from edge_simulator.sending.paho_publisher import PahoPublisher
from edge_simulator.sending.publishing import MAX_PER_CONNECTION, Message, Publishing
from infra.clients.mqtt_broker import MqttBroker
from infra.contract.errors import ServiceError
from load_tests.drills.link import Link
from tests.integration.broker_support import ROOT, Broker, Listener
from tests.support import eventually

pytestmark = pytest.mark.integration

Client = type[PahoPublisher] | type[LeanPublisher]


@pytest.fixture(params=[PahoPublisher, LeanPublisher], ids=["paho", "lean"])
def client(request: pytest.FixtureRequest) -> Client:
    found: Client = request.param
    return found


def send(publisher: Publishing, name: str, vehicles: int, seqs: range, kind: str = "telemetry") -> None:
    """A message a vehicle and sequence number, all vehicles of a number together."""
    for seq in seqs:
        batch = [Message(f"{ROOT}/{name}-{v}/telemetry", b"%d" % seq, kind) for v in range(vehicles)]
        publisher.publish_many(list(range(vehicles)), batch)
        publisher.drive(0.0)


def received(listener: Listener, name: str, vehicles: int) -> list[list[int]]:
    """Sequence numbers by vehicle in order of arrival, repeated ones included."""
    found: list[list[int]] = [[] for _ in range(vehicles)]
    for topic, payload in list(listener.received):
        vehicle = topic.split("/")[1].removeprefix(f"{name}-")
        if vehicle.isdecimal():
            found[int(vehicle)].append(int(payload))
    return found


def once(seqs: list[int]) -> list[int]:
    return list(dict.fromkeys(seqs))


def publishes(said: bytes) -> list[tuple[int, int, int]]:
    """The PUBLISH packets in a client's bytes: DUP, packet identifier, number in the payload."""
    found, at = [], 0
    while at < len(said):
        size, shift, k = 0, 0, at + 1
        while True:
            size |= (said[k] & 0x7F) << shift
            shift, k = shift + 7, k + 1
            if said[k - 1] < 0x80:
                break
        if said[at] >> 4 == 3 and k + size <= len(said):
            length = int.from_bytes(said[k : k + 2], "big")
            identifier = int.from_bytes(said[k + 2 + length : k + 4 + length], "big")
            found.append((said[at] >> 3 & 1, identifier, int(said[k + 4 + length : k + size])))
        at = k + size
    return found


def test_every_message_is_acknowledged_counted_and_received_once_in_order(
    broker: Broker, client: Client
) -> None:
    name = f"all-{client.__name__}"
    with (
        Listener(name).listening(broker.port) as listener,
        client([MqttBroker("127.0.0.1", broker.port)], [f"{name}-{k}" for k in range(3)]) as publisher,
    ):
        publisher.connect(5)
        send(publisher, name, 10, range(200))
        send(publisher, name, 10, range(200, 205), kind="poison")
        assert publisher.drain(20) == 0
        assert publisher.counts.sent == publisher.counts.acked == {"telemetry": 2000, "poison": 50}
        assert publisher.counts.reconnects == 0
        median_ms = publisher.latency.quantile_ms(0.5)
        assert median_ms is not None
        assert median_ms < 20_000
        eventually(lambda: len(listener.received) == 2050, 60, "2050 messages")
        assert received(listener, name, 10) == [list(range(205))] * 10


def test_through_a_broken_link_nothing_is_lost_and_each_vehicles_order_is_kept(
    broker: Broker, client: Client
) -> None:
    name = f"broken-{client.__name__}"
    with (
        Listener(name).listening(broker.port) as listener,
        Link("127.0.0.1", broker.port) as link,
        client([MqttBroker("127.0.0.1", link.port)], [f"{name}-{k}" for k in range(2)]) as publisher,
    ):
        publisher.connect(5)
        for cut in range(3):
            send(publisher, name, 6, range(100 * cut, 100 * cut + 60))
            link.refuse()
            send(publisher, name, 6, range(100 * cut + 60, 100 * cut + 100))
            link.heal()
        assert publisher.drain(30) == 0
        assert publisher.counts.acked == {"telemetry": 1800}
        assert publisher.counts.reconnects >= 1
        eventually(lambda: sum(len(once(s)) for s in received(listener, name, 6)) == 1800, 60, "all of them")
        assert [once(seqs) for seqs in received(listener, name, 6)] == [list(range(300))] * 6


def test_what_had_no_acknowledgement_goes_again_first_in_order_and_is_marked(
    broker: Broker, client: Client
) -> None:
    name = f"dup-{client.__name__}"
    with (
        Link("127.0.0.1", broker.port) as link,
        client([MqttBroker("127.0.0.1", link.port)], [name]) as publisher,
    ):
        publisher.connect(5)
        send(publisher, name, 1, range(3))
        assert publisher.drain(10) == 0
        link.stall()
        send(publisher, name, 1, range(3, 23))
        assert publisher.owed == 20
        link.refuse()
        eventually(lambda: publisher.drive(0.01) or publisher.counts.reconnects, 60, "the connection's end")
        send(publisher, name, 1, range(23, 30))
        link.heal()
        assert publisher.drain(20) == 0
        assert publishes(link.heard[0])[:3] == [(0, 1, 0), (0, 2, 1), (0, 3, 2)]
        again = publishes(link.heard[-1])
        assert again[:20] == [(1, number + 1, number) for number in range(3, 23)]
        assert [(dup, number) for dup, _, number in again[20:]] == [(0, number) for number in range(23, 30)]


def test_a_broker_that_falls_silent_is_left_after_the_keep_alive_time(broker: Broker, client: Client) -> None:
    name = f"silent-{client.__name__}"
    with (
        Link("127.0.0.1", broker.port) as link,
        client([MqttBroker("127.0.0.1", link.port)], [name], keepalive_s=1) as publisher,
    ):
        publisher.connect(5)
        link.stall()
        send(publisher, name, 1, range(5))
        eventually(lambda: publisher.drive(0.01) or publisher.counts.reconnects, 60, "a connection given up")
        link.heal()
        assert publisher.drain(20) == 0
        assert publisher.counts.acked == {"telemetry": 5}


def test_connections_are_spread_over_the_brokers_and_go_to_the_next_one_when_theirs_is_lost(
    broker: Broker, client: Client
) -> None:
    name = f"two-{client.__name__}"
    with (
        Listener(name).listening(broker.port) as listener,
        Link("127.0.0.1", broker.port) as one,
        Link("127.0.0.1", broker.port) as other,
        client(
            [MqttBroker("127.0.0.1", one.port), MqttBroker("127.0.0.1", other.port)],
            [f"{name}-{k}" for k in range(4)],
        ) as publisher,
    ):
        publisher.connect(5)
        assert (len(one.heard), len(other.heard)) == (2, 2)
        for lost, numbers in ((one, range(50)), (other, range(50, 100))):
            send(publisher, name, 4, numbers)
            lost.refuse()
            assert publisher.drain(20) == 0
            lost.heal()
        assert publisher.counts.acked == {"telemetry": 400}
        eventually(lambda: sum(len(once(s)) for s in received(listener, name, 4)) == 400, 60, "all of them")
        assert [once(seqs) for seqs in received(listener, name, 4)] == [list(range(100))] * 4


def test_an_idle_connection_is_kept_alive(broker: Broker, client: Client) -> None:
    name = f"idle-{client.__name__}"
    with (
        Link("127.0.0.1", broker.port) as link,
        client([MqttBroker("127.0.0.1", link.port)], [name], keepalive_s=2) as publisher,
    ):
        publisher.connect(5)
        eventually(lambda: publisher.drive(0.01) or link.heard[0].count(b"\xc0\x00") >= 2, 90, "two pings")
        assert publisher.counts.reconnects == 0


def test_more_than_one_connection_may_have_in_flight_waits_its_turn(broker: Broker, client: Client) -> None:
    name = f"many-{client.__name__}"
    count = MAX_PER_CONNECTION + 1500
    with client([MqttBroker("127.0.0.1", broker.port)], [name]) as publisher:
        publisher.connect(5)
        publisher.publish_many([0] * count, [Message(f"{ROOT}/{name}/telemetry", b"1")] * count)
        assert publisher.drain(60) == 0
        assert publisher.counts.acked == {"telemetry": count}


def test_no_broker_is_one_clear_error(client: Client) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with (
        client([MqttBroker("127.0.0.1", port)], ["nobody"]) as publisher,
        pytest.raises(ServiceError, match=f"no MQTT broker at mqtt://127.0.0.1:{port} after 0.3 s .*refused"),
    ):
        publisher.connect(0.3)


def test_a_broker_that_wants_a_password_is_named_with_its_reason(client: Client) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]

        def turn_away() -> None:
            visitor, _ = door.accept()
            with visitor:
                visitor.recv(4096)
                visitor.sendall(b"\x20\x02\x00\x05")

        guard = threading.Thread(target=turn_away)
        guard.start()
        with client([MqttBroker("127.0.0.1", port)], ["stranger"]) as publisher:
            eventually(lambda: publisher.drive(0.01) or not guard.is_alive(), 60, "it is turned away")
            with pytest.raises(ServiceError, match=r"(?i)not authorized"):
                publisher.connect(0.15)


def tell(publisher: Publishing, topic: str, text: str) -> None:
    publisher.publish_many([0], [Message(topic, text.encode())])
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
    with client([MqttBroker("127.0.0.1", broker.port)], [f"{name}-sender"]) as sender:
        sender.connect(5)
        with (
            Link("127.0.0.1", broker.port) as link,
            client(
                [MqttBroker("127.0.0.1", link.port)], [name, f"{name}-deaf"], filters=filters
            ) as publisher,
        ):
            publisher.connect(5)
            tell(sender, f"{ROOT}/{name}/alert", "1")
            assert heard(publisher, 1) == [(f"{ROOT}/{name}/alert", b"1")]
            for number in range(50):
                publisher.publish_many([0], [Message(f"{ROOT}/{name}/telemetry", b"%d" % number)])
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
            [MqttBroker("127.0.0.1", broker.port)], [name], filters={0: [f"{ROOT}/{name}/else"]}
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
        client([MqttBroker("127.0.0.1", link.port)], [f"{name}-0"], {0: gone}) as publisher,
    ):
        publisher.connect(5)
        publisher.publish_many([0], [here])
        assert publisher.drain(10) == 0
        link.refuse()
        eventually(lambda: publisher.drive(0.01) or publisher.counts.reconnects, 60, "the connection's end")
        eventually(lambda: said(listener)[-1:] == [b"offline"], 60, "the will")
        link.heal()
        eventually(lambda: publisher.drive(0.01) or len(said(listener)) == 3, 60, "the birth again")
        assert said(listener) == [b"online", b"offline", b"online"]
        assert publisher.drain(10) == 0
