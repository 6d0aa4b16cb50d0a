"""C4: a second region, whose Kafka has the copy of the first one's log. All of the first is killed; later it
acts again.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import orjson

from infra.clients.db import session
from infra.contract.errors import ServiceError
from infra.settings.settings import ENDPOINTS_FILE, Endpoints, Sections
from infra.stack import processes
from infra.stack.hosts import regions
from infra.stack.service import free_port
from infra.stack.stack import Stack
from infra.stack.supervisor import COMMANDS, MIRROR, odograph
from load_tests.drills import pair_faults
from load_tests.drills.aggregates import accounted, balanced, windows
from load_tests.drills.alert_faults import CLEAR_FOR_S, CRASHES, RULES_ENV
from load_tests.drills.alert_truth import rules_text
from load_tests.drills.checker import Identity
from load_tests.drills.evidence import Log, compare, sent
from load_tests.drills.flow import Load, finish, flows
from load_tests.drills.lease_faults import HOOK
from load_tests.drills.poison.downlink import SECRET, Receiver
from load_tests.drills.site import Site, until
from load_tests.drills.verdict import Promise, Verdict, counts

PROGRAMS: Final = ("jobs", "instant", "events", "downlink", "maintenance")
TOLD_AGAIN: Final = "told-again"
VEHICLES: Final = ("--connections", "20", "--keep-sent", "20s")
UNCOPIED_S: Final = 30.0
"""So long before its end the first region's log is not copied: longer than vehicles keep what they sent."""
COMMAND_S: Final = 300.0
READY_S: Final = 300.0
BEGIN_S: Final = 120.0
LASTING_S: Final = 3600.0
CAME_S: Final = 300.0
RECOVERY_S: Final = 120.0
NEWEST: Final = "SELECT count(*) FROM odograph.vehicle_latest WHERE event_time > to_timestamp(%s)"
TOLD: Final = "SELECT count(*) FROM odograph.alert_event WHERE received_at > to_timestamp(%s)"
STILL_AWAY: Final = "SELECT count(*) FROM odograph.uncopied WHERE came_at IS NULL"


def c4(site: Site, load: Load, mutant: str | None) -> Verdict:
    """Kill -9 all of the first region while its last half minute is not copied; the other one takes over, and
    gives back.
    """
    hook = Receiver(trouble=False)
    _hooked(site, hook)
    second = elsewhere(site)
    try:
        return _drilled(site, second, load, hook, mutant)
    finally:
        second.end_programs()
        _command(second, "down")
        hook.server.shutdown()
        hook.server.server_close()


def _hooked(site: Site, hook: Receiver) -> None:
    rules, secret, hooks = (site.home / name for name in ("rules.yaml", "drill.secret", "hooks.toml"))
    rules.write_text(rules_text(CLEAR_FOR_S))
    secret.write_bytes(SECRET)
    secret.chmod(0o600)
    hooks.write_text(HOOK.format(port=hook.server.server_address[1], secret=secret))
    site.env |= {RULES_ENV: str(rules), "ODOGRAPH_DOWNLINK_WEBHOOKS": str(hooks)}


def elsewhere(site: Site) -> Site:
    """The second region: a home with a Kafka and a broker of its own, which follows; the same database."""
    home, ports = site.home / "lanes" / "B", dict[str, int]()
    for name in ("kafka", "mqtt"):
        ports[name] = free_port({*ports.values(), *site.stack.ports().values()})
    own: Sections = {
        "paths": {"home": home}, "region": {"name": "B", "other": f"A={site.endpoints.kafka_bootstrap}"},
        "kafka": {"port": ports["kafka"]}, "mqtt": {"port": ports["mqtt"]}, "cluster": {"postgres": 0},
    }  # fmt: skip
    keys = ("ingest_url", "dashboard_url", "dispatch_url")  # the passwords are the first home's
    own["db"] = {key: getattr(site.endpoints, f"db_{key}") for key in keys}
    env = {f"ODOGRAPH_{s}_{k}".upper(): str(v) for s, values in own.items() for k, v in values.items()}
    home.mkdir(parents=True)
    (home / "runs").symlink_to(site.home / "runs")
    settings = site.settings.changed(own)
    second = replace(site, home=home, settings=settings, env=site.env | env, _children={})
    second = replace(second, stack=Stack(settings, lambda _: None, preferred={}))
    _command(second, "up", "--services-only")
    return replace(second, endpoints=Endpoints(**orjson.loads((home / ENDPOINTS_FILE).read_bytes())))


def _command(site: Site, *arguments: str) -> str:
    """What a command of a region says; raises ServiceError where it fails."""
    log = site.home / "logs" / "command.log"
    child = processes.spawn(site.run_dir, "command", odograph(*arguments), log, env=site.env)
    if child.wait(COMMAND_S) != 0:
        raise ServiceError(f"drill: odograph {' '.join(arguments)}: {processes.log_tail(log)}")
    return log.read_text()


def _programs(site: Site, mutant: str | None) -> None:
    site.bridge()
    for name in PROGRAMS:
        command = COMMANDS[name]
        patched = (sys.executable, "-m", "load_tests.drills.mutant_programs", str(mutant), *command)
        site.start(name, patched if mutant and name == "downlink" else odograph(*command))
    for name in PROGRAMS:
        site.wait_ready(name, READY_S)


@dataclass(frozen=True, slots=True)
class TakenOver:
    """What became of the first region's end. ``named`` of the frames that were not copied, ``lacking``."""

    lacking: set[Identity]
    named: set[Identity]
    stretches: Sequence[str]
    told: int
    """Alerts at the webhook before it."""
    switched_s: float
    again_s: float

    def promises(self) -> tuple[Promise, ...]:
        known = self.lacking & self.named
        return (
            Promise("what was not copied is named, frame by frame", bool(known) and known == self.lacking,
                    f"{len(known)} of {len(self.lacking)}"),
            Promise("and as stretches of the first one's log", bool(self.stretches),
                    "; ".join(self.stretches[:3])),
            _goes_on(self.again_s),
        )  # fmt: skip


def _goes_on(again_s: float, back: str = "") -> Promise:
    text = f"{back}windows and alerts go on within {RECOVERY_S:g} s"
    return Promise(text, again_s <= RECOVERY_S, f"{again_s:g} s")


def _drilled(site: Site, second: Site, load: Load, hook: Receiver, mutant: str | None) -> Verdict:
    second.start(MIRROR, odograph(MIRROR))
    _programs(site, None)
    _drive(site, second, Load(load.rate, LASTING_S, load.seed))
    flows(site, "c4", load.rate * load.duration_s, BEGIN_S + load.duration_s)
    over = _taken_over(site, second, load, hook, mutant)
    back_s = _given_back(site, second)
    site.stop("c4")
    finish(site, "c4", BEGIN_S)
    ledger, log, written = balanced(site), Log(site.settings, site.endpoints), sent(site.home, "c4")
    found = compare(log, written)
    twice = len(hook.accepted) - len({*hook.accepted})
    promises = (
        Promise("0 lost", found.lost == 0, f"{found.lost} of {found.generated}"),
        Promise("0 foreign, one partition a vehicle", found.foreign + found.scattered == 0,
                f"{found.foreign} and {found.scattered}"),
        *over.promises(),
        _goes_on(back_s, "and back: "),
        accounted(ledger),
        windows(site, log, [vehicle for vehicle, _, _ in written.frames]).promise(),
        Promise("a webhook is told twice of the alert under way at most", twice <= 2 and over.told > 0,
                f"{twice} of {len(hook.accepted)} in two changes, {over.told} before"),
    )  # fmt: skip
    figures = {"switched_s": over.switched_s, "again_s": over.again_s, "not_copied": len(over.lacking)}
    return Verdict("c4", promises, counts(found) | figures | {"back_s": back_s}, mutant)


def _taken_over(site: Site, second: Site, load: Load, hook: Receiver, mutant: str | None) -> TakenOver:
    """All of the first region is killed, and the second one acts; then it gets what it lacks."""
    log, copy = Log(site.settings, site.endpoints), Log(second.settings, second.endpoints)
    second.wait_ready(MIRROR, READY_S)
    until(lambda: copy.appended("telemetry") > load.rate, READY_S, "the log is copied")
    second.kill_group(MIRROR)
    time.sleep(UNCOPIED_S)
    had, told = _identities(log), len(hook.accepted)
    fallen_s, fallen = time.monotonic(), time.time()
    _kill_all(site)
    assert site.cluster.pair is not None
    pair_faults.promote(site.cluster.pair)
    said = _command(second, "failover", "--to", "B", "--services-only")
    switched_s = round(time.monotonic() - fallen_s, 1)
    second.start(MIRROR, odograph(MIRROR))
    again_s = _again_s(second, mutant, fallen_s, fallen)
    second.say(f"region B: acts after {switched_s:g} s, windows and alerts again after {again_s:g} s")
    lacking = had - _identities(copy)
    until(lambda: lacking <= _named(second) or not lacking, CAME_S, "the audit names what was not copied")
    named, noted = _named(second), regions.uncopied(second.endpoints.db_owner_url)
    stretches = [*map(str, noted)] if "not copied" in said else []
    site.restart_service("kafka")
    until(lambda: _count(second, STILL_AWAY) == 0, CAME_S, "what was not copied has come")
    return TakenOver(lacking, named, stretches, told, switched_s, again_s)


def _given_back(site: Site, second: Site) -> float:
    """The first region follows with a log that begins anew, then acts again; how long until it does, s."""
    site.env |= {
        "ODOGRAPH_REGION_OTHER": f"B={second.endpoints.kafka_bootstrap}",
        "ODOGRAPH_CLUSTER_POSTGRES": "0",  # of the database's servers one is there
    }
    _command(site, "up", "--services-only")
    _command(site, "failover", "--follow", "--services-only")
    had = Log(second.settings, second.endpoints).appended("telemetry")
    site.start(MIRROR, odograph(MIRROR))
    own = Log(site.settings, site.endpoints)
    until(lambda: own.appended("telemetry") >= had, READY_S, "the log is copied back")
    begun_s, begun = time.monotonic(), time.time()
    _command(site, "failover", "--to", "A", "--services-only")
    _command(second, "up", "--services-only")  # its broker ends: vehicles go to the first one's
    for name in ("bridge", *PROGRAMS):
        second.stop(name)
    again_s = _again_s(site, None, begun_s, begun)
    site.say(f"region A: windows and alerts again after {again_s:g} s")
    until(lambda: _count(second, STILL_AWAY) == 0, CAME_S, "what was not copied has come")
    return again_s


def _again_s(site: Site, mutant: str | None, since_s: float, since: float) -> float:
    """Start a region's programs; how long since ``since`` it was when there were results of later, s."""
    _programs(site, mutant)
    until(lambda: _count(site, NEWEST, since), READY_S, "windows of what came after")
    until(lambda: _count(site, TOLD, since), READY_S, "alerts of what came after")
    return round(time.monotonic() - since_s, 1)


def _drive(site: Site, second: Site, load: Load) -> None:
    """Vehicles that know both regions' brokers; the second one's does not run yet."""
    fleet = site.home / "fleet"
    fleet.mkdir()
    (fleet / "runs").symlink_to(site.home / "runs")
    places = f"127.0.0.1:{site.endpoints.mqtt_port},127.0.0.1:{second.settings.mqtt.port}"
    arguments = load.arguments(*VEHICLES, "--fault", f"crash={CRASHES:g}", "--log-frames", "--run-id", "c4")
    own = {
        "ODOGRAPH_PATHS_HOME": str(fleet),
        "ODOGRAPH_MQTT_URL": f"mqtt://{places}",
        "ODOGRAPH_DOWNLINK_PUBLIC_KEY_FILE": str(site.home / "downlink.pub"),
    }
    site.start("c4", odograph("simulate", *arguments), **own)


def _kill_all(site: Site) -> None:
    """Kill -9 whatever the first region has: programs, broker, Kafka, database."""
    for name in ("bridge", *PROGRAMS):
        site.kill_group(name)
    for name in ("mosquitto", "kafka"):
        site.kill(name)
    assert site.cluster.pair is not None
    pair_faults.kill(site.cluster.pair)


def _identities(log: Log) -> set[Identity]:
    return {record.identity for record in log.stored()}


def _named(site: Site) -> set[Identity]:
    """The frames that the audit misses."""
    out = Path(site.home) / "audit.json"
    shell = ("sh", "-c", f"{' '.join(odograph('audit', '--json'))} > {out}")
    processes.spawn(site.run_dir, "audit", shell, site.home / "logs" / "audit.log", env=site.env).wait(
        COMMAND_S
    )
    gaps = orjson.loads(out.read_bytes() or b"{}").get("missing", [])
    return {
        (gap["vehicle_id"], gap["boot_id"], seq)
        for gap in gaps
        for first, last in gap["ranges"]
        for seq in range(first, last + 1)
    }


def _count(site: Site, statement: str, *values: Any) -> int:
    with session(site.endpoints.db_owner_url) as connection:
        row = connection.execute(statement.encode(), values).fetchone()
    return int(row[0]) if row else 0
