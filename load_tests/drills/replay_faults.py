"""A replay killed in every phase, and on a full disk: the same command again, and every window is equal.

The live jobs have made the windows of some minutes before; the replay goes through jobs of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from infra.contract.topics import kafka_topic
from infra.stack import processes
from infra.stack.probes import readyz
from infra.stack.supervisor import odograph
from load_tests.drills.flow import Load
from load_tests.drills.recorded import recorded
from load_tests.drills.site import Site, until
from load_tests.drills.small_disk import fill, give_back
from load_tests.drills.verdict import Promise, Verdict
from stream_jobs.replay import runs
from stream_jobs.replay.records import Log
from stream_jobs.replay.runs import Run, folder_of

RUN: Final = "again"
SPEED: Final = "20"
"""So that records go in for some seconds: at max a short load is one slice."""
REPLAY_S: Final = 900.0
GONE_S: Final = 60.0
LEFT_BYTES: Final = 50_000
NO_SPACE: Final = "no space left on device"
AGAIN: Final = "the same command with its --run goes on from here"


def replay_kill(site: Site, load: Load) -> Verdict:
    """kill -9 the replay while its programs start, while records go in, while its jobs take them in."""
    day = recorded(site, load).day
    killed = {phase: killed_in(site, day, phase, reached) for phase, reached in PHASES.items()}
    promises = (
        Promise("killed in every phase", None not in killed.values(), f"records in its topic: {killed}"),
        *finished(site, day),
    )
    return Verdict("replay-kill", promises, figures(site))


def replay_full(site: Site, load: Load) -> Verdict:
    """The disk of the runs is full when the jobs of one begin to work; then there is room again."""
    day = recorded(site, load).day
    folder = site.home / "replays"
    child = site.start("replay", command(day))
    until(lambda: _ready(site) or child.poll() is not None, REPLAY_S, "the jobs of the run are ready")
    fill(folder, LEFT_BYTES)
    code = child.wait(REPLAY_S)
    said = site.log("replay")
    give_back(folder)
    told = NO_SPACE in said.lower() and str(folder) in said and AGAIN in said
    promises = (
        Promise("it ends with 1 and says: no space, where, how to go on", code == 1 and told,
                f"exit code {code}: {said.strip().splitlines()[-1]}"),
        *finished(site, day),
    )  # fmt: skip
    return Verdict("replay-full", promises, figures(site))


def command(day: str) -> tuple[str, ...]:
    """The one command that is given again and again."""
    words = ("--day", day, "--run", RUN, "--speed", SPEED, "--jobs", "stream", "--verify")
    return odograph("replay", *words)


def killed_in(site: Site, day: str, phase: str, reached: Callable[[Site], bool]) -> int | None:
    """Start the command and kill it there; the records in its topic then, None where it ended before."""
    child = site.start("replay", command(day))
    until(lambda: reached(site) or child.poll() is not None, REPLAY_S, phase)
    if child.poll() is not None:
        return None
    child.kill()
    child.wait()
    until(lambda: not processes.all_running(_run_dir(site)), GONE_S, "its programs are gone with it")
    return written(site)


def finished(site: Site, day: str) -> tuple[Promise, ...]:
    """The command once more, to its end."""
    code = site.start("replay", command(day)).wait(REPLAY_S)
    run, there = _run(site), written(site)
    return (
        Promise("the same command ends, every window equal", code == 0, f"exit code {code}: {last(site)}"),
        Promise("each record went in once", there == run.records, f"{there} of {run.records}"),
    )


def figures(site: Site) -> dict[str, Any]:
    """Of the run."""
    run = _run(site)
    return {"records": run.records, "total_s": run.total_s}


def written(site: Site) -> int:
    """Records in the run's topic."""
    topic = kafka_topic(f"{site.settings.kafka.prefix}run-{RUN}.", "telemetry")
    with Log(site.endpoints.kafka_bootstrap) as log:
        return sum(log.ends(topic))


def last(site: Site) -> str:
    """What the command said last."""
    return site.log("replay").strip().splitlines()[-1]


def _run(site: Site) -> Run:
    return runs.load(site.home, RUN)


def _run_dir(site: Site) -> Path:
    return folder_of(site.home, RUN) / "run"


def _starting(site: Site) -> bool:
    return bool(processes.all_running(_run_dir(site)))


def _ready(site: Site) -> bool:
    """Whether the stream application of the run that is under way serves."""
    if not _starting(site):
        return False
    ports = json.loads((folder_of(site.home, RUN) / "endpoints.json").read_text())["http_ports"]
    return readyz(ports["jobs"]) is None


def _going_in(site: Site) -> bool:
    return _ready(site) and 0 < written(site) < _run(site).records


def _taking_in(site: Site) -> bool:
    return _run(site).state == "fed"


PHASES: Final[dict[str, Callable[[Site], bool]]] = {
    "its programs start": _starting,
    "records go in": _going_in,
    "all are in, the jobs work": _taking_in,
}
