"""F16, and what only Kafka refuses: messages that are wrong, among healthy ones."""

from __future__ import annotations

import random
import statistics
import threading
import time
from dataclasses import replace
from typing import Any, Final

import numpy as np
import orjson

from infra.contract import topics
from load_tests.drills.checker import Identity, check, check_dead
from load_tests.drills.evidence import Log, compare, sent, tail
from load_tests.drills.flow import Load, finish, settle
from load_tests.drills.site import Site
from load_tests.drills.topic_admin import configure_topic
from load_tests.drills.verdict import Promise, Verdict, counts, nothing_lost
from load_tests.drills.watch import Watch
from load_tests.mqtt_flood import Flood, frame, vehicle_id

POISON: Final = 0.05
PAIRS: Final = 3
"""Runs without and with poison, in turn: what else the machine does befalls both."""
SLOWER: Final = 1.5
END_S: Final = 180.0
REFUSED_BYTES: Final = 30_000
REFUSED_EVERY: Final = 300
REFUSED_COUNT: Final = 6000
OTHER_VIN: Final = "2HGCM82633A"


class Latencies:
    """Reads the log as it grows: from a frame's time of sending to its reading, by the run's boot id, ms."""

    def __init__(self, site: Site) -> None:
        self.by_run: dict[int, list[float]] = {}
        self._consumer = tail(site.settings, site.endpoints)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="latencies", daemon=True)

    def __enter__(self) -> Latencies:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            found = self._consumer.consume(500, timeout=0.005)
            now_ms = time.time() * 1000
            for message in found:
                value = message.value() if message.error() is None else None
                if value:
                    body = orjson.loads(value)
                    self.by_run.setdefault(body["boot_id"], []).append(now_ms - body["sent_ms"])

    def p99_ms(self, boot_id: int) -> float:
        """Of one run."""
        return round(float(np.percentile(self.by_run[boot_id], 99)), 1)


def f16(site: Site, load: Load, pairs: int = PAIRS, timed: bool = True) -> Verdict:
    """Two fleets of half the rate each: healthy ones, and others with poison among their frames or without.

    Runs without and with poison in turn, each of ``load.duration_s``. Latency is the first fleet's, so that
    what poison costs its own sender is no part of it. Without ``timed`` it is told, and promises nothing.
    """
    log = Log(site.settings, site.endpoints)
    log.begin_here("telemetry", "dead-letter")
    in_turn = [f"f16-{word}-{k}" for k in range(pairs) for word in ("clean", "poison")]
    with Watch(site) as watch, Latencies(site) as latencies:
        site.bridge()
        for run_id in in_turn:
            _two_fleets(site, run_id, load)
        watch.look()
    written = sent(site.home, *(name for run_id in in_turn for name in (run_id, f"{run_id}-beside")))
    found = compare(log, written)
    dead = check_dead(log.poison(written.poison), (letter for letter, _ in log.letters()))
    p99s = {run_id: latencies.p99_ms(site.run_file(run_id)["boot_id"]) for run_id in in_turn}
    plain, with_poison = (
        statistics.median(p99 for run_id, p99 in p99s.items() if word in run_id)
        for word in ("clean", "poison")
    )
    promises = [
        *nothing_lost(found),
        Promise("all poison is dead-lettered", dead.missing == 0,
                f"{len(written.poison) - dead.missing} of {len(written.poison)}"),
        Promise("each with the right reason", dead.wrong_reason == 0, f"{dead.by_reason}"),
        Promise("nothing else is dead-lettered", dead.foreign == 0, f"{dead.foreign}"),
    ]  # fmt: skip
    if timed:
        promises.append(Promise(f"p99 of healthy frames at most {SLOWER} x", with_poison <= SLOWER * plain,
                                f"{with_poison} ms after {plain} ms"))  # fmt: skip
    figures: dict[str, Any] = counts(found) | {
        "poison": len(written.poison),
        "p99_ms": p99s,
        "p99_ratio": round(with_poison / plain, 2),
        "bridge_peak_mb": round(watch.peak_mb),
    }
    return Verdict("f16", tuple(promises), figures)


def _two_fleets(site: Site, run_id: str, load: Load) -> None:
    """One run; poison, if its name says so, is ``POISON`` of all."""
    half = replace(load, rate=load.rate / 2)
    share = ("--poison", str(2 * POISON)) if "poison" in run_id else ()
    site.simulate(f"{run_id}-beside", *replace(half, seed=load.seed + 1).arguments(*share))
    site.simulate(run_id, *half.arguments())
    finish(site, run_id, load.duration_s + END_S)
    finish(site, f"{run_id}-beside", load.duration_s + END_S)
    settle(site, END_S)


def refused(site: Site, mutant: str | None = None) -> Verdict:
    """Sound frames that are too large for the topic as it is configured, among others of their vehicles."""
    log = Log(site.settings, site.endpoints)
    log.begin_here("telemetry", "dead-letter")
    topic = topics.kafka_topic(site.settings.kafka.prefix, "telemetry")
    configure_topic(site.endpoints.kafka_bootstrap, topic, "max.message.bytes", str(REFUSED_BYTES))
    messages, good, large = _with_large_ones(site)
    site.bridge(mutant)
    with Flood(site.endpoints.mqtt_host, site.endpoints.mqtt_port, "drill-refused") as flood:
        flood.publish(messages)
    settle(site, END_S)
    found = check(good, log.stored())
    letters = [letter.reason for letter, _ in log.letters()]
    promises = (
        *nothing_lost(found),
        Promise("what Kafka refuses is dead-lettered", letters == ["unstorable"] * large,
                f"{len(letters)} of {large}"),
    )  # fmt: skip
    return Verdict("refused", promises, counts(found) | {"dead": len(letters)}, mutant)


def _with_large_ones(site: Site) -> tuple[list[tuple[bytes, bytes]], list[Identity], int]:
    """Messages in order, the identities of those that fit, and how many do not."""
    noise, now_ms = random.Random(7), time.time_ns() // 1_000_000
    messages, good = [], []
    for at in range(REFUSED_COUNT):
        vin, seq = f"{OTHER_VIN}{at % 20:06d}", at // 20
        body = frame(0, seq, now_ms + seq).replace(vehicle_id(0).encode(), vin.encode(), 1)
        if at % REFUSED_EVERY == REFUSED_EVERY - 1:
            body = orjson.dumps(orjson.loads(body) | {"noise": noise.randbytes(25_000).hex()})
        else:
            good.append((vin, 1, seq))
        messages.append((topics.mqtt_topic(site.settings.mqtt.root, vin, "telemetry").encode(), body))
    return messages, good, REFUSED_COUNT - len(good)
