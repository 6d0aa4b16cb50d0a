"""Every way a replay can begin, once each through the real jobs; and records that go into the live topic."""

from __future__ import annotations

import time
from typing import Any, Final

from infra.clients import database_url
from infra.clients.db import session
from infra.stack.supervisor import odograph
from load_tests.drills.aggregates import accounted, balanced, start_stream, windows
from load_tests.drills.evidence import Log
from load_tests.drills.flow import Load
from load_tests.drills.recorded import recorded
from load_tests.drills.site import Site
from load_tests.drills.verdict import Promise, Verdict

REPLAY_S: Final = 900.0
READY_S: Final = 240.0
USAGE: Final = 2
RULES: Final = """
rules:
  - {id: on_the_move, version: 1, query: vehicles, kind: level, severity: WARNING, source: frame,
     value: array_max(speed_kmh), beyond: above, limit: 5, raise_for_s: 5, message: it drives}
"""
"""A rule that the live jobs do not have, and that every drive meets."""
FOUND: Final = "SELECT count(*) FROM odograph.alert WHERE rule = 'on_the_move'"


def replay_ways(site: Site, load: Load) -> Verdict:
    """Shadow runs from a time, from offsets, of one vehicle at a speed, under other rules; then into live."""
    log = Log(site.settings, site.endpoints)
    log.begin_here("telemetry")
    known = recorded(site, load)
    one = ("--day", known.day, "--vehicle", known.vehicles[0])
    rules = site.home / "mine.yaml"
    rules.write_text(RULES)
    ways = {
        "since": ("--from-time", known.since),
        "offsets": ("--from-offset", "0"),
        "one": (*one, "--speed", "60"),
        "rules": ("--day", known.day, "--set", f"jobs.rules={rules}"),
    }
    took: dict[str, Any] = {}
    promises = [_verified(site, name, words, took) for name, words in ways.items()]
    alerts = {"live": _found(site.endpoints.db_owner_url)}
    run_url = database_url.with_name(site.endpoints.db_owner_url, "odograph_run_rules")
    alerts["run"] = _found(run_url)
    promises.append(
        Promise("other rules find other alerts", alerts["live"] == 0 < alerts["run"], f"alerts: {alerts}")
    )
    promises += _into_live(site, one)
    promises.append(windows(site, log, list(known.vehicles), roads=True).promise())
    return Verdict("replay-ways", tuple(promises), {"replays_s": took})


def _verified(site: Site, name: str, words: tuple[str, ...], took: dict[str, Any]) -> Promise:
    """A shadow run of that name; every window must be as the live jobs made it."""
    begun_s = time.monotonic()
    site.start(name, odograph("replay", *words, "--run", name, "--jobs", "stream,events", "--verify"))
    code = site.ended(name, REPLAY_S)
    took[name] = round(time.monotonic() - begun_s, 1)
    said = site.log(name).strip().splitlines()
    return Promise(
        f"replay {' '.join(words)}: every window is equal", code == 0, f"exit code {code}: {said[-1]}"
    )


def _into_live(site: Site, words: tuple[str, ...]) -> list[Promise]:
    """Records of a vehicle once more, as late copies: nothing without consent, then nothing counted twice."""
    before = balanced(site)
    codes = []
    for name, consent in (("asked", ()), ("agreed", ("--yes",))):
        site.start(name, odograph("replay", *words, "--into", "live", "--speed", "max", *consent))
        codes.append(site.ended(name, REPLAY_S))
    start_stream(site)
    site.wait_ready("jobs", READY_S)
    after = balanced(site)
    copies = after.late - before.late
    return [
        Promise("into live only by consent", codes == [USAGE, 0], f"exit codes {codes}"),
        Promise("what goes into live again comes late", copies > 0, f"{copies} late records more"),
        accounted(after),
    ]


def _found(url: str) -> int:
    with session(url) as connection:
        row = connection.execute(FOUND).fetchone()
    return int(row[0]) if row else 0
