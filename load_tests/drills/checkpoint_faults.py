"""F12 and F13: the disk of the checkpoints is full; the newest file of a query's state is cut in half."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

from infra.clients.db import session
from infra.contract.topics import kafka_topic
from infra.stack.supervisor import odograph
from load_tests.drills.aggregates import (
    Windows,
    accounted,
    balanced,
    digested,
    start_jobs,
    start_stream,
    windows,
)
from load_tests.drills.commits import digest, ends_of
from load_tests.drills.evidence import Log, sent
from load_tests.drills.flow import Load, finish
from load_tests.drills.site import Site
from load_tests.drills.small_disk import fill, give_back
from load_tests.drills.verdict import Promise, Verdict

QUERY: Final = "telemetry"
BEGIN_S: Final = 120.0
READY_S: Final = 240.0
ENDS_S: Final = 480.0
LEFT_BYTES: Final = 50_000
NO_SPACE: Final = "No space left on device"
STATE_FILES: Final = ("*.changelog", "*.zip", "*.sst")
NEWEST: Final = "SELECT max(batch_id) FROM odograph.batch_ledger WHERE query_id = %s"


def f12(site: Site, load: Load) -> Verdict:
    """Checkpoints can no longer be written when frames come; then there is room again."""
    log = Log(site.settings, site.endpoints)
    log.begin_here("telemetry")
    folder = site.home / "checkpoints"
    site.bridge()
    start_jobs(site)
    runs = ["f12-before", "f12-full"]
    _send(site, load, runs[0])
    digested(site)
    fill(folder, LEFT_BYTES)
    _send(site, Load(load.rate, load.duration_s, load.seed + 1), runs[1])
    codes = [site.ended("jobs", ENDS_S)]
    said = [_last_words(site)]
    vehicles = sorted({vehicle for vehicle, _, _ in sent(site.home, *runs).frames})
    while_full = [_as_far_as_the_ledger(site, log, vehicles)]
    start_stream(site)
    codes.append(site.ended("jobs", ENDS_S))
    said.append(_last_words(site))
    while_full.append(_as_far_as_the_ledger(site, log, vehicles))
    give_back(folder)
    start_stream(site)
    site.wait_ready("jobs", READY_S)
    ledger = balanced(site)
    promises = (
        Promise("it ends, and says that there is no space, and where", _names(said, NO_SPACE, str(folder)),
                f"exit codes {codes}: {said[-1]}"),
        Promise("while the disk is full the tables are as the ledger says",
                all(found.promise().holds for found in while_full),
                "; ".join(found.promise().found for found in while_full)),
        accounted(ledger),
        windows(site, log, vehicles, roads=True).promise(),
    )  # fmt: skip
    return Verdict("f12", promises, {"generated": len(sent(site.home, *runs).frames)})


def _as_far_as_the_ledger(site: Site, log: Log, vehicles: list[str]) -> Windows:
    """The tables against the oracle over exactly the records of the batches that the ledger has."""
    checkpoint = site.home / "checkpoints" / QUERY
    query_id = str(json.loads((checkpoint / "metadata").read_text())["id"])
    with session(site.endpoints.db_owner_url) as connection:
        row = connection.execute(NEWEST, (query_id,)).fetchone()
    ends = ends_of(checkpoint, int(row[0])) if row and row[0] is not None else None
    topic = kafka_topic(site.settings.kafka.prefix, "telemetry")
    return windows(site, log, vehicles, (ends or {}).get(topic, {}), roads=True)


def f13(site: Site, load: Load) -> Verdict:
    """The newest state file is cut in half while the application is down; then the way out is taken."""
    log = Log(site.settings, site.endpoints)
    log.begin_here("telemetry")
    site.bridge()
    start_jobs(site)
    runs = ["f13-before", "f13-after"]
    _send(site, load, runs[0])
    digested(site)
    site.kill_group("jobs")
    cut = _newest(site.home / "checkpoints" / QUERY / "state")
    os.truncate(cut, cut.stat().st_size // 2)
    _send(site, Load(load.rate, load.duration_s, load.seed + 1), runs[1])
    before = digest(site)
    start_stream(site)
    code = site.ended("jobs", ENDS_S)
    said, after = _last_words(site), digest(site)
    done = _reset(site)
    start_stream(site)
    site.wait_ready("jobs", READY_S)
    ledger = balanced(site)
    equal = windows(site, log, [v for v, _, _ in sent(site.home, *runs).frames], roads=True)
    promises = (
        Promise("it ends, naming the file and the way out", _names([said], cut.name, f"jobs reset {QUERY}"),
                f"exit code {code}: {said}"),
        Promise("no wrong numbers meanwhile", before == after, f"{before} then {after}"),
        Promise("the way out works", done.returncode == 0, (done.stdout or done.stderr).strip()),
        accounted(ledger),
        equal.promise(),
    )  # fmt: skip
    figures: dict[str, Any] = {"cut": cut.name, "generated": len(sent(site.home, *runs).frames)}
    return Verdict("f13", promises, figures)


def _send(site: Site, load: Load, run_id: str) -> None:
    site.simulate(run_id, *load.arguments())
    finish(site, run_id, load.duration_s + BEGIN_S)


def _newest(state: Path) -> Path:
    """The state file that was written last."""
    found = [path for pattern in STATE_FILES for path in state.rglob(pattern)]
    return max(found, key=lambda path: (path.stat().st_mtime_ns, path.name))


def _reset(site: Site) -> subprocess.CompletedProcess[str]:
    command = odograph("jobs", "reset", QUERY)
    return subprocess.run(command, env=site.env, capture_output=True, text=True, check=False, timeout=BEGIN_S)


def _last_words(site: Site) -> str:
    """The last line of the application's log."""
    lines = [line for line in site.log("jobs").splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _names(said: list[str], *words: str) -> bool:
    return all(word in text for text in said for word in words)
