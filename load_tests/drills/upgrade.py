"""upgrade: the version before this one's operators runs under load, and is replaced program by program."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path
from typing import Final

import orjson

import infra
from infra.contract.errors import ConfigError, ServiceError
from infra.stack.downloads.cache import remove_tree
from infra.stack.processes import log_tail
from infra.stack.supervisor import COMMANDS, odograph
from load_tests.drills.aggregates import accounted, balanced, windows
from load_tests.drills.cluster import archived
from load_tests.drills.evidence import Log, compare, sent
from load_tests.drills.flow import Load, finish, flows
from load_tests.drills.journeys import trips
from load_tests.drills.site import Site
from load_tests.drills.verdict import Promise, Verdict, counts, nothing_lost
from stream_jobs.rules.model import VEHICLES, load_rules, of_query

CHECKOUT: Final = Path(infra.__file__).resolve().parents[1]
SINCE: Final = ("log", "-1", "--format=%H", "-G^        operators=[0-9]", "--", "stream_jobs/app/queries.py")
"""Git's words for the change that gave a query other operators, which are counted."""
PROGRAMS: Final = {"bridge": ("bridge",)} | {
    name: COMMANDS[name] for name in ("events", "maintenance", "instant", "jobs")
}
"""In the order in which they are replaced."""
UP_S: Final = 300.0
READY_S: Final = 300.0
BEGIN_S: Final = 120.0
LASTING_S: Final = 3600.0
MIXED: Final = ("--late", "0.05", "--duplicate", "0.01")


def upgrade(site: Site, load: Load) -> Verdict:
    """Data, checkpoints and offsets of the version before; then `odograph up`, and each program anew."""
    before = site.home / "before"
    version = _checked_out(before)
    _begin_anew(site, before)
    log, later = (Log(site.settings, site.endpoints) for _ in range(2))
    for name in PROGRAMS:
        _start(site, name, before)
    for name in PROGRAMS:
        site.wait_ready(name, READY_S)
    site.simulate("upgrade", *Load(load.rate, LASTING_S, load.seed).arguments(*MIXED))
    flows(site, "upgrade", load.rate * load.duration_s, BEGIN_S + load.duration_s)
    site.stack.up()
    old = dict[str, str]()
    for name in PROGRAMS:
        site.stop(name)
        if name == "jobs":
            old = _found(log)
            later.begin_here("alerts")
        _start(site, name)
        site.wait_ready(name, READY_S)
    now = site.run_file("upgrade")["acked"]
    flows(site, "upgrade", now + load.rate * load.duration_s, BEGIN_S + load.duration_s)
    site.stop("upgrade")
    finish(site, "upgrade", BEGIN_S)
    ledger = balanced(site)
    written = sent(site.home, "upgrade")
    found = compare(log, written)
    aside = [path.name.rpartition("-")[0] for path in (site.home / "checkpoints.old").glob("*")]
    again = _found(later)
    lacking = old.keys() - again.keys()
    promises = (
        *nothing_lost(found),
        accounted(ledger),
        windows(site, log, [vehicle for vehicle, _, _ in written.frames], roads=True).promise(),
        trips(site, log),
        archived(site, log),
        Promise("the state of other operators alone is put aside", aside == ["telemetry"], f"{aside}"),
        Promise("what the jobs had found they find again", bool(old) and not lacking,
                f"{len(lacking)} of {len(old)} not: {', '.join(sorted({old[one] for one in lacking}))}"),
    )  # fmt: skip
    return Verdict("upgrade", promises, counts(found) | {"from": version, "found": len(again)})


def _checked_out(folder: Path) -> str:
    """The version before lies in the folder then; its commit. Raises ConfigError without a repository."""
    try:
        changed = _git(*SINCE)
        version = _git("rev-parse", f"{changed}^")
        _git("archive", "--output", f"{folder}.tar", version)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ConfigError(f"the version before is read from the repository of {CHECKOUT}: {error}") from error
    with tarfile.open(f"{folder}.tar") as file:
        file.extractall(folder, filter="data")
    return version


def _git(*words: str) -> str:
    done = subprocess.run(("git", "-C", str(CHECKOUT), *words), capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _begin_anew(site: Site, before: Path) -> None:
    """Services with data and tables of the version before, at the same ports."""
    site.stack.down()
    remove_tree(site.home / "data")
    site.start("up", odograph("up", "--services-only"), **_of(before))
    if site.ended("up", UP_S) != 0:
        raise ServiceError(f"the version before: {log_tail(site.home / 'logs' / 'up.log')}")


def _of(before: Path | None) -> dict[str, str]:
    """The environment of that version; None: of this one."""
    return {} if before is None else {"PYTHONPATH": str(before), "PYTHONSAFEPATH": "1"}


def _start(site: Site, name: str, before: Path | None = None) -> None:
    site.start(name, odograph(*PROGRAMS[name]), **_of(before))


def _found(log: Log) -> dict[str, str]:
    """What the query telemetry has found: the rule by id."""
    ours = {rule.id for rule in of_query(load_rules(), VEHICLES)}
    found = (orjson.loads(message.value() or b"") for message in log.messages("alerts"))
    return {a["alert_id"]: a["rule"] for a in found if a["rule"].partition(".")[0] in ours}
