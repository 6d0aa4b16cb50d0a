"""C5 and C6: several MQTT brokers, one is killed; several bridges, one is killed and another one joins."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

import orjson
from paho.mqtt import subscribe

from bridge.uplink.service import window
from infra.contract.topics import UNSLOTTED
from load_tests.drills.aggregates import accounted, balanced, start_jobs, windows
from load_tests.drills.evidence import Log, compare, sent
from load_tests.drills.flow import Load, drained, finish, flows
from load_tests.drills.journeys import trips
from load_tests.drills.site import Site, until
from load_tests.drills.verdict import Promise, Verdict, counts, nothing_lost

CONNECTIONS: Final = ("--connections", "20")
HELD_S: Final = 3.0
"""So long the bridge stands still before the broker is killed: what was acknowledged lies there alone."""
RECOVERY_S: Final = 10.0
BEGIN_S: Final = 120.0
STALL_S: Final = 0.5
FIGURES_S: Final = 2.5
"""Brokers write their figures once a second."""
EGRESS: Final = 1.05
BRIDGES: Final = 3
BYTES: Final = ("$SYS/broker/publish/bytes/received", "$SYS/broker/publish/bytes/sent")
LANES: Final = 2


def c5(site: Site, load: Load, mutant: str | None = None) -> Verdict:
    """kill -9 one of two brokers while it holds frames; it comes back when all is over."""
    log = Log(site.settings, site.endpoints)
    log.begin_here("telemetry")
    site.bridge()
    start_jobs(site)
    forgetful = ("--keep-sent", "1ms") if mutant == "no-keep" else ()
    site.simulate("c5", *load.arguments(*CONNECTIONS, *forgetful))
    flows(site, "c5", load.rate * load.duration_s / 3, load.duration_s + BEGIN_S)
    victim = "mosquitto-1"
    with site.paused("bridge"):
        time.sleep(HELD_S)
        site.kill(victim)
        killed_ms = time.time_ns() // 1_000_000
    finish(site, "c5", load.duration_s + BEGIN_S)
    if mutant is None:  # else it might still have on its disk what the vehicles have not kept
        site.restart_service(victim)
    drained(site, ["bridge"])
    ledger = balanced(site)
    written = sent(site.home, "c5")
    found = compare(log, written)
    back_s = _recovery_s(log, killed_ms)
    promises = (
        *nothing_lost(found),
        accounted(ledger),
        windows(site, log, [vehicle for vehicle, _, _ in written.frames]).promise(),
        trips(site, log),
        Promise(f"every vehicle is heard again within {RECOVERY_S:g} s", back_s <= RECOVERY_S,
                f"{back_s:g} s at most"),
    )  # fmt: skip
    return Verdict("c5", promises, counts(found) | {"recovery_s": back_s}, mutant)


def _recovery_s(log: Log, fault_ms: int) -> float:
    """From the fault until the last vehicle's first frame that was sent after it is received, s."""
    first: dict[str, int] = {}
    for received_ms, value in log.records(lambda _: True):
        frame = orjson.loads(value)
        if frame["sent_ms"] > fault_ms:
            known = first.get(frame["vehicle_id"], received_ms)
            first[frame["vehicle_id"]] = min(known, received_ms)
    return round((max(first.values()) - fault_ms) / 1000, 2)


def c6(site: Site, load: Load, mutant: str | None = None) -> Verdict:
    """kill -9 one of three bridges with much in flight; later a fourth one joins."""
    log = Log(site.settings, site.endpoints)
    log.begin_here("telemetry", "dead-letter")
    names = [f"bridge-{number}" for number in range(1, BRIDGES + 1)]
    for number in range(1, BRIDGES + 1):
        site.bridge(mutant, number)
    _shared_out(site, names)
    before = _traffic(site)
    site.simulate("c6", *load.arguments(*CONNECTIONS))
    deadline_s = load.duration_s + BEGIN_S
    flows(site, "c6", load.rate * load.duration_s / 4, deadline_s)
    with site.paused("kafka"):
        time.sleep(STALL_S)
        site.kill("bridge-2")
    names.remove("bridge-2")
    taken_over_s = _shared_out(site, names)
    flows(site, "c6", load.rate * load.duration_s / 2, deadline_s)
    names.append("bridge-4")
    site.bridge(mutant, 4)
    joined_s = _shared_out(site, names)
    shares = [round(site.wait_metrics(name)["odograph_bridge_slots"] / LANES) for name in names]
    finish(site, "c6", deadline_s)
    drained(site, names)
    time.sleep(FIGURES_S)
    came, went = (now - was for now, was in zip(_traffic(site), before, strict=True))
    found, dead = compare(log, sent(site.home, "c6")), log.appended("dead-letter")
    bound = window(site.settings.bridge.max_in_flight)
    promises = (
        *nothing_lost(found),
        Promise("duplicates at most a window", found.doubled <= bound, f"{found.doubled} of {bound}"),
        Promise("nothing dead-lettered", dead == 0, f"{dead}"),
        Promise(f"the broker sends at most {EGRESS} x of what it receives", went <= EGRESS * came,
                f"{went / came:.3f} x of {came / 1e6:.1f} MB"),
        Promise("the fourth has its share of the slots", min(shares) > 0, f"{shares}"),
    )  # fmt: skip
    figures: dict[str, Any] = {
        "taken_over_s": taken_over_s,
        "joined_s": joined_s,
        "egress": round(went / came, 3),
    }
    return Verdict("c6", promises, counts(found) | figures, mutant)


def _shared_out(site: Site, names: Sequence[str]) -> float:
    """Wait until each slot is served by one of these bridges, on all lanes; how long it took, s."""
    begun_s, wanted = time.monotonic(), LANES * (UNSLOTTED + 1)

    def served() -> bool:
        shares = [site.metrics(name).get("odograph_bridge_slots", 0.0) for name in names]
        return sum(shares) == wanted and min(shares) > 0

    until(served, BEGIN_S, f"{wanted} slots and lanes are served by {', '.join(names)}")
    return round(time.monotonic() - begun_s, 2)


def _traffic(site: Site) -> tuple[int, int]:
    """Bytes of payload that the broker has received and sent."""
    where = site.endpoints.mqtt
    told: Any = subscribe.simple(list(BYTES), msg_count=2, hostname=where.host, port=where.port)  # type: ignore[no-untyped-call]
    found = {message.topic: int(message.payload) for message in told}
    return found[BYTES[0]], found[BYTES[1]]
