"""C2: a Spark cluster. What a worker has, it was sent, or it lies on HDFS: it sees no other host's disk."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Final

from infra.clients.db import session
from infra.stack import processes
from infra.stack.hosts.cluster import Cluster
from infra.stack.service import HOST
from load_tests.drills.aggregates import accounted, balanced, start_jobs, start_stream, windows
from load_tests.drills.evidence import Log, compare, sent
from load_tests.drills.flow import Load, finish, flows
from load_tests.drills.journeys import trips
from load_tests.drills.site import Site, until
from load_tests.drills.verdict import Promise, Verdict, counts, nothing_lost
from stream_jobs.archive import reader
from stream_jobs.archive.manifest import archive_of

EXECUTOR: Final = b"CoarseGrainedExecutorBackend"
UP_S: Final = 120.0
BEGIN_S: Final = 300.0
LASTING_S: Final = 3600.0
MIXED: Final = ("--late", "0.05", "--duplicate", "0.05")
EXECUTOR_S: Final = 30.0
DRIVER_S: Final = 60.0
AT_MOST_S: Final = 400.0
"""A recovery that takes longer ends the drill."""
PAUSE_S: Final = 5.0
WARM: Final = 3
"""Number of the batch after which faults begin."""
NEWEST: Final = "SELECT coalesce(max(batch_id), -1) FROM odograph.batch_ledger WHERE query = 'telemetry'"


def c2(site: Site, load: Load, mutant: str | None = None) -> Verdict:
    """kill -9 executors, a worker, the master and the driver, while frames flow."""
    site.env["ODOGRAPH_PATHS_LOOKUPS"] = f"http://{HOST}:{site.endpoints.http_ports['maintenance']}/lookups"
    log = Log(site.settings, site.endpoints)
    log.begin_here("telemetry")
    start_jobs(site, mutant)
    site.bridge()
    site.simulate("c2", *Load(load.rate, LASTING_S, load.seed).arguments(*MIXED))
    flows(site, "c2", load.rate, BEGIN_S)
    # The first batches load what later ones have: a kill amid them measures a start, not a recovery.
    until(lambda: _all_executors(site) and _newest(site) >= WARM, UP_S, "an executor a worker, at work")
    found: dict[str, list[float]] = {}
    if mutant is None:
        found = _killed(site, load.times)
    flows(site, "c2", load.rate * load.duration_s, load.duration_s + BEGIN_S)
    site.stop("c2")
    finish(site, "c2", BEGIN_S)
    ledger = balanced(site, AT_MOST_S if mutant is None else 2 * DRIVER_S)
    written = sent(site.home, "c2")
    checked = compare(log, written)
    worst = {name: max(times) for name, times in found.items()}
    promises = (
        *nothing_lost(checked),
        accounted(ledger),
        windows(site, log, [vehicle for vehicle, _, _ in written.frames], roads=True).promise(),
        trips(site, log),
        archived(site, log),
        Promise(f"executors back within {EXECUTOR_S:g} s", worst.get("executor", 0) <= EXECUTOR_S,
                str(found.get("executor"))),
        Promise(f"the driver back within {DRIVER_S:g} s", worst.get("driver", 0) <= DRIVER_S,
                str(found.get("driver"))),
    )  # fmt: skip
    return Verdict("c2", promises, counts(checked) | {f"{n}_back_s": t for n, t in found.items()}, mutant)


def _all_executors(site: Site) -> bool:
    return len(executors(site.cluster)) == site.cluster.profile.workers


def executors(cluster: Cluster) -> list[int]:
    """Processes of all executors, those of each worker in turn."""
    workers = (cluster.runner.find(f"spark-worker-{n + 1}") for n in range(cluster.profile.workers))
    return [pid for found in workers if found for pid in processes.tree(found.pid) if _is_executor(pid)]


def _is_executor(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return words[0].endswith(b"java") and any(word.endswith(EXECUTOR) for word in words)


def _killed(site: Site, times: int) -> dict[str, list[float]]:
    """Kill one after the other; how long until all was whole and a batch behind the kill was in [s]."""
    found: dict[str, list[float]] = {"executor": [], "worker": [], "master": [], "driver": []}

    def worker() -> None:
        site.kill_group("spark-worker-1")
        site.restart_service("spark-worker-1")

    def master() -> None:
        site.kill_group("spark-master")
        site.restart_service("spark-master")

    def driver() -> None:
        site.kill_group("jobs")
        start_stream(site)

    def executor() -> None:
        os.kill(executors(site.cluster)[0], signal.SIGKILL)

    for name, kill in (
        *[("executor", executor)] * times,
        ("worker", worker),
        ("master", master),
        ("driver", driver),
    ):
        site.say(f"kill -9: {name}")
        found[name].append(_recovered(site, kill))
        time.sleep(PAUSE_S)
    return found


def _recovered(site: Site, kill: Callable[[], None]) -> float:
    begun_s = time.monotonic()
    kill()
    before = _newest(site)
    # The batch under way may have been through its tasks; the next one began without what was killed.
    until(
        lambda: _all_executors(site) and _newest(site) >= before + 2,
        AT_MOST_S,
        "it is whole again",
    )
    return round(time.monotonic() - begun_s, 1)


def _newest(site: Site) -> int:
    with session(site.endpoints.db_owner_url) as connection:
        row = connection.execute(NEWEST).fetchone()
    return int(row[0]) if row else -1


def archived(site: Site, log: Log) -> Promise:
    """The archive by its manifest, which the reader holds against the files."""
    entries = [file.entry for file in reader.files(archive_of(site.home))]
    stretches = sorted(
        (o.partition, o.first, o.last, o.count) for e in entries if e is not None for o in e.offsets
    )
    rows = sum(count for *_, count in stretches)
    apart = all(a[0] != b[0] or a[2] < b[1] for a, b in pairwise(stretches))
    whole = None not in entries and apart and rows == log.appended("telemetry")
    return Promise(
        "the archive has each record once",
        whole,
        f"{rows} of {log.appended('telemetry')} in {len(entries)} files",
    )
