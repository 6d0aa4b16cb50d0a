"""C3: the state of the query telemetry in more buckets, killed once midway, while frames gather."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from infra.settings.settings import Settings
from infra.stack.supervisor import odograph
from load_tests.drills.aggregates import JOBS_READY_S, accounted, balanced, start_jobs, start_stream, windows
from load_tests.drills.evidence import Log, compare, sent
from load_tests.drills.flow import Load, finish, flows
from load_tests.drills.journeys import trips
from load_tests.drills.site import Site, until
from load_tests.drills.verdict import Promise, Verdict, counts, nothing_lost
from stream_jobs.app.jobs import STREAM_CONF
from stream_jobs.app.session import LOCAL, build_session
from stream_jobs.recovery.checkpoints import Checkpoint
from stream_jobs.recovery.files import LocalFiles
from stream_jobs.recovery.rescale import DRAFT, QUERY, kept, part_of
from stream_jobs.rules.rule_set import rules_in_force
from stream_jobs.vehicles.fleet import BUCKET
from stream_jobs.vehicles.fleet import load as remembered

BUCKETS: Final = 6
BEGIN_S: Final = 120.0
RESCALE_S: Final = 400.0
MIXED: Final = ("--late", "0.05", "--duplicate", "0.01")


def c3(site: Site, load: Load, mutant: str | None = None) -> Verdict:
    """Stop the jobs amid the load, split the state (killed once when it has begun), and go on with it."""
    log = Log(site.settings, site.endpoints)
    log.begin_here("telemetry")
    site.bridge()
    start_jobs(site)
    site.simulate("c3", *load.arguments(*MIXED))
    flows(site, "c3", load.rate * load.duration_s / 2, BEGIN_S + load.duration_s)
    site.stop("jobs")
    command = ("jobs", "rescale", f"{BUCKETS}")
    site.start("rescale", odograph(*command))
    begun = site.home / "checkpoints" / DRAFT
    until(lambda: begun.exists() or site.ended_by_itself("rescale"), RESCALE_S, "the new state is begun")
    midway = not site.ended_by_itself("rescale")
    site.kill_group("rescale")
    patched = (sys.executable, "-m", "load_tests.drills.mutant_jobs", str(mutant), *command)
    site.start("rescale", patched if mutant else odograph(*command))
    code = site.ended("rescale", RESCALE_S)
    kept, wrong = _compared(site)
    site.env |= {f"ODOGRAPH_JOBS_{key}": f"{BUCKETS}" for key in ("VEHICLE_BUCKETS", "SHUFFLE_PARTITIONS")}
    start_stream(site)
    site.wait_ready("jobs", JOBS_READY_S)
    finish(site, "c3", load.duration_s + BEGIN_S)
    ledger = balanced(site)
    written = sent(site.home, "c3")
    found = compare(log, written)
    promises = (
        Promise(
            "killed midway, the same command splits the state", midway and code == 0, f"exit code {code}"
        ),
        Promise(
            "each vehicle's state is that of before", kept > 0 and wrong == 0, f"{wrong} of {kept} differ"
        ),
        *nothing_lost(found),
        accounted(ledger),
        windows(site, log, [vehicle for vehicle, _, _ in written.frames]).promise(),
        trips(site, log),
    )
    return Verdict("c3", promises, counts(found) | {"vehicles": kept}, mutant)


def _compared(site: Site) -> tuple[int, int]:
    """How many vehicles the old state has, and of how many the new one has another one, or none."""
    (aside,) = Path(f"{site.home}/checkpoints.old").glob(f"{QUERY}-[0-9]*")
    conf = STREAM_CONF | {"spark.sql.shuffle.partitions": f"{BUCKETS}"}
    spark = build_session(site.settings, "c3", site.settings.jobs.driver_mb, LOCAL, conf)
    try:
        before, after = (
            vehicles(spark, site.settings, Checkpoint(LocalFiles(f"{place.parent}"), place.name))
            for place in (aside, site.home / "checkpoints" / QUERY)
        )
    finally:
        spark.stop()
    wrong = sum(before.get(name) != after.get(name) for name in before.keys() | after.keys())
    return len(before), wrong


def vehicles(
    spark: SparkSession, settings: Settings, checkpoint: Checkpoint
) -> dict[str, tuple[object, int]]:
    """What a checkpoint's state remembers of each vehicle, to be compared with ``==``, and when it is due,
    whatever its buckets.
    """
    rule_set, found = rules_in_force(settings), dict[str, tuple[object, int]]()
    for blob in kept(spark, checkpoint).values():
        fleet, memory = remembered(blob, rule_set)
        names = {*fleet.ids, *memory.seen}
        for name in names:
            part, due_ms = part_of(settings, rule_set, blob, {name})
            found[name] = BUCKET.decode(part), due_ms  # a set's bytes hang on how it came about
    return found
