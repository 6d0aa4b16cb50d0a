"""What must hold after hostile traffic: counts from the programs' own pages, from Kafka, from the audit."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psycopg

from infra.clients.db import session
from infra.clients.kafka import LogEnds
from infra.contract.errors import OdographError, ServiceError
from infra.contract.seq_ranges import size
from infra.stack import probes, status
from infra.stack.processes import tree
from infra.stack.supervisor import read_state
from infra.stack.watch.samples import Metrics
from load_tests.drills.site import Site
from load_tests.drills.verdict import Promise
from load_tests.hostile.traffic import Sent
from stream_jobs.audit.collect import collect
from stream_jobs.audit.ledger import WHOLE

TOPICS: Final = ("telemetry", "crash", "status", "dead-letter", "alerts")
BEHIND_S: Final = 10.0
"""So long after the end nobody may be behind."""
LAG_S: Final = 120.0
"""So long is waited for those who are, to say how long they took."""
PYTHON_GROWTH: Final = 1.25
PYTHON_SLACK_MB: Final = 48
JAVA_MB: Final = {"jobs": 4096, "instant": 2560, "kafka": 1536}
"""Bounds of programs with a JVM, MB: its heap fills up to what it was given, so growth says nothing."""
WARM_SHARE: Final = 0.3
"""Of a run: then caches and heaps are full."""


def appended(site: Site) -> dict[str, int]:
    """Records ever appended, by topic."""
    with LogEnds(site.endpoints.kafka_bootstrap, site.settings.kafka.prefix) as ends:
        return {topic: ends.appended(topic) for topic in TOPICS}


@dataclass(frozen=True, slots=True)
class Bridge:
    """The bridge's counts: messages that came, by channel; those rejected, kept and not kept."""

    received: Mapping[str, int]
    rejected: int
    not_kept: int

    @property
    def all(self) -> int:
        """Every message that reached it, those it skips apart: another lane's, or told to vehicles."""
        return sum(n for name, n in self.received.items() if name != "skipped") + self.not_kept


def bridge(site: Site) -> Bridge:
    """As its page says now; nothing while it is away."""
    page = Metrics(probes.metrics(site.endpoints.http_ports["bridge"]))
    channels = page.by("odograph_bridge_messages_received_total", "channel")
    received = {channel: int(count) for channel, count in channels.items()}
    not_kept = int(page.total("odograph_bridge_not_kept_total") or 0)
    return Bridge(received, received.get("rejected", 0), not_kept)


def settled(site: Site, deadline_s: float) -> Bridge:
    """The bridge's counts once they stand still and nothing is in flight; raises ServiceError."""
    end, last = time.monotonic() + deadline_s, None
    while time.monotonic() < end:
        now = bridge(site)
        if now == last and site.metrics().get("odograph_bridge_in_flight_messages") == 0:
            return now
        last = now
        time.sleep(1.5)
    raise ServiceError(f"hostile: the bridge does not come to rest within {deadline_s:g} s")


def delivered(before: Bridge, after: Bridge, sent: Sent, honest: int) -> Promise:
    """Every message to the service reached the bridge: forwarded, dead-lettered or counted."""
    wanted, came = sent.uplink.total() + honest, after.all - before.all
    each = {name: n - before.received.get(name, 0) for name, n in sorted(after.received.items())}
    each["counted and not kept"] = after.not_kept - before.not_kept
    found = f"{came} of {wanted}: {', '.join(f'{name} {n}' for name, n in each.items())}"
    return Promise("each MQTT message is forwarded, dead-lettered or counted", came == wanted, found)


def stored(
    before: Mapping[str, int], after: Mapping[str, int], was: Bridge, now: Bridge, sent: Sent
) -> Promise:
    """Kafka holds what the bridge forwarded and what the stranger's producer put in, and no more."""
    off = []
    for topic in ("telemetry", "crash"):
        grown = after[topic] - before[topic]
        wanted = now.received.get(topic, 0) - was.received.get(topic, 0) + sent.direct[topic]
        off += [f"{topic} {grown} of {wanted}"] if grown != wanted else []
    letters = after["dead-letter"] - before["dead-letter"]
    least = now.rejected - was.rejected + sent.direct["dead-letter"]
    off += [f"dead-letter {letters} of at least {least}"] if letters < least else []
    return Promise("Kafka holds each of them, and nothing else", not off, "; ".join(off) or "to the record")


def behind(site: Site, spark: bool) -> dict[str, int]:
    """Records that each consumer has not taken yet; -1 where it does not say."""
    ports = site.endpoints.http_ports
    found: dict[str, int] = {}
    if spark:
        found |= dict(status.records_behind(site.settings, site.endpoints))
        lag = Metrics(probes.metrics(ports["downlink"])).total("odograph_downlink_lag_records")
        found["downlink"] = -1 if lag is None else int(lag)
    found["events"] = _events_behind(site)
    return found


def _events_behind(site: Site) -> int:
    """By the offsets in the database, which are what it goes by."""
    ends = appended(site)
    sql = "SELECT topic, sum(next_offset)::bigint FROM odograph.consumer_offset GROUP BY consumer, topic"
    with session(site.endpoints.db_owner_url, connect_timeout_s=5) as connection:
        held: dict[str, int] = dict(connection.execute(sql).fetchall())
    return sum(
        max(0, ends[topic] - held.get(topic, 0)) for topic in ("alerts", "crash", "status", "dead-letter")
    )


def caught_up(site: Site, spark: bool) -> Promise:
    """Nobody is behind ``BEHIND_S`` after the end; who is gets a while longer, to say how long it took."""
    begun = time.monotonic()
    took_s: dict[str, float] = {}
    last: dict[str, int] = {}
    while time.monotonic() < begun + LAG_S:
        with suppress(OdographError, psycopg.Error):
            last = behind(site, spark)
        now_s = round(time.monotonic() - begun, 1)
        took_s = {name: took_s.get(name, now_s) for name, left in last.items() if left == 0}
        if last and len(took_s) == len(last):
            break
        time.sleep(0.25)
    late = [f"{name} {last[name]} records" for name in last if name not in took_s]
    slow = [name for name, seconds in took_s.items() if seconds > BEHIND_S]
    each = ", ".join(f"{name} {seconds} s" for name, seconds in sorted(took_s.items()))
    text = f"after {each}" + (f"; never: {', '.join(late)}" if late else "")
    return Promise(f"0 consumers behind {BEHIND_S:g} s after the end", not late and not slow, text)


def audited(site: Site, honest: Sequence[str]) -> Promise:
    """Every record is archived once, every frame in windows or a list: the audit's account.

    A number that a stranger skips was never a frame: what is missing counts of ``honest`` vehicles only. A
    record that a stranger stamped long ago lies behind the watermark: the query drops it and counts it.
    """
    end = time.monotonic() + LAG_S
    while True:
        with LogEnds(site.endpoints.kafka_bootstrap, site.settings.kafka.prefix) as ends:
            committed = (ends.topic("telemetry"), "", ends.ends("telemetry"))
            found = collect(site.settings, site.endpoints, WHOLE, committed=committed)
        left = {
            vehicle: f.residual - (0 if vehicle in honest else max(0, f.missing - f.not_kept))
            for vehicle, f in found.vehicles.items()
        }
        residual = sum(left.values()) + sum(size(gap.ranges) + gap.doubles for gap in found.log)
        if residual == 0 or time.monotonic() > end:
            break
        time.sleep(2)
    dropped, honest_left = _dropped_late(site), sum(left.get(vehicle, 0) for vehicle in honest)
    wrong = [f"{vehicle or '(none)'}: {found.vehicles[vehicle]}" for vehicle, n in left.items() if n][:3]
    total = found.total
    text = (
        f"residual {residual}, {honest_left} of it of honest vehicles, {dropped} rows dropped behind the "
        f"watermark: {total.counted} counted, {total.late} late, {total.quarantined} quarantined, "
        f"{total.duplicate} duplicate of {len(left)} vehicles; {found.log[:2]}{wrong}"
    )
    holds = honest_left == 0 and residual <= dropped
    return Promise("the audit's residual is 0, but for what the watermark dropped and counted", holds, text)


def _dropped_late(site: Site) -> int:
    """Rows that the queries dropped behind their watermark, as they say."""
    with session(site.endpoints.db_owner_url, connect_timeout_s=5) as connection:
        row = connection.execute(
            "SELECT coalesce(sum(dropped_late), 0) FROM odograph.query_progress"
        ).fetchone()
    return int(row[0]) if row else 0


def memory_mb(pid: int) -> float:
    """Anonymous memory of a process and its descendants, MB: no pages of files."""
    total = 0
    for each in tree(pid):
        with suppress(OSError, IndexError):
            text = Path(f"/proc/{each}/status").read_text()
            total += int(text.split("RssAnon:")[1].split()[0])
    return total / 1024


@dataclass(slots=True)
class Parts:
    """The programs and services that run, and what each held from time to time."""

    site: Site
    names: Sequence[str]
    pids: dict[str, int] = field(default_factory=dict)
    restarts: dict[str, int | None] = field(default_factory=dict)
    samples: dict[str, list[float]] = field(default_factory=dict)

    def begin(self) -> None:
        """Note who runs now."""
        self.pids = {name: self.site.pid(name) for name in self.names}
        self.restarts = self._restarts()

    def _restarts(self) -> dict[str, int | None]:
        return {name: kept["restarts"] for name, kept in read_state(self.site.home).items()}

    def look(self) -> None:
        """Measure everybody's memory."""
        for name, pid in self.pids.items():
            self.samples.setdefault(name, []).append(memory_mb(pid))

    def ended(self) -> list[str]:
        """Who does not run any more as the process that it was; and what the supervisor started again."""
        gone = [name for name, pid in self.pids.items() if self.site.pid(name) != pid]
        again = [f"{name} again" for name, n in self._restarts().items() if n != self.restarts.get(name)]
        return sorted({*gone, *again})

    def promises(self) -> Iterable[Promise]:
        """Nobody has ended; memory is bounded."""
        ended = self.ended()
        pids = ", ".join(f"{name} {pid}" for name, pid in self.pids.items())
        yield Promise(
            "0 processes ended", not ended and 0 not in self.pids.values(), "; ".join(ended) or pids
        )
        grown, told = [], []
        for name, samples in self.samples.items():
            warm = samples[int(len(samples) * WARM_SHARE) :]
            third = max(1, len(warm) // 3)
            first, last = statistics.median(warm[:third]), statistics.median(warm[-third:])
            bound = JAVA_MB.get(name, PYTHON_GROWTH * first + PYTHON_SLACK_MB)
            told.append(f"{name} {first:.0f} to {last:.0f}")
            grown += [f"{name} {last:.0f} of {bound:.0f}"] if last > bound else []
        text = f"{'; '.join(grown)}{' | ' if grown else ''}MB after warm-up and at the end: {', '.join(told)}"
        java = ", ".join(f"{name} {most}" for name, most in JAVA_MB.items())
        least = f"{PYTHON_GROWTH} x + {PYTHON_SLACK_MB} MB; {java} MB"
        yield Promise(f"memory is flat ({least})", not grown, text)
