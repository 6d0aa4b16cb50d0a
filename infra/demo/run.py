"""A demo from the first service to the ledger."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from infra.clients.kafka import LogEnds
from infra.clients.stop_signals import stopped_by_signals
from infra.contract.errors import ServiceError
from infra.demo import fleet
from infra.demo.fleet import Fleet
from infra.demo.live import Pulse
from infra.demo.pipeline import Say, running
from infra.settings.settings import Endpoints, Settings
from infra.stack import processes
from infra.stack.ports import HOST
from stream_jobs.audit.collect import current_ledger, settled_ledger
from stream_jobs.audit.ledger import Ledger

SETTLE_S = 120.0
REPAIR_S = 120.0
TICK_S = 1.0


def run(settings: Settings, demo_fleet: Fleet, say: Say, tell: Say) -> Ledger:
    """Start all, drive until the fleet is through or Ctrl-C, let it settle; the ledger of the run.

    ``say`` gets what happens, ``tell`` the address of the dashboard and the result.
    """
    begun_s = time.monotonic()
    home = settings.paths.home.resolve()
    with (
        running(settings, say) as endpoints,
        stopped_by_signals() as stop,
        LogEnds(endpoints.kafka_bootstrap, settings.kafka.prefix) as ends,
    ):
        say(f"map: {demo_fleet.store_roads(endpoints)} road edges")
        before = settled_ledger(home, endpoints, ends, SETTLE_S)
        tell(f"dashboard: http://{HOST}:{endpoints.http_ports['dashboard']}")
        pulse = Pulse(demo_fleet.run_file(home), endpoints, ends)
        _drive(home, demo_fleet, pulse, stop, say)
        if pulse.first_map_s is not None:
            say(f"first vehicles on the map {pulse.first_map_s - begun_s:.0f} s after the start")
        say(f"truth: {demo_fleet.store_truth(home, endpoints)} rows of what really happened")
        say("the fleet has stopped; waiting until everything has arrived")
        return _settle(home, endpoints, ends, before, stop)


def _drive(home: Path, demo_fleet: Fleet, pulse: Pulse, stop: threading.Event, say: Say) -> None:
    """Drive until the fleet is through or ``stop`` is set; raises ServiceError when the simulator fails."""
    child = demo_fleet.start(home)
    try:
        while child.poll() is None and not stop.wait(TICK_S):
            say(pulse.line())
    finally:
        code = fleet.stop(home, child)
    stop.clear()
    if code != 0:
        log = home / "logs" / f"{fleet.NAME}.log"
        raise ServiceError(f"the simulator ended with {code}; its log {log}:\n{processes.log_tail(log)}")


def _settle(home: Path, endpoints: Endpoints, ends: LogEnds, before: Ledger, stop: threading.Event) -> Ledger:
    """The run's ledger once its residual is 0 and its late frames are repaired, or at the deadlines."""
    begun_s = time.monotonic()
    while True:
        ledger = current_ledger(home, endpoints, ends) - before
        waited_s = time.monotonic() - begun_s
        balanced = ledger.residual == 0
        if balanced and (ledger.late_open <= 0 or waited_s > REPAIR_S):
            return ledger
        if stop.wait(TICK_S) or waited_s > SETTLE_S:
            return ledger
