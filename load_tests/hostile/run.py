"""The run: all programs, honest vehicles, hostile messages beside them, hostile files; one verdict."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import orjson

from infra.clients.db import session
from infra.contract.errors import ServiceError
from infra.contract.topics import mqtt_topic
from infra.stack import supervisor
from infra.stack.stack import SERVICES
from infra.stack.supervisor import SUPERVISOR, odograph
from load_tests.drills.aggregates import windows
from load_tests.drills.evidence import Log
from load_tests.drills.site import Site, until
from load_tests.drills.verdict import Promise, Verdict
from load_tests.hostile import files, judge
from load_tests.hostile.traffic import DIRECT, ELSEWHERE, KAFKA_SHARE, UPLINK, Sender, Sent
from load_tests.mqtt_flood import Flood, frame

RATE: Final = 1200.0
FILES_PER_MESSAGE: Final = 0.01
"""Of each kind: a million messages, 10,000 files."""
HONEST_RATE: Final = 200
WARM_S: Final = 40.0
READY_S: Final = 420.0
LOOK_S: Final = 10.0
REST_S: Final = 300.0
PROBE_VIN: Final = "1HGCM82633A777777"
RUN_ID: Final = "honest"
SPARK: Final = ("jobs", "instant")


@dataclass(frozen=True, slots=True)
class Wanted:
    """How many messages, at which rate (0: as fast as the broker takes them), how many files of each kind.

    Without ``spark`` only bridge and event store run, and no honest vehicles: nobody reads telemetry.
    """

    messages: int
    rate: float = RATE
    files: int | None = None
    seed: int = 1
    spark: bool = True


def hostile(site: Site, wanted: Wanted) -> Verdict:
    """Hostile messages beside honest vehicles on a site of its own, then the files; the verdict."""
    figures: dict[str, Any] = {"mix": _weights()}
    begun = time.monotonic()
    tried = files.tried(_files(wanted), wanted.seed, site.say) if _files(wanted) else {}
    figures["files_s"] = round(time.monotonic() - begun)
    with _running(site, wanted.spark) as parts:
        was, before = judge.settled(site, REST_S), judge.appended(site)
        if wanted.spark:
            site.simulate(
                RUN_ID, "-c", str(HONEST_RATE), "--rate", str(HONEST_RATE), "--seed", str(wanted.seed)
            )
            time.sleep(WARM_S)
        begun = time.monotonic()
        sent = _send(site, wanted, parts)
        figures["sending_s"] = round(time.monotonic() - begun)
        promises = list(_told(site, _judged(site, wanted, parts, was, before, sent)))
    promises += _of_files(tried)
    figures |= {"messages": sent.total, "sent": sent.mix(), "megabytes": sent.sent_bytes >> 20}
    figures["files"] = {kind: f"{one.taken} taken, {one.refused} refused" for kind, one in tried.items()}
    return Verdict("hostile", tuple(promises), figures)


def _files(wanted: Wanted) -> int:
    return round(wanted.messages * FILES_PER_MESSAGE) if wanted.files is None else wanted.files


def _weights() -> str:
    def shares(weights: dict[str, int]) -> str:
        return ", ".join(f"{name} {weight}" for name, weight in weights.items())

    over, into = shares(UPLINK | ELSEWHERE), shares(DIRECT)
    return f"{1 - KAFKA_SHARE:.0%} over MQTT ({over}), {KAFKA_SHARE:.0%} into Kafka ({into})"


@contextmanager
def _running(site: Site, spark: bool) -> Iterator[judge.Parts]:
    """All programs of ``odograph up`` under their supervisor, or the two that do without Spark."""
    if spark:
        site.start(SUPERVISOR, odograph("run"))
        late = supervisor.wait_ready(site.endpoints.http_ports, READY_S, site.say)
        if late:
            raise ServiceError(f"hostile: not ready within {READY_S:g} s: {late}")
        names = tuple(program.name for program in supervisor.programs(site.settings.bridge.shards))
        parts = judge.Parts(site, (*SERVICES, SUPERVISOR, *names))
    else:
        for name, command in (("bridge", ("bridge",)), ("events", ("jobs", "events"))):
            site.start(name, odograph(*command))
            site.wait_ready(name)
        parts = judge.Parts(site, (*SERVICES, "bridge", "events"))
    parts.begin()
    yield parts
    if spark:
        supervisor.stop_in_background(site.home)


def _send(site: Site, wanted: Wanted, parts: judge.Parts) -> Sent:
    """Send it all, with a line every ``LOOK_S``."""
    begun = looked = time.monotonic()

    def tick(sent: Sent) -> None:
        nonlocal looked
        now = time.monotonic()
        if now - looked >= LOOK_S:
            looked = now
            parts.look()
            site.say(_line(site, sent, wanted.messages, now - begun, parts))

    parts.look()
    prefix = site.settings.kafka.prefix
    sent = Sender(site.endpoints, site.settings.mqtt.root, prefix, wanted.seed).send(
        wanted.messages, wanted.rate, tick
    )
    parts.look()
    return sent


def _line(site: Site, sent: Sent, count: int, seconds: float, parts: judge.Parts) -> str:
    seen = judge.bridge(site)
    ended = parts.ended()
    lag = site.metrics("jobs").get("odograph_query_lag_records") if "jobs" in parts.pids else None
    return (
        f"{seconds:5.0f} s  {sent.total:,} of {count:,} sent ({sent.total / seconds:.0f}/s), rejected "
        f"{seen.rejected:,}, not kept {seen.not_kept:,}, in flight "
        f"{site.metrics().get('odograph_bridge_in_flight_messages', 0):.0f}, lag of the queries {lag}"
        + (f"  ENDED: {', '.join(ended)}" if ended else "")
    )


def _judged(
    site: Site,
    wanted: Wanted,
    parts: judge.Parts,
    was: judge.Bridge,
    before: dict[str, int],
    sent: Sent,
) -> Iterator[Promise]:
    """What must hold, asked in an order that leaves the deadlines whole."""
    probes = 0
    if wanted.spark:
        code = site.stop(RUN_ID)
        yield Promise("honest vehicles end in order", code == 0, f"exit code {code}")
        yield _probed(site)
        probes = 1
    yield judge.caught_up(site, wanted.spark)
    now = judge.settled(site, REST_S)
    after = judge.appended(site)
    yield judge.delivered(was, now, sent, probes + (_honest(site) if wanted.spark else 0))
    yield judge.stored(before, after, was, now, sent)
    if wanted.spark:
        yield judge.audited(site, _vehicles(site))
        log = Log(site.settings, site.endpoints)
        equal = windows(site, log, _vehicles(site)).promise()
        yield Promise(f"honest {equal.text}", equal.holds, equal.found)
    parts.look()
    yield from parts.promises()


def _told(site: Site, judged: Iterator[Promise]) -> Iterator[Promise]:
    """Each promise as it is judged; a judgement that breaks down is one that is not kept."""
    try:
        for promise in judged:
            site.say(f"{'PASS' if promise.holds else 'FAIL'}  {promise.text}: {promise.found}")
            yield promise
    except Exception as error:  # noqa: BLE001  what was judged before is still worth telling
        yield Promise("all promises are judged", False, f"{type(error).__name__}: {error}")


def _probed(site: Site) -> Promise:
    """A frame that calls for an alert is one in the database soon: instant is not behind either."""
    now_ms = time.time_ns() // 1_000_000
    body = orjson.loads(frame(0, 0, now_ms - 1000)) | {"vehicle_id": PROBE_VIN, "coolant_temp_c": 130.0}
    topic = mqtt_topic(site.settings.mqtt.root, PROBE_VIN, "telemetry").encode()
    begun = time.monotonic()
    with Flood(site.endpoints.mqtt_host, site.endpoints.mqtt_port, "hostile-probe") as flood:
        flood.publish([(topic, orjson.dumps(body))])

    def seen() -> bool:
        with session(site.endpoints.db_owner_url, connect_timeout_s=5) as connection:
            sql = "SELECT 1 FROM odograph.alert WHERE vehicle_id = %s AND rule = 'coolant_critical'"
            return connection.execute(sql, (PROBE_VIN,)).fetchone() is not None

    text = f"an alert is in the database within {judge.BEHIND_S:g} s of its frame"
    try:
        until(seen, judge.LAG_S, "the probe's alert")
    except ServiceError as error:
        return Promise(text, False, str(error))
    took_s = time.monotonic() - begun
    return Promise(text, took_s <= judge.BEHIND_S, f"{took_s:.1f} s")


def _lines(site: Site) -> Iterator[dict[str, Any]]:
    with (site.home / "runs" / RUN_ID / "frames.jsonl").open("rb") as lines:
        for line in lines:
            yield orjson.loads(line)


def _honest(site: Site) -> int:
    """Messages of honest vehicles: what they logged, a birth and a farewell each."""
    logged = sum(1 for _ in _lines(site))
    return logged + 2 * len(_vehicles(site))


def _vehicles(site: Site) -> list[str]:
    return sorted({line["payload"]["vehicle_id"] for line in _lines(site) if line["channel"] == "telemetry"})


def _of_files(tried: dict[str, files.Outcome]) -> Iterator[Promise]:
    for kind, one in tried.items():
        bad = "; ".join(f"{n} x {what} (number {one.examples[what]})" for what, n in one.bad.most_common(3))
        text = f"{one.tried} {kind} are taken or refused by name"
        found = f"{one.taken} taken, {one.refused} refused, slowest {one.slowest_s:.1f} s"
        yield Promise(text, not one.bad, bad or found)
