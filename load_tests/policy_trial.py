"""The MQTT rules of the policy, each tried at a real secure broker: what they allow happens, nothing else.

Every program, a vehicle and a gateway write to every kind of topic and listen to all; each is judged by the
rules of ``infra/contract/policy.py`` and by what the broker did. A difference is exit 1.

Run: python -m load_tests.policy_trial
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from infra.clients.mqtt_broker import MqttBroker
from infra.clients.tables import aligned
from infra.contract import policy
from infra.contract.policy import ANYBODY, BOTH, MQTT, PROGRAMS, READ, VEHICLE, WRITE, Rule
from infra.contract.topics import DOWNLINK_CHANNELS, EVERYBODY, UPLINK_CHANNELS, mqtt_topic
from infra.settings.settings import Endpoints, load
from infra.stack import devices
from infra.stack.fetch import fetch_all
from infra.stack.processes import guarded
from infra.stack.stack import Stack
from load_tests.mqtt_flood import vehicle_id

ME, OTHER, NAMED, GATEWAY = vehicle_id(0), vehicle_id(1), vehicle_id(2), "gateway-trial"
ANSWER_S: Final = 15.0
SYS: Final = "$SYS/broker/clients/connected"
"""Written by the broker itself, each second."""


@dataclass(slots=True)
class Party:
    """A principal at the broker: its rules, and what the broker answered and gave it."""

    name: str
    rules: Sequence[Rule]
    broker: MqttBroker
    codes: dict[int, bool] = field(default_factory=dict)
    heard: set[tuple[str, bytes]] = field(default_factory=set)
    subscribed: bool = False

    def may(self, operation: str, root: str, topic: str) -> bool:
        """What the policy says."""
        filters = (r.resource.format(root=root, me=self.name) for r in self.rules
                   if r.operation in (operation, BOTH))  # fmt: skip
        return any(mqtt.topic_matches_sub(found, topic) for found in filters)


@contextmanager
def connected(party: Party) -> Iterator[mqtt.Client]:
    """The party, listening to everything that it is given."""
    made = mqtt.Client(
        CallbackAPIVersion.VERSION2, f"trial-{party.name}", protocol=MQTTProtocolVersion.MQTTv5
    )
    party.broker.log_in(made)
    made.on_publish = lambda _c, _d, mid, code, _p: party.codes.update({mid: not code.is_failure})
    made.on_message = lambda _c, _d, got: party.heard.add(
        (got.topic, b"" if got.topic == SYS else bytes(got.payload))
    )
    made.on_subscribe = lambda *_: setattr(party, "subscribed", True)
    made.connect(party.broker.host, party.broker.port)
    made.loop_start()
    made.subscribe([("#", 1), ("$SYS/#", 1)])
    wait(lambda: party.subscribed, f"{party.name} is not let in")
    yield made
    made.disconnect()
    made.loop_stop()


def wait(done: object, what: str) -> None:
    """Until ``done()``; raises TimeoutError."""
    end_s = time.monotonic() + ANSWER_S
    while not done():  # type: ignore[operator]
        if time.monotonic() > end_s:
            raise TimeoutError(what)
        time.sleep(0.01)


def topics(root: str) -> Iterator[str]:
    """One of every kind, of several vehicles."""
    for vehicle in (ME, OTHER, NAMED):
        yield from (mqtt_topic(root, vehicle, name) for name in (*UPLINK_CHANNELS, *DOWNLINK_CHANNELS))
        yield from (f"{root}/{vehicle}/{name}" for name in UPLINK_CHANNELS)
    yield from (f"{root}/{EVERYBODY}/notice", f"{root}/{EVERYBODY}/alert")
    yield from ("odograph-probe/x", "odograph-retire/x", "elsewhere/x", SYS)


def parties(stack: Stack, where: Endpoints) -> list[Party]:
    """Every program, a vehicle, and a gateway for another."""
    of = {n: [rule for rule in MQTT if rule.principal in (n, ANYBODY)] for n in (*PROGRAMS, VEHICLE, ANYBODY)}
    found = [Party(name, of[name], where_of(stack, name)) for name in PROGRAMS]
    certificates = {ME: devices.enrol(stack, ME), GATEWAY: devices.enrol(stack, GATEWAY, vehicles=[NAMED])}
    rules = {ME: of[VEHICLE], GATEWAY: [*policy.of_gateway((NAMED,)), *of[ANYBODY]]}
    brokers = {name: devices.broker_of(where, stack.home, one) for name, one in certificates.items()}
    return found + [Party(name, rules[name], broker) for name, broker in brokers.items()]


def where_of(stack: Stack, name: str) -> MqttBroker:
    """The programs' listener, as one of them."""
    return stack.endpoints(stack.ports()).logged_in(name).mqtt


def tried(found: Sequence[Party], root: str) -> Iterator[tuple[str, str, str, bool, bool]]:
    """Principal, operation, topic, what the policy says, what the broker did."""
    with ExitStack() as ending:
        clients = {party.name: ending.enter_context(connected(party)) for party in found}
        sent: dict[str, set[bytes]] = defaultdict(set)
        for party in found:
            for topic in topics(root):
                payload = f"{party.name} {topic}".encode()
                mid = clients[party.name].publish(topic, payload, qos=1).mid
                wait(lambda p=party, m=mid: m in p.codes, f"{party.name}: no answer to {topic}")
                yield party.name, WRITE, topic, party.may(WRITE, root, topic), party.codes[mid]
                sent[topic] |= {payload} if party.codes[mid] else set()
        sent[SYS] = {b""}
        time.sleep(2.5)  # longer than $SYS takes; what comes at all has come before
        for party in found:
            for topic, payloads in sent.items():
                if payloads:
                    got = any((topic, payload) in party.heard for payload in payloads)
                    yield party.name, READ, topic, party.may(READ, root, topic), got


def trial() -> list[tuple[str, str, str, bool, bool]]:
    """All of it, at a broker of its own."""
    home = Path(tempfile.mkdtemp(prefix="odograph-policy-"))
    settings = load(paths={"home": str(home)}, secure=True)
    fetch_all(settings.paths.cache, ("mosquitto",))
    stack = Stack(settings, lambda _: None, {}, ["mosquitto"])
    with guarded(home, remove=True):
        rows = [*tried(parties(stack, stack.up()), settings.mqtt.root)]
        stack.down()
    return rows


def differences(rows: Iterable[tuple[str, str, str, bool, bool]]) -> list[tuple[str, str, str, bool, bool]]:
    """Where the broker did not do what the policy says."""
    return [row for row in rows if row[3] != row[4]]


def main() -> None:
    """Counts by principal, and each difference."""
    rows = trial()
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for name, _, _, wanted, _ in rows:
        counts[name][not wanted] += 1
    allowed, refused = (sum(pair[k] for pair in counts.values()) for k in (0, 1))
    print(aligned([(name, *pair) for name, pair in counts.items()], ("principal", "permissions", "refusals")))
    wrong = differences(rows)
    print(f"tried: {allowed} permissions, {refused} refusals; differences: {len(wrong)}")
    for name, operation, topic, wanted, done in wrong:
        print(f"{name} {operation} {topic}: policy {wanted}, broker {done}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
