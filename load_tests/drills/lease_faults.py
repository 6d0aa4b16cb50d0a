"""C9: pairs of singletons. The holder of each lease stands still past its time, then goes on."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson
import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from infra.clients.db import session
from infra.clients.leases import WARMING_UP
from infra.contract.errors import ServiceError
from infra.settings.settings import ENDPOINTS_FILE, Endpoints
from infra.stack import probes
from infra.stack.supervisor import COMMANDS, odograph
from load_tests.drills.aggregates import accounted, balanced, windows
from load_tests.drills.alert_faults import (
    CLEAR_FOR_S,
    CRASHES,
    RULES_ENV,
    differences,
    due,
    promises,
    read_on,
)
from load_tests.drills.alert_truth import rules_text
from load_tests.drills.commits import digest
from load_tests.drills.evidence import Log, compare, sent
from load_tests.drills.flow import Load, finish, flows
from load_tests.drills.poison.downlink import SECRET, Receiver
from load_tests.drills.site import Site, until
from load_tests.drills.verdict import Promise, Verdict, counts, nothing_lost

READY_S: Final = 300.0
BEGIN_S: Final = 120.0
LASTING_S: Final = 3600.0
SUCCESSOR_S: Final = 15.0
SETTLE_S: Final = 1.0
STALE_S: Final = 20.0
"""A holder that takes itself for one still has so long to write something."""
DRAIN_S: Final = 240.0
HOOK: Final = """
[[webhook]]
name = "drill"
url = "http://127.0.0.1:{port}/"
secret_file = "{secret}"
min_severity = "WARNING"
notify = "alert"
repeat_s = 0
"""
EXTEND: Final = "UPDATE odograph.lease SET expires_at = now() + INTERVAL '1 hour' WHERE name = %s"
STORED: Final = """
SELECT (SELECT sum(next_offset) FROM odograph.consumer_offset WHERE consumer = 'events'),
       (SELECT count(*) FROM odograph.alert_event),
       (SELECT count(*) FROM odograph.alert_change)
"""
REPORTED: Final = """
SELECT max(run_at), max(success_at) FROM odograph.maintenance_task WHERE process = 'maintenance'
"""
BATCHES: Final = "SELECT max(batch_id) FROM odograph.batch_ledger WHERE query = 'telemetry'"
PROGRESS: Final = "SELECT count(*) FROM odograph.query_progress"


@dataclass(frozen=True, slots=True)
class Pair:
    """The first and the second host, and what the world outside hears."""

    first: Site
    second: Site
    log: Log
    hook: Receiver
    heard: list[str]
    """Ids of alerts over MQTT."""
    mutant: str | None

    def row(self, statement: str, *values: Any) -> tuple[Any, ...]:
        """The row that a statement gives, if any."""
        with session(self.first.endpoints.db_owner_url) as connection:
            cursor = connection.execute(statement.encode(), values)
            return (cursor.fetchone() or ()) if cursor.description else ()

    def start(self, site: Site, name: str) -> None:
        """Start a program on a host; a defect is the first one's."""
        command = COMMANDS[name]
        patched = (sys.executable, "-m", "load_tests.drills.mutant_programs", str(self.mutant), *command)
        site.start(name, patched if self.mutant and site is self.first else odograph(*command))


@dataclass(frozen=True, slots=True)
class Singleton:
    """``done`` grows with its work; ``writes`` is the same while nobody writes, None where that is not so.

    ``late``: what may leave late where it was stopped between its question for the lease and the effect.
    """

    name: str
    done: Callable[[Pair], Any]
    writes: Callable[[Pair], Any] | None
    late: Callable[[Any, Any], bool] = lambda _before, _after: False


SINGLETONS: Final = (
    Singleton("events", lambda p: p.row(STORED)[0], lambda p: p.row(STORED)),
    Singleton(
        "downlink",
        lambda p: min(len(p.hook.accepted), len(p.heard)),
        lambda p: (len(p.hook.seen), len(p.heard)),
        # One attempt at a webhook, told again by its successor under the same key.
        lambda before, after: after == (before[0] + 1, before[1]),
    ),
    Singleton("maintenance", lambda p: p.row(REPORTED)[1], lambda p: p.row(REPORTED)),
    # Its tasks in the JVM write findings to Kafka until its driver has seen that the lease is gone.
    Singleton("instant", lambda p: p.log.appended("alerts"), None),
    Singleton("jobs", lambda p: p.row(BATCHES)[0], lambda p: (digest(p.first), p.row(PROGRESS))),
)


WITHOUT_SPARK: Final = 3
"""The first ones; a defect of leases is seen in them."""


@dataclass(frozen=True, slots=True)
class Succession:
    """What became of one fault."""

    name: str
    took_s: float
    """From the stop to the first work of the successor."""
    stale: str
    """What the one that came back has written; empty: nothing."""
    stepped_down: bool


def c9(site: Site, load: Load, mutant: str | None) -> Verdict:
    """SIGSTOP the holder of each lease past its time, then let it go on."""
    rules, secret, hooks = (site.home / name for name in ("rules.yaml", "drill.secret", "hooks.toml"))
    hook = Receiver(trouble=False)
    rules.write_text(rules_text(CLEAR_FOR_S))
    secret.write_bytes(SECRET)
    secret.chmod(0o600)
    hooks.write_text(HOOK.format(port=hook.server.server_address[1], secret=secret))
    site.env |= {RULES_ENV: str(rules), "ODOGRAPH_DOWNLINK_WEBHOOKS": str(hooks)}
    log = Log(site.settings, site.endpoints)
    second = elsewhere(site)
    with listening(site) as heard:
        pair = Pair(site, second, log, hook, heard, mutant)
        try:
            return _judged(pair, _faulted(pair, load))
        finally:
            second.end_programs()
            hook.server.shutdown()
            hook.server.server_close()


def elsewhere(site: Site) -> Site:
    """The same installation as its second host has it: health pages and a holder of its own."""
    home = site.stack.host_home(2)
    found = Endpoints(**orjson.loads((home / ENDPOINTS_FILE).read_bytes()))
    env = site.env | {"ODOGRAPH_PATHS_HOME": str(home)}
    return replace(site, home=home, endpoints=found, env=env, _children={})


@contextlib.contextmanager
def listening(site: Site) -> Iterator[list[str]]:
    """Ids of the alerts that go to vehicles while the block runs."""
    heard: list[str] = []
    subscribed = threading.Event()
    client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id="drill-ear")
    client.on_connect = lambda c, *_: c.subscribe(f"{site.settings.mqtt.root}/+/alert", 1)
    client.on_subscribe = lambda *_: subscribed.set()
    client.on_message = lambda _c, _d, m: heard.append(orjson.loads(m.payload)["alert_id"])
    client.connect(site.endpoints.mqtt_host, site.endpoints.mqtt_port)
    client.loop_start()
    if not subscribed.wait(BEGIN_S):
        raise ServiceError("drill: the broker takes no subscription")
    try:
        yield heard
    finally:
        client.disconnect()
        client.loop_stop()


def _faulted(pair: Pair, load: Load) -> list[Succession]:
    chosen = SINGLETONS if pair.mutant is None else SINGLETONS[:WITHOUT_SPARK]
    pair.first.bridge()
    for each in SINGLETONS:
        pair.start(pair.first, each.name)
    for each in SINGLETONS:
        pair.first.wait_ready(each.name, READY_S)
    lasting = Load(load.rate, LASTING_S, load.seed)
    pair.first.simulate("c9", *lasting.arguments("--fault", f"crash={CRASHES:g}"))
    flows(pair.first, "c9", load.rate * load.duration_s, BEGIN_S + load.duration_s)
    for each in chosen:  # there are records by now that a standby of Spark warms up with
        pair.start(pair.second, each.name)
    until(lambda: all(stands_by(pair.second, e.name) for e in chosen), READY_S, "the second ones stand by")
    found = [_succeeded(pair, each) for each in chosen]
    pair.first.stop("c9")
    finish(pair.first, "c9", BEGIN_S)
    return found


def stands_by(site: Site, name: str) -> bool:
    """Whether a program says so, and is warm."""
    said = probes.readiness(site.endpoints.http_ports[name])[1] or ""
    return said.startswith("standby: ") and WARMING_UP not in said


def _succeeded(pair: Pair, one: Singleton) -> Succession:
    """Stop a holder, wait for its successor's work, stop that too, and see what the first one does."""
    name, first, second = one.name, pair.first, pair.second
    before = one.done(pair)
    until(lambda: one.done(pair) != before, READY_S, f"{name} is at work")
    first.signal_group(name, signal.SIGSTOP)
    begun_s = time.monotonic()
    time.sleep(SETTLE_S)  # what it had sent is done by then
    before = one.done(pair)
    until(lambda: one.done(pair) != before, READY_S, f"{name} has a successor at work")
    took_s = round(time.monotonic() - begun_s, 1)
    second.signal_group(name, signal.SIGSTOP)
    pair.row(EXTEND, name)
    settled = _settled(pair, one)
    first.signal_group(name, signal.SIGCONT)
    with contextlib.suppress(ServiceError):
        until(lambda: stands_by(first, name) or first.ended_by_itself(name), STALE_S, "it steps down")
    time.sleep(SETTLE_S)
    written = one.writes(pair) if one.writes else settled
    wrong = written != settled and not one.late(settled, written)
    stale = f"{name}: {settled}, then {written}" if wrong else ""
    stepped_down = first.ended_by_itself(name) or stands_by(first, name)
    second.signal_group(name, signal.SIGCONT)
    if stepped_down:
        before = one.done(pair)
        until(lambda: _one_stands_by(pair, name) and one.done(pair) != before, READY_S, f"{name} stands by")
    first.say(f"{name}: succeeded after {took_s:g} s")
    return Succession(name, took_s, stale, stepped_down)


def _one_stands_by(pair: Pair, name: str) -> bool:
    """Whether one acts and the other does not; what has ended is started again, as the supervisor does.

    Also the successor: where the stale one has written into the checkpoint, Spark lets the other one end.
    """
    for site in (pair.first, pair.second):
        if site.ended_by_itself(name):
            pair.start(site, name)
    return [stands_by(site, name) for site in (pair.first, pair.second)].count(True) == 1


def _settled(pair: Pair, one: Singleton) -> Any:
    """What is written, once two looks see the same."""
    if one.writes is None:
        return None
    seen = [one.writes(pair)]

    def same() -> bool:
        time.sleep(SETTLE_S)
        seen.append(one.writes(pair) if one.writes else None)
        return bool(seen[-1] == seen[-2])

    until(same, BEGIN_S, f"{one.name}: nobody writes")
    return seen[-1]


def _judged(pair: Pair, found: list[Succession]) -> Verdict:
    """With a defect the leases alone are looked at: who writes beside another one spoils all else."""
    slowest = max(found, key=lambda each: each.took_s)
    stale = [each.stale for each in found if each.stale]
    held_up = [each.name for each in found if not each.stepped_down]
    of_leases = (
        Promise(f"a successor is at work within {SUCCESSOR_S:g} s", slowest.took_s <= SUCCESSOR_S,
                f"{slowest.took_s:g} s at most, {slowest.name}"),
        Promise("a stale holder writes nothing", not stale, ", ".join(stale) or "none did"),
        Promise("it stands by, or ends", not held_up, ", ".join(held_up) or "each did"),
    )  # fmt: skip
    figures: dict[str, Any] = {f"{each.name}_s": each.took_s for each in found}
    figures["epochs"] = dict(_epochs(pair))
    more, counted = _told(pair, len(found)) if pair.mutant is None else ((), {})
    return Verdict("c9", of_leases + more, figures | counted, pair.mutant)


def _told(pair: Pair, faults: int) -> tuple[tuple[Promise, ...], dict[str, Any]]:
    """What became of the frames and alerts, and figures."""
    site, log = pair.first, pair.log
    ledger = balanced(site)
    until(lambda: read_on(site, log), DRAIN_S, "queries and store have read on to the ends of their topics")
    written = sent(site.home, "c9")
    missing = compare(log, written)
    equal = windows(site, log, [vehicle for vehicle, _, _ in written.frames], roads=True)
    wanted, vehicles = due(site.home, "c9")
    until(lambda: {*pair.hook.accepted} >= wanted.keys(), DRAIN_S, "the webhook has every alert")
    told = differences(site, wanted, vehicles, CLEAR_FOR_S)
    twice = len(pair.hook.accepted) - len({*pair.hook.accepted})
    repeated = log.appended("alerts") - told.expected
    found = (
        Promise("a webhook is told twice at most of what was under way, and of what is in Kafka twice",
                twice <= faults + repeated, f"{twice}, {repeated} in Kafka"),
        *nothing_lost(missing),
        accounted(ledger),
        equal.promise(),
        *promises(told),
    )  # fmt: skip
    return found, counts(missing) | {
        "findings": told.expected,
        "repeated_in_kafka": repeated,
        "twice_over_mqtt": len(pair.heard) - len({*pair.heard}),
        "twice_at_the_webhook": twice,
    }


def _epochs(pair: Pair) -> list[tuple[str, int]]:
    with session(pair.first.endpoints.db_owner_url) as connection:
        return connection.execute("SELECT name, epoch FROM odograph.lease ORDER BY name").fetchall()
