"""Overload: the fleet sends more than the stream takes; telemetry of cars is put off, and taken in later."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

import orjson
from confluent_kafka import Message
from psycopg.rows import dict_row

from infra.clients.db import session
from infra.contract.topics import DEFERRED
from infra.stack.supervisor import odograph
from load_tests.drills.aggregates import accounted, balanced, start_jobs, windows
from load_tests.drills.checker import Stored, check
from load_tests.drills.evidence import MARKER_VIN, Log, sent
from load_tests.drills.flow import Load, finish
from load_tests.drills.site import Site, until
from load_tests.drills.verdict import Promise, Verdict, counts, nothing_lost

BEGIN_S: Final = 180.0
OVER_S: Final = 600.0
_TIMES: Final = "SELECT began_at, ended_at, deferred, waiting FROM serving.overload ORDER BY began_at"
_INCIDENTS: Final = "SELECT vehicle_id, active, alerts FROM serving.incident WHERE cause = 'overload'"


class WholeLog(Log):
    """The frames of both topics, in the order of their receipt."""

    def messages(self, name: str) -> Iterator[Message]:
        """As ever, but of telemetry with what was put off."""
        yield from super().messages(name)
        if name == "telemetry":
            yield from super().messages(DEFERRED)

    def stored(self) -> Iterator[Stored]:
        """Each vehicle's frames lie in two logs: their order is that of receipt."""
        found = sorted(self.messages("telemetry"), key=lambda m: (m.timestamp()[1], m.offset()))
        for place, message in enumerate(found):
            frame = orjson.loads(message.value() or b"")
            if not frame["vehicle_id"].startswith(MARKER_VIN):
                yield Stored((frame["vehicle_id"], frame["boot_id"], frame["seq"]), 0, place)


def overload(site: Site, load: Load, mutant: str | None = None) -> Verdict:
    """A load beyond what the batches take; the service puts off; then its end, and everything in windows."""
    log = WholeLog(site.settings, site.endpoints)
    log.begin_here("crash", DEFERRED)
    site.bridge()
    start_jobs(site, mutant)
    site.simulate("overload", *load.arguments("--fault", "crash=3"))
    began = until(lambda: _times(site), load.duration_s + BEGIN_S, "overload begins")
    until(lambda: log.appended(DEFERRED) > 0, BEGIN_S, "the bridge puts off")
    finish(site, "overload", load.duration_s + BEGIN_S)
    until(lambda: all(row["ended_at"] for row in _times(site)), OVER_S, "overload ends")
    ledger = balanced(site)
    written, crashes = sent(site.home, "overload"), site.run_file("overload")["crashes"]
    found = check(written.frames, log.stored())
    equal = windows(site, log, [vehicle for vehicle, _, _ in written.frames])
    restated = _recomputed(site, written.frames[0][1])
    incidents = _rows(site, _INCIDENTS)
    times = _times(site)
    promises = (
        *nothing_lost(found),
        accounted(ledger),
        Promise("all that was put off is in windows", ledger.deferred > 0 and ledger.deferred_open == 0,
                f"{ledger.deferred} put off, {ledger.deferred_open} open"),
        Promise("crash records are not put off", log.appended("crash") >= crashes > 0,
                f"{log.appended('crash')} records of {crashes} crashes"),
        equal.promise(),
        Promise("a recompute by command changes no window", restated == (0, 0), f"{restated}"),
        Promise("begin and end are one incident of the fleet",
                [(row["vehicle_id"], row["active"]) for row in incidents] == [(None, False)],
                f"{incidents}"),
    )  # fmt: skip
    figures: dict[str, Any] = counts(found) | {
        "put_off": ledger.deferred,
        "overloads": len(times),
        "lasted_s": [round((row["ended_at"] - row["began_at"]).total_seconds(), 1) for row in times],
        "begun_after_s": round(began[0]["began_at"].timestamp() - written.frames[0][1] / 1000, 1),
    }
    return Verdict("overload", promises, figures, mutant)


def _rows(site: Site, query: str) -> list[dict[str, Any]]:
    with session(site.endpoints.db_owner_url, row_factory=dict_row) as connection:
        return connection.execute(query.encode()).fetchall()


def _times(site: Site) -> list[dict[str, Any]]:
    return _rows(site, _TIMES)


def _recomputed(site: Site, begin_ms: int) -> tuple[int, int]:
    """Windows of vehicles and of places that ``odograph recompute`` of the run's time restates."""
    span = (datetime.fromtimestamp(at_s, UTC) for at_s in (begin_ms / 1000 - 60, time.time()))
    since, until_ = (f"{at:%Y-%m-%dT%H:%M:%S}" for at in span)
    command = odograph("recompute", "--from", since, "--to", until_, "--json")
    done = subprocess.run(command, env=site.env, check=True, capture_output=True, timeout=OVER_S)
    found = orjson.loads(done.stdout)
    return found["vehicle_windows"], found["place_windows"]
