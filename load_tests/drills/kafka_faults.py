"""F3, F4 and F14: Kafka is killed, stands still, or has no room left."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from load_tests.drills.evidence import Log, compare, sent
from load_tests.drills.flow import Load, finish, flows, settle
from load_tests.drills.site import Site
from load_tests.drills.small_disk import fill, give_back
from load_tests.drills.verdict import Promise, Verdict, counts, nothing_lost
from load_tests.drills.watch import Watch, produced

AWAY_S: Final = 20.0
STALL_S: Final = 60.0
FULL_S: Final = 30.0
LEFT_BYTES: Final = 2_000_000
"""Room for a second or two of frames, so that the disk fills up while Kafka writes."""
BEGIN_S: Final = 120.0
SETTLE_S: Final = 180.0
MEMORY_MB: Final = 140.0
"""What a bridge with a window of 2,000 frames may hold. Without a bound it would hold 3 kB for each frame of
the outage: 60 MB and 120 MB more after 20 s at 2,000 frames/s."""

Fault = Callable[[], "tuple[float, float]"]
"""Puts the fault in and mends it; what the bridge had stored until then, and when that was (monotonic, s)."""


def f3(site: Site, load: Load, away_s: float = AWAY_S) -> Verdict:
    """kill -9 Kafka, bring it back."""

    def fault() -> tuple[float, float]:
        site.kill("kafka")
        time.sleep(away_s)
        stored = produced(site)
        site.restart_service("kafka")
        return stored, time.monotonic()

    return through("f3", site, load, fault)


def f4(site: Site, load: Load, stall_s: float = STALL_S) -> Verdict:
    """SIGSTOP Kafka, let it go on."""

    def fault() -> tuple[float, float]:
        with site.paused("kafka"):
            time.sleep(stall_s)
            stored = produced(site)
        return stored, time.monotonic()

    return through("f4", site, load, fault)


def f14(site: Site, load: Load) -> Verdict:
    """Kafka's disk fills up; room is given back, and Kafka started where it has ended."""
    folder = site.home / "data" / "kafka"
    ended: list[bool] = []

    def fault() -> tuple[float, float]:
        fill(folder, LEFT_BYTES)
        end_s = time.monotonic() + FULL_S
        while site.pid("kafka") and time.monotonic() < end_s:
            time.sleep(0.1)
        ended.append(not site.pid("kafka"))
        stored = produced(site)
        give_back(folder)
        site.restart_service("kafka")
        return stored, time.monotonic()

    verdict = through("f14", site, load, fault)
    return replace(verdict, figures={**verdict.figures, "kafka_ended": ended[0]})


def through(name: str, site: Site, load: Load, fault: Fault) -> Verdict:
    """A load with a fault of Kafka at a third of it, and what became of it."""
    log = Log(site.settings, site.endpoints)
    log.begin_here("telemetry", "dead-letter")
    with Watch(site) as watch:
        site.bridge()
        site.simulate(name, *load.arguments())
        flows(site, name, load.rate * load.duration_s / 3, load.duration_s + BEGIN_S)
        stored, mended_s = fault()
        finish(site, name, load.duration_s + BEGIN_S)
        drained_s = settle(site, SETTLE_S)
        watch.look()
    found, dead = compare(log, sent(site.home, name)), log.appended("dead-letter")
    promises = (
        *nothing_lost(found),
        Promise("nothing dead-lettered", dead == 0, f"{dead}"),
        Promise("memory of the bridge is bounded", watch.peak_mb <= MEMORY_MB,
                f"at most {watch.peak_mb:.0f} MB of {MEMORY_MB:.0f}"),
    )  # fmt: skip
    figures: dict[str, Any] = counts(found) | {
        "recovery_s": watch.recovery_s(stored, mended_s),
        "drained_s": drained_s,
        "bridge_peak_mb": round(watch.peak_mb),
        "producer_recoveries": watch.total("producer_recoveries_total"),
    }
    return Verdict(name, promises, figures)
