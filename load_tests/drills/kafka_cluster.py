"""C1 and C10: three brokers of Kafka, leaders killed, then two of three; partitions added under load."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from confluent_kafka.admin import NewPartitions, TopicMetadata  # type: ignore[attr-defined]

from infra.clients import kafka
from infra.contract.errors import ServiceError
from infra.contract.topics import kafka_topic
from infra.stack.kafka import IN_SYNC
from infra.stack.status import records_behind
from load_tests.drills.aggregates import accounted, balanced, digested, start_jobs, start_stream, windows
from load_tests.drills.checker import Stored, check
from load_tests.drills.evidence import Log, compare, sent
from load_tests.drills.flow import Load, finish, flows
from load_tests.drills.journeys import trips
from load_tests.drills.site import Site, until
from load_tests.drills.topic_admin import TIMEOUT_S, configure_topic
from load_tests.drills.verdict import Promise, Verdict, counts, nothing_lost

BEGIN_S: Final = 120.0
LASTING_S: Final = 3600.0
ACKS_S: Final = 10.0
WHOLE_S: Final = 60.0
AT_MOST_S: Final = 180.0
AWAY_S: Final = 30.0
COUNTED_S: Final = 15.0
"""So long at least nothing may be acknowledged once the controller has taken the dead brokers out, after 9 s
and more; until then what all copies had before is.
"""
SETTLE_S: Final = 1.0
MIXED: Final = ("--late", "0.05", "--duplicate", "0.01")
ONE_COPY: Final = "one-copy"
MORE: Final = 8
BEHIND_S: Final = 5.0


def c1(site: Site, load: Load, mutant: str | None) -> Verdict:
    """kill -9 the leader of a partition again and again, then two of the three brokers for a while."""
    log = Log(site.settings, site.endpoints)
    log.begin_here("telemetry")
    if mutant == ONE_COPY:
        configure_topic(site.endpoints.kafka_bootstrap, _topic(site), IN_SYNC, "1")
    site.bridge()
    start_jobs(site)
    site.simulate("c1", *Load(load.rate, LASTING_S, load.seed).arguments(*MIXED))
    flows(site, "c1", load.rate * load.duration_s, BEGIN_S + load.duration_s)
    back_s, whole_s, restarts = [], [], 0
    for number in range(load.times):
        partitions = _metadata(site).partitions
        victim = f"kafka-{partitions[number % len(partitions)].leader - 1}"
        back_s.append(_stored_again(site, victim, load.rate))
        whole_s.append(_whole_again(site, victim))
        restarts += _kept_running(site)
        site.say(f"kill -9 of {victim}: stored again after {back_s[-1]:g} s, all copies {whole_s[-1]:g} s")
    for name in ("kafka-1", "kafka-2"):
        site.kill(name)
    fallen_s = time.monotonic()
    until(lambda: _in_sync(site) == {1}, AT_MOST_S, "the dead brokers are out")
    time.sleep(SETTLE_S)  # what was answered before is counted
    before = _figure(site, "acked")
    time.sleep(max(COUNTED_S, fallen_s + AWAY_S - time.monotonic()))
    without = round(_figure(site, "acked") - before)
    whole_s.append(_whole_again(site, "kafka-1", "kafka-2"))
    restarts += _kept_running(site)
    acked = site.run_file("c1")["acked"]
    flows(site, "c1", acked + load.rate * load.duration_s, AT_MOST_S + load.duration_s)
    site.stop("c1")
    finish(site, "c1", BEGIN_S)
    ledger = balanced(site)
    written = sent(site.home, "c1")
    found = compare(log, written)
    promises = (
        *nothing_lost(found),
        accounted(ledger),
        windows(site, log, [vehicle for vehicle, _, _ in written.frames]).promise(),
        trips(site, log),
        Promise(f"stored again within {ACKS_S:g} s of a leader's end", max(back_s) <= ACKS_S, f"{back_s} s"),
        Promise("with two brokers down nothing is acknowledged", without == 0, f"{without}"),
        Promise(f"all copies in sync within {WHOLE_S:g} s of a return", max(whole_s) <= WHOLE_S,
                f"{whole_s} s"),
    )  # fmt: skip
    return Verdict("c1", promises, counts(found) | {"jobs_restarted": restarts}, mutant)


def c10(site: Site, load: Load, mutant: str | None) -> Verdict:
    """Give telemetry more partitions while frames flow: half of the vehicles move to another one."""
    log = Log(site.settings, site.endpoints)
    old = len(_metadata(site).partitions)
    site.bridge()
    start_jobs(site, mutant)
    site.simulate("c10", *Load(load.rate, LASTING_S, load.seed).arguments(*MIXED))
    flows(site, "c10", load.rate * load.duration_s / 3, BEGIN_S + load.duration_s)
    admin = kafka.admin(site.endpoints.kafka_bootstrap)  # lives until its answers are here
    for future in admin.create_partitions([NewPartitions(_topic(site), MORE)]).values():
        future.result(TIMEOUT_S)
    until(lambda: _written(log, range(old, MORE)), AT_MOST_S, "every new partition has records")
    with site.paused_group("jobs"):
        shown, there = zip(_lag(site, log), _lag_later(site, log), strict=True)
    flows(site, "c10", load.rate * load.duration_s, BEGIN_S + load.duration_s)
    site.stop("c10")
    finish(site, "c10", BEGIN_S)
    ledger = balanced(site)
    digested(site)
    written = sent(site.home, "c10")
    found = check(written.frames, _in_order(log, old))
    grown, came = shown[1] - shown[0], there[1] - there[0]
    promises = (
        Promise("0 lost", found.lost == 0, f"{found.lost} of {found.generated}"),
        Promise("order per vehicle holds for first copies", found.reordered == 0,
                f"{found.reordered} {'; '.join(found.examples)}"),
        Promise("0 foreign", found.foreign == 0, f"{found.foreign}"),
        Promise("vehicles have moved", found.scattered > 0, f"{found.scattered} of {load.vehicles}"),
        Promise("the lag shown is true while the jobs stand still", grown == came > 0,
                f"{grown} more, {came} records came"),
        Promise("it is 0 at the end", _behind(site) == 0, f"{_behind(site)}"),
        accounted(ledger),
        windows(site, log, [vehicle for vehicle, _, _ in written.frames]).promise(),
        trips(site, log),
    )  # fmt: skip
    return Verdict("c10", promises, counts(found) | {"moved": found.scattered}, mutant)


def _topic(site: Site) -> str:
    return kafka_topic(site.settings.kafka.prefix, "telemetry")


def _metadata(site: Site) -> TopicMetadata:
    name = _topic(site)
    return kafka.admin(site.endpoints.kafka_bootstrap).list_topics(name, timeout=TIMEOUT_S).topics[name]


def _in_sync(site: Site) -> set[int]:
    """How many copies in sync the partitions of telemetry have."""
    return {len(partition.isrs) for partition in _metadata(site).partitions.values()}


def _whole_again(site: Site, *names: str) -> float:
    """Bring these servers back; how long until every copy is in sync after that, s."""
    begun_s = time.monotonic()
    for name in names:
        site.restart_service(name)

    def whole() -> bool:
        return all(len(p.isrs) == len(p.replicas) for p in _metadata(site).partitions.values())

    until(whole, AT_MOST_S, "every copy is in sync")
    return round(time.monotonic() - begun_s, 1)


def _kept_running(site: Site) -> bool:
    """Start the jobs again where they have ended, as the supervisor does."""
    if not site.ended_by_itself("jobs"):
        return False
    start_stream(site)
    return True


def _figure(site: Site, name: str) -> float:
    """A count of the bridge's; ``acked``: MQTT messages whose records are stored."""
    return site.wait_metrics()[f"odograph_bridge_{name}_total"]


def _stored_again(site: Site, victim: str, rate: float) -> float:
    """Kill a broker; until what the bridge receives in a second after that, from all, is stored, s."""
    site.kill(victim)
    begun_s, enough = time.monotonic(), _figure(site, "messages_received") + rate
    until(lambda: _figure(site, "acked") >= enough, AT_MOST_S, "the bridge's frames are stored again")
    return round(time.monotonic() - begun_s, 1)


def _written(log: Log, partitions: Iterable[int]) -> bool:
    try:
        ends = log.ends("telemetry")
    except ServiceError:  # a new partition has no leader yet
        return False
    return all(ends.get(partition) for partition in partitions)


def _behind(site: Site) -> int:
    return records_behind(site.settings, site.endpoints)["telemetry"]


def _lag(site: Site, log: Log) -> tuple[int, int]:
    """What `odograph status` says that the jobs have before them, and how many records there are."""
    with site.paused("bridge"):
        time.sleep(SETTLE_S)  # what was on its way to Kafka is there
        return _behind(site), sum(1 for _ in log.messages("telemetry"))


def _lag_later(site: Site, log: Log) -> tuple[int, int]:
    time.sleep(BEHIND_S)
    return _lag(site, log)


def _in_order(log: Log, old: int) -> list[Stored]:
    """The records with places: as in their partition, those of the ``old`` ones before those of the new."""
    found = sorted(log.stored(), key=lambda r: (r.partition >= old, r.partition, r.offset))
    return [Stored(record.identity, record.partition, place) for place, record in enumerate(found)]
