"""Which message an acknowledgement is for: the bridge is killed when only some of what it read is stored.

The topic of frames is taken away, that of dead letters stays. So frames wait while poison is stored; after
the kill the broker must still hold every frame.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any, Final

from infra.contract import topics
from infra.stack import probes
from infra.stack.kafka import create_topics
from load_tests.drills.checker import Findings, Identity, check
from load_tests.drills.evidence import Log
from load_tests.drills.flow import settle
from load_tests.drills.site import Site, until
from load_tests.drills.topic_admin import delete_topic
from load_tests.drills.verdict import Promise, Verdict, counts, nothing_lost
from load_tests.mqtt_flood import Flood, frame, vehicle_id

VINS: Final = tuple(f"2HGCM82633A{number:06d}" for number in range(10))
EACH: Final = 100
WAIT_S: Final = 60.0
ACKS_LEAVE_S: Final = 1.0
"""A wrong acknowledgement is sent within this after the record's report."""
RECEIVED: Final = "odograph_bridge_messages_received_total"
RECONNECTS: Final = "odograph_bridge_reconnects_total"
STALE: Final = "odograph_bridge_stale_acks_total"

Messages = list[tuple[bytes, bytes]]


def acks(site: Site, mutant: str | None = None) -> Verdict:
    """Frames behind poison, then frames of a new connection behind poison of the old one."""
    log = Log(site.settings, site.endpoints)
    log.begin_here("dead-letter")
    in_turn = _in_turn(site, log, mutant)
    by_connection, stale = _by_connection(site, log, mutant)
    promises = (
        *_named("frames before poison", in_turn),
        *_named("frames of the next connection", by_connection),
        Promise("acks of a closed connection are dropped", stale == 1, f"{stale} of 1"),
    )
    both = {name: count + counts(by_connection)[name] for name, count in counts(in_turn).items()}
    figures: dict[str, Any] = both | {"stale_acks": stale}
    return Verdict("acks", promises, figures, mutant)


def _named(act: str, found: Findings) -> list[Promise]:
    return [Promise(f"{act}: {p.text}", p.holds, p.found) for p in nothing_lost(found)]


def _in_turn(site: Site, log: Log, mutant: str | None) -> Findings:
    """Poison is stored when frames received after it are not."""
    site.bridge(mutant)
    with _without_frames(site):
        with site.paused("kafka"):
            _publish(site, [_poison(site)])
            _received(site, 1)
            frames, identities = _frames(site, 0)
            _publish(site, frames)
            _received(site, 1 + EACH)
        _poison_stored(log, 1)
        site.kill("bridge")
    return _drained(site, log, identities)


def _by_connection(site: Site, log: Log, mutant: str | None) -> tuple[Findings, int]:
    """Poison of one connection is stored when a frame of the next one carries its packet id."""
    site.bridge(mutant)
    _new_session(site)
    with _without_frames(site):
        before, dead = site.wait_metrics()[RECEIVED], log.appended("dead-letter")
        with site.paused("kafka"):
            _publish(site, [_poison(site)])
            _received(site, before + 1)
            _new_session(site)
            frames, identities = _frames(site, EACH)
            _publish(site, frames)
            _received(site, before + 1 + EACH)
        _poison_stored(log, dead + 1)
        stale = int(site.metrics().get(STALE, 0))
        site.kill("bridge")
    return _drained(site, log, identities), stale


@contextlib.contextmanager
def _without_frames(site: Site) -> Iterator[None]:
    """The topic of frames is gone during the block, and new and empty after it."""
    topic = topics.kafka_topic(site.settings.kafka.prefix, "telemetry")
    delete_topic(site.endpoints.kafka_bootstrap, topic)
    until(lambda: "missing" in _trouble(site), WAIT_S, "the bridge misses the topic")
    yield
    create_topics(site.endpoints.kafka_bootstrap, site.settings.kafka.prefix)


def _trouble(site: Site) -> str:
    return probes.readyz(site.endpoints.http_ports["bridge"]) or ""


def _new_session(site: Site) -> None:
    """Make the broker forget the bridge: packet ids begin anew on its next connection."""
    before = site.wait_metrics()[RECONNECTS]
    client_id = f"{site.settings.bridge.client_id}-telemetry"
    with Flood(site.endpoints.mqtt_host, site.endpoints.mqtt_port, client_id):
        pass  # the broker has let this one in: it has thrown the bridge out
    until(lambda: site.metrics().get(RECONNECTS, 0) > before, WAIT_S, "the bridge has a new connection")
    until(lambda: "mqtt" not in _trouble(site), WAIT_S, "the bridge has subscribed")


def _frames(site: Site, first_seq: int) -> tuple[Messages, list[Identity]]:
    now_ms = time.time_ns() // 1_000_000
    identities = [(vin, 1, first_seq + k // len(VINS)) for k in range(EACH) for vin in [VINS[k % len(VINS)]]]
    root, other = site.settings.mqtt.root, vehicle_id(0).encode()
    names = [topics.mqtt_topic(root, vin, "telemetry").encode() for vin, _, _ in identities]
    bodies = [frame(0, seq, now_ms + seq).replace(other, vin.encode(), 1) for vin, _, seq in identities]
    return list(zip(names, bodies, strict=True)), identities


def _poison(site: Site) -> tuple[bytes, bytes]:
    return topics.mqtt_topic(site.settings.mqtt.root, VINS[0], "telemetry").encode(), b"poison"


def _publish(site: Site, messages: Messages) -> None:
    with Flood(site.endpoints.mqtt_host, site.endpoints.mqtt_port, "drill-acks") as flood:
        flood.publish(messages)


def _received(site: Site, total: float) -> None:
    until(lambda: site.metrics().get(RECEIVED, 0) >= total, WAIT_S, f"{total:g} messages received")


def _poison_stored(log: Log, total: int) -> None:
    until(lambda: log.appended("dead-letter") >= total, WAIT_S, "the poison is stored")
    time.sleep(ACKS_LEAVE_S)


def _drained(site: Site, log: Log, identities: list[Identity]) -> Findings:
    """What became of the frames, once an honest bridge has moved what the broker holds."""
    site.bridge()
    settle(site, WAIT_S)
    site.stop("bridge")
    return check(identities, log.stored())
