"""One run of the whole pipeline, with kills in it, that several tests look at."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from infra.clients.kafka import LogEnds
from infra.stack import processes
from infra.stack.stack import Stack
from infra.stack.supervisor import Backoff, programs, wait_ready
from load_tests.drills.alert_faults import RULES_ENV
from load_tests.drills.alert_truth import rules_text
from stream_jobs.audit.collect import current_ledger
from stream_jobs.audit.ledger import Ledger
from stream_jobs.rules.model import SHIPPED
from tests.e2e.support import CLEAR_FOR_S, SHORT, Drive
from tests.forked_site import ForkedSupervisor
from tests.support import Lane, eventually, open_lane

DIRT = {
    "late": 0.05,
    "late-beyond": 0.03,
    "duplicate": 0.05,
    "disorder": 0.05,
    "clock-ahead": 0.01,
    "clock-unset": 0.01,
    "poison": 0.01,
}
VEHICLES, SECONDS, SEED = 40, 30, 11
KILLED = ("bridge", "instant", "events", "jobs", "jobs")
"""One after each hundred frames, from the fourth hundred on: Spark at work, and again while it starts."""


@pytest.fixture(scope="package")
def pipeline(stack: Stack) -> Iterator[Lane]:
    """Bridge, jobs, event store and dashboard of one lane, kept running by the supervisor; not longer than
    this package.

    Its rules are those that ship and, for the drill of the alerts, some that are often true.
    """
    with open_lane(stack, **SHORT) as lane:
        rules = lane.home / "rules.yaml"
        rules.write_text(rules_text(CLEAR_FOR_S, SHIPPED.read_text()))
        lane.env[RULES_ENV] = str(rules)
        with supervised(lane):
            missing = wait_ready(lane.endpoints.http_ports, 360, print)
            assert not missing
            yield lane


@contextmanager
def supervised(lane: Lane) -> Iterator[None]:
    """The programs; at its end each ends by itself when it is asked to."""
    stop, said = threading.Event(), list[str]()
    backoff = Backoff(first_s=0.2)
    with ForkedSupervisor(lane.home, programs(), said.append, backoff, env=lane.env) as supervisor:
        watcher = threading.Thread(target=supervisor.watch, args=(stop,))
        watcher.start()
        try:
            yield
        finally:
            stop.set()
            watcher.join()
    assert not [words for words in said if "did not end" in words]


@pytest.fixture(scope="package")
def drive(pipeline: Lane) -> Drive:
    """A dirty drive with crashes in it, during which programs are killed, Spark's twice."""
    link = [text for name, share in DIRT.items() for text in (f"--{name}", str(share))]
    size = ("-c", str(VEHICLES), "--rate", str(VEHICLES), "--duration", f"{SECONDS}s", "--seed", str(SEED))
    faults = ("--fault", "crash=2", "--fault", "overheating=2")
    with pipeline.process("simulate", *size, *link, *faults, "--log-frames", "--run-id", "e2e") as simulator:
        run_file = pipeline.home / "runs" / "e2e" / "run.json"
        for after, name in enumerate(KILLED, start=4):
            eventually(
                lambda n=100 * after: acked(run_file) >= n, 240, f"{after} hundred frames acknowledged"
            )
            kill(pipeline, name)
        code = simulator.child.wait(300)
        assert code == 0, simulator.output()
    return Drive(json.loads(run_file.read_text()), pipeline.home / "runs" / "e2e", balanced(pipeline))


def acked(run_file: Path) -> int:
    return int(json.loads(run_file.read_text())["acked"]) if run_file.exists() else 0


def kill(lane: Lane, name: str) -> None:
    """``kill -9`` of a program and its process group; the supervisor is to start it again."""
    running = eventually(lambda: processes.find(lane.home / "run", name), 90, f"{name} runs")
    assert running is not None
    os.killpg(running.pid, signal.SIGKILL)


def balanced(lane: Lane) -> Ledger:
    """The ledger once all of it has arrived and the late windows are repaired."""
    with LogEnds(lane.endpoints.kafka_bootstrap, lane.settings.kafka.prefix) as ends:

        def complete() -> Any:
            ledger = current_ledger(lane.home, lane.endpoints, ends)
            assert (ledger.residual, ledger.late_open) == (0, 0), ledger
            return ledger

        found: Ledger = eventually(complete, 420, "a balanced ledger without open late frames")
        return found
