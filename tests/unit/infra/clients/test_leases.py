from __future__ import annotations

import threading

from prometheus_client import CollectorRegistry

from infra.clients.health import HealthServer, Listen
from infra.clients.leases import Lease
from infra.settings.settings import load
from infra.stack.probes import readiness


def lease(url: str, stop: threading.Event) -> Lease:
    return Lease(load(lease={"ttl_s": 1}), url, "downlink", stop)


def test_without_a_database_there_is_no_lease_and_the_only_process_acts() -> None:
    stop = threading.Event()
    with lease("", stop).held() as term:
        assert term is not None
        term.require()
        stop.set()
        assert term.wait(10)
        term.require()  # what is under way at the end still counts


def test_who_is_asked_to_stop_while_it_waits_never_acts() -> None:
    stop = threading.Event()
    found: list[object] = []
    mine = lease("postgresql://nobody@127.0.0.1:1/none", stop)
    waiting = threading.Thread(target=mine.run, args=(found.append,))
    waiting.start()
    stop.set()
    waiting.join(30)
    assert (waiting.is_alive(), found) == (False, [])


def test_who_stands_by_is_ready_whatever_its_other_checks_say_unless_it_cannot_take_over() -> None:
    mine = lease("", threading.Event())
    kafka = ["away"]
    checks = {"kafka": lambda: kafka[0] if kafka else None}
    with HealthServer(Listen(), checks, CollectorRegistry(), lease=mine) as server:
        assert readiness(server.port) == ("kafka: away", None)
        mine.standby = "b has the lease downlink"
        assert readiness(server.port) == (None, "standby: b has the lease downlink")
        mine.problem = "database: away"
        assert readiness(server.port)[0] == "standby: b has the lease downlink; lease: database: away"
        mine.optional, mine.standby = True, None
        kafka.clear()
        assert readiness(server.port) == (None, "lease: database: away")
