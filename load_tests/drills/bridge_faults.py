"""F1 and F2: the bridge is killed, or stands still."""

from __future__ import annotations

import contextlib
import statistics
import time
from dataclasses import dataclass, replace
from typing import Any, Final

from bridge.uplink.service import window
from load_tests.drills.aggregates import digested, start_jobs, windows
from load_tests.drills.evidence import Log, compare, sent
from load_tests.drills.flow import Load, finish, flows, settle
from load_tests.drills.site import Site, until
from load_tests.drills.verdict import Promise, Verdict, counts, nothing_lost
from load_tests.drills.watch import Watch, produced

STALL_S: Final = 0.5
BEGIN_S: Final = 60.0
SETTLE_S: Final = 120.0
STOPPED_S: Final = 50.0
"""The broker gives a connection up after one and a half times its keep-alive of 30 s."""
RECONNECTS: Final = "odograph_bridge_reconnects_total"
PRODUCED: Final = "odograph_bridge_produced_total"


@dataclass(frozen=True, slots=True)
class Kills:
    """When the bridge is killed: at the begin, then each time so many more frames were sent.

    ``at_most`` bounds their number. At every second kill, the first among them, Kafka stands still: much is
    then read and not stored, and what lies in the producer's queue dies with it.
    """

    every_frames: float
    at_most: int


def f1_windows(site: Site, load: Load, kills: Kills) -> Verdict:
    """The same with the stream application behind it: the windows must be as if nothing had happened."""
    start_jobs(site)
    verdict = f1(site, load, kills)
    digested(site)
    vehicles = sorted({vehicle for vehicle, _, _ in sent(site.home, "f1").frames})
    equal = windows(site, Log(site.settings, site.endpoints), vehicles)
    return replace(verdict, drill="f1-windows", promises=(*verdict.promises, equal.promise()))


def f1(site: Site, load: Load, kills: Kills, mutant: str | None = None) -> Verdict:
    """kill -9 the bridge again and again."""
    log = Log(site.settings, site.endpoints)
    log.begin_here("telemetry", "dead-letter")
    recoveries: list[float] = []
    with Watch(site) as watch:
        deadline_s = load.duration_s + BEGIN_S
        site.bridge(mutant)
        with site.paused("kafka"):
            site.simulate("f1", *load.arguments())
            _kill_in_mid_flow(site, BEGIN_S)
        recoveries.append(_again(site, mutant))
        while len(recoveries) < kills.at_most and flows(
            site, "f1", kills.every_frames * len(recoveries), deadline_s
        ):
            if len(recoveries) % 2 == 0:
                with site.paused("kafka"):
                    _kill_in_mid_flow(site, BEGIN_S)
            else:
                site.kill("bridge")
            recoveries.append(_again(site, mutant))
        finish(site, "f1", deadline_s)
        drained_s = settle(site, SETTLE_S)
        watch.look()
    found = compare(log, sent(site.home, "f1"))
    bound = len(recoveries) * window(site.settings.bridge.max_in_flight)
    promises = (
        *nothing_lost(found),
        Promise("duplicates at most kills x window", found.doubled <= bound, f"{found.doubled} of {bound}"),
        Promise("nothing dead-lettered", log.appended("dead-letter") == 0, f"{log.appended('dead-letter')}"),
    )
    figures: dict[str, Any] = counts(found) | {
        "kills": len(recoveries),
        "recovery_s_median": statistics.median(recoveries) if recoveries else None,
        "recovery_s_max": max(recoveries, default=None),
        "drained_s": drained_s,
        "bridge_peak_mb": round(watch.peak_mb),
    }
    return Verdict("f1", promises, figures, mutant)


def _kill_in_mid_flow(site: Site, deadline_s: float) -> None:
    """Kill the bridge when much is read and not stored; Kafka stands still."""
    until(lambda: _waiting(site) > 0 or _over(site), deadline_s, "messages wait for Kafka")
    time.sleep(STALL_S)
    site.kill("bridge")


def _again(site: Site, mutant: str | None) -> float:
    """Start another bridge; from the kill to its first stored record, s."""
    begun = time.monotonic()
    site.bridge(mutant)
    until(lambda: site.metrics().get(PRODUCED, 0) > 0 or _over(site), BEGIN_S, "records flow again")
    return round(time.monotonic() - begun, 2)


def _over(site: Site) -> bool:
    """Whether the simulator has ended: nothing new flows then."""
    return bool(site.run_file("f1").get("ended_ms"))


def _waiting(site: Site) -> float:
    """Messages read and not stored, by the counts: a defect may report none in flight."""
    now = site.metrics()
    return now.get("odograph_bridge_messages_received_total", 0) - now.get(PRODUCED, 0)


def f2(site: Site, load: Load, stop_s: float = STOPPED_S) -> Verdict:
    """SIGSTOP the bridge for longer than its keep-alive allows, let it go on.

    Kafka stands still for the moment in which the bridge comes back: what it reads from its dead connection
    is then stored when there is a new one, and those acknowledgements must be dropped.
    """
    log = Log(site.settings, site.endpoints)
    log.begin_here("telemetry", "dead-letter")
    with Watch(site) as watch:
        site.bridge()
        site.simulate("f2", *load.arguments())
        flows(site, "f2", 5 * load.rate, load.duration_s + BEGIN_S)
        before = site.wait_metrics()[RECONNECTS]
        with contextlib.ExitStack() as kafka:
            with site.paused("bridge"):
                time.sleep(stop_s)
                kafka.enter_context(site.paused("kafka"))
            resumed_s = time.monotonic()
            until(lambda: site.metrics().get(RECONNECTS, 0) > before, 30, "a new connection")
            stored = produced(site)
        finish(site, "f2", load.duration_s + BEGIN_S)
        drained_s = settle(site, SETTLE_S)
        watch.look()
    found, dead = compare(log, sent(site.home, "f2")), log.appended("dead-letter")
    stale = watch.total("stale_acks_total")
    promises = (
        *nothing_lost(found),
        Promise("acks of the dead connection are dropped", stale > 0, f"{stale}"),
        Promise("nothing dead-lettered", dead == 0, f"{dead}"),
    )
    figures: dict[str, Any] = counts(found) | {
        "stale_acks": stale,
        "reconnects": watch.total("reconnects_total"),
        "recovery_s": watch.recovery_s(stored, resumed_s),
        "drained_s": drained_s,
        "bridge_peak_mb": round(watch.peak_mb),
    }
    return Verdict("f2", promises, figures)
