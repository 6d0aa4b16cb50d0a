"""F9: the alert query and the event store are killed again and again; each alert is there exactly once."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import orjson

from infra.clients.db import session
from infra.contract.topics import kafka_topic
from infra.stack.supervisor import odograph
from load_tests.drills.alert_truth import Differences, Finding, Message, Raised, compare, expected, rules_text
from load_tests.drills.commits import newest_ends
from load_tests.drills.evidence import Log
from load_tests.drills.flow import Load, drained, finish, flows
from load_tests.drills.site import Site, until
from load_tests.drills.verdict import Promise, Verdict

PROGRAMS: Final = ("instant", "events")
CLEAR_FOR_S: Final = 5.0
CRASHES: Final = 0.1
"""Share of the vehicles that crash."""
UP_S: Final = (0.2, 8.0)
READY_S: Final = 240.0
BEGIN_S: Final = 120.0
PER_KILL_S: Final = 120.0
DRAIN_S: Final = 240.0
RULES_ENV: Final = "ODOGRAPH_JOBS_RULES"
IDS: Final = "SELECT alert_id FROM odograph.alert_event WHERE rule LIKE 'drill%%' AND vehicle_id = ANY(%s)"
ALERTS: Final = """
SELECT vehicle_id, rule, findings, (extract(epoch FROM opened_at) * 1000)::bigint,
       (extract(epoch FROM last_at) * 1000)::bigint
FROM odograph.alert WHERE rule LIKE 'drill%%' AND vehicle_id = ANY(%s)
"""
STORED_UP_TO: Final = "SELECT sum(next_offset) FROM odograph.consumer_offset WHERE topic = 'alerts'"


def f9(site: Site, load: Load) -> Verdict:
    """kill -9 the alert query and the event store in turn, at random moments, while findings flow."""
    rules = site.home / "rules.yaml"
    rules.write_text(rules_text(CLEAR_FOR_S))
    site.env[RULES_ENV] = str(rules)
    log = Log(site.settings, site.endpoints)
    site.bridge()
    for name in PROGRAMS:
        site.start(name, odograph("jobs", name))
    for name in PROGRAMS:
        site.wait_ready(name, READY_S)
    lasting = Load(load.rate, load.times * PER_KILL_S, load.seed)
    site.simulate("f9", *lasting.arguments("--fault", f"crash={CRASHES:g}"))
    flows(site, "f9", load.rate, BEGIN_S)
    begun = time.monotonic()
    recoveries = killed(site, log, random.Random(load.seed), load.times)
    while time.monotonic() - begun < load.duration_s:
        time.sleep(0.1)
    site.stop("f9")
    finish(site, "f9", BEGIN_S)
    drained(site, ["bridge"])
    until(lambda: read_on(site, log), DRAIN_S, "query and store have read on to the ends of their topics")
    return judged(site, log, "f9", CLEAR_FOR_S, recoveries)


def killed(site: Site, log: Log, rng: random.Random, times: int) -> dict[str, list[float]]:
    """Kill the programs in turn, so many times in all; from the kill to the readiness page, s, by program.

    Each is killed a random time after it was seen at work: the log of findings, or the store, has grown.
    """
    recoveries: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for number in range(times):
        name = PROGRAMS[number % len(PROGRAMS)]
        _seen_at_work(site, log, name)
        time.sleep(rng.uniform(*UP_S))
        site.kill_group(name)
        fallen_s = time.monotonic()
        site.start(name, odograph("jobs", name))
        site.wait_ready(name, READY_S)
        recoveries[name].append(round(time.monotonic() - fallen_s, 1))
    return recoveries


def _seen_at_work(site: Site, log: Log, name: str) -> None:
    """Wait until a program has done something since now: findings in Kafka, or in the table."""

    def done() -> int:
        return log.appended("alerts") if name == "instant" else _stored_up_to(site)

    before = done()
    until(lambda: done() > before, READY_S, f"{name} is at work")


def read_on(site: Site, log: Log) -> bool:
    """Whether the queries have committed all that lies in their topics, and the store all findings."""
    for query, name in (("instant", "telemetry"), ("instant-crash", "crash")):
        newest = newest_ends(site.home / "checkpoints" / query)
        ends = newest.get(kafka_topic(site.settings.kafka.prefix, name), {})
        if sum(ends.values()) != log.appended(name):
            return False
    return _stored_up_to(site) == log.appended("alerts")


def _stored_up_to(site: Site) -> int:
    with session(site.endpoints.db_owner_url) as connection:
        row = connection.execute(STORED_UP_TO).fetchone()
    return int(row[0] or 0) if row else 0


def due(home: Path, run_id: str) -> tuple[dict[str, Finding], list[str]]:
    """The findings that a run calls for, by id, and its vehicles."""
    lines = list(_written(home, run_id))
    frames = [(payload, flag) for channel, payload, flag in lines if channel == "telemetry"]
    crashes = [payload for channel, payload, _ in lines if channel == "crash"]
    vehicles = sorted({payload["vehicle_id"] for _, payload, _ in lines})
    return expected(frames, crashes), vehicles


def _written(home: Path, run_id: str) -> Iterator[tuple[str, Message, str]]:
    """Channel, payload and fate of what a run wrote before publishing, poison left out."""
    with (home / "runs" / run_id / "frames.jsonl").open("rb") as file:
        for text in file:
            line = orjson.loads(text)
            if line["flag"] != "poison":
                yield line["channel"], line["payload"], line["flag"]


def differences(
    site: Site, wanted: dict[str, Finding], vehicles: list[str], clear_for_s: float
) -> Differences:
    """The tables now, of these vehicles and the drill's rules."""
    with session(site.endpoints.db_owner_url) as connection:
        ids = [row[0] for row in connection.execute(IDS, (vehicles,))]
        alerts = [Raised(*row) for row in connection.execute(ALERTS, (vehicles,))]
    return compare(wanted, ids, clear_for_s, alerts)


def promises(found: Differences) -> tuple[Promise, ...]:
    """Each finding and each alert exactly once."""
    return (
        Promise("each expected finding is stored", found.missing == 0 < found.expected,
                f"{found.missing} missing of {found.expected}"),
        Promise("0 phantom", found.phantom == 0, f"{found.phantom}"),
        Promise("each expected alert is exactly one row", found.wrong_alerts == 0 < found.alerts,
                f"{found.wrong_alerts} differ, {found.alerts} expected"),
    )  # fmt: skip


def judged(
    site: Site, log: Log, run_id: str, clear_for_s: float, recoveries: dict[str, list[float]]
) -> Verdict:
    """What became of a run, once query and store have read on."""
    wanted, vehicles = due(site.home, run_id)
    found = differences(site, wanted, vehicles, clear_for_s)
    figures: dict[str, Any] = {
        "findings": found.expected,
        "alerts": found.alerts,
        "repeated_in_kafka": log.appended("alerts") - found.expected,
        "kills": sum(map(len, recoveries.values())),
    }
    for name, seconds in recoveries.items():
        if seconds:
            figures[f"{name}_recovery_s"] = f"median {statistics.median(seconds):g}, worst {max(seconds):g}"
    return Verdict("f9", promises(found), figures)
