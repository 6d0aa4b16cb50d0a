"""The pipeline as queues, simulated: what a machine or a cluster carries, how late, and what limits first.

Run: python -m load_tests.queues [--seconds 300] [--seed 1]

Frames come as parcels of 20 ms, through bridges and Kafka into a log, out of which ``telemetry`` and
``archive`` take batches: what the driver plans (one core), tasks by bucket (a core each), what one connection
writes, and time in which nobody computes. On one machine all share the cores, a slice of 10 ms each in turn;
in a cluster each part has its own. Costs are those of two capacity cards (README, "Queues"): what a part
takes is a share of a core while it idles plus a cost a frame.
"""

from __future__ import annotations

import argparse
import math
from bisect import bisect_left
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import simpy

from infra.clients.tables import aligned

PARCEL_S: Final = 0.02
SLICE_S: Final = 0.01
WARM_UP_S: Final = 60.0
POLL_S: Final = 0.05
"""Who looks at a view each 100 ms sees a row this much later, on average."""
ROLL_UP_S: Final = 30.0
BESIDE_S: Final = 0.02

Steps = Generator[simpy.Event, Any, None]


class Cores:
    """So many cores, whose time goes to whoever has work, ``slice_s`` each in turn.

    ``slower``: than those on which the work was measured; ``busy_s``: used so far.
    """

    def __init__(
        self, env: simpy.Environment, count: int, slice_s: float = math.inf, slower: float = 1.0
    ) -> None:
        self._env, self._free = env, simpy.Resource(env, count)
        self._slice_s, self._slower, self.busy_s = slice_s, slower, 0.0

    def work(self, cpu_s: float) -> Steps:
        """Returns when a thread has had ``cpu_s`` of a core."""
        left_s = cpu_s * self._slower
        while left_s > 0:
            used_s = min(left_s, self._slice_s)
            with self._free.request() as turn:
                yield turn
                yield self._env.timeout(used_s)
            self.busy_s += used_s
            left_s -= used_s


class Log:
    """Frames as they are stored: ``counts[i]`` of them once those that were sent at ``sent_s[i]`` are."""

    def __init__(self) -> None:
        self.counts, self.sent_s = [0], [0.0]

    @property
    def end(self) -> int:
        """How many there are."""
        return self.counts[-1]

    def append(self, sent_s: float, frames: int) -> None:
        self.counts.append(self.end + frames)
        self.sent_s.append(sent_s)

    def sent(self, number: int) -> float:
        """When the frame of this number left its vehicle."""
        return self.sent_s[bisect_left(self.counts, number)]


@dataclass(frozen=True, slots=True)
class Query:
    """A query in batches: every ``trigger_s``, at most ``most`` records, by ``tasks`` at once.

    CPU time: ``plan_s`` of the driver, ``read_us`` a record in tasks by partition, ``readers`` of them (0: as
    many as ``tasks``); then ``task_s`` of each task and ``task_us`` a record in tasks by bucket; ``write_us``
    a record by one connection (driver and database in turn). ``wait_s``: a batch waits for disks and answers.
    """

    trigger_s: float
    most: int
    tasks: int
    plan_s: float
    task_s: float
    task_us: float
    write_us: float = 0.0
    wait_s: float = 0.0
    read_us: float = 0.0
    readers: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """When it began and was committed, how many records it has, and how many there are up to its end."""

    begun_s: float
    done_s: float
    records: int
    end: int


def batches(
    env: simpy.Environment,
    query: Query,
    log: Log,
    driver: Cores,
    slots: Cores,
    writer: Cores,
    done: list[Batch],
) -> Steps:
    """Run a query for ever as Spark does: one that is late begins as soon as the one before has ended."""
    at = 0
    while True:
        begun_s, end = env.now, min(log.end, at + query.most)
        if records := end - at:
            yield from driver.work(query.plan_s)
            stages = (
                (query.readers or query.tasks, 0.0, query.read_us),
                (query.tasks, query.task_s, query.task_us),
            )
            for count, fixed_s, us in stages:
                part_s = fixed_s + records * us / 1e6 / count
                yield env.all_of([env.process(slots.work(part_s)) for _ in range(count)])
            yield from writer.work(records * query.write_us / 1e6)
            yield env.timeout(query.wait_s)
            at = end
            done.append(Batch(begun_s, env.now, records, end))
        due_s = (math.floor(begun_s / query.trigger_s + 1e-9) + 1) * query.trigger_s
        yield env.timeout(max(0.0, due_s - env.now))


@dataclass(frozen=True, slots=True)
class Part:
    """What a program takes beside the batches: ``idle`` of a core, and ``us`` a frame."""

    idle: float
    us: float

    def cores(self, rate: float) -> float:
        return self.idle + rate * self.us / 1e6


# The two cards: 300 frames/s (jobs 0.34 of a core, instant 0.076, all but simulator and bench 0.72) and 4,000
# frames/s (us a frame there). jobs: 0.388 of a core more for 3,700 frames/s more; the rest likewise.
JOBS_US: Final = (0.728 - 0.34) / 3700 * 1e6
"""105: what the query's batches (88) and the archive's (23) take apart, by `query_rate`."""
READ_US: Final = 33.0
"""Of these, records read and decoded, by `query_rate` (decode)."""
ARCHIVE_US: Final = 23.0
BATCH_S: Final = (0.34 - 300 * JOBS_US / 1e6) / (1 / 2 + 1 / 10)
"""Both queries take as much whatever is in a batch; their triggers are 2 and 10 s."""
PLAN_S: Final = 0.44 * BATCH_S
"""The driver's; the rest is that of tasks and Python workers (stream_jobs/app/README.md, Measured)."""
MARGINAL: Final = (0.586 - 0.304) / 3700 * 1e6 / 135
"""Of the card's us a frame what a further frame costs; the rest is there without load."""
BRIDGE: Final = Part(0.04, 22 * MARGINAL)
KAFKA: Final = Part(0.04, 22 * MARGINAL)
DATABASE_IDLE: Final = 0.04
COPY_US: Final = 8.0
"""The driver's part of a write: 9 us a row, nine rows for ten frames."""
IN_BATCH: Final = 0.5
DATABASE_US: Final = 43 * MARGINAL
PARTS: Final[Mapping[str, Part]] = {
    "simulator and bench": Part(0.02, 42.0),
    "instant": Part(0.073, 9.0),
    "MQTT brokers": Part(0.04, 24 * MARGINAL),
    "maintenance": Part(0.05, 24 * MARGINAL + (1 - IN_BATCH) * DATABASE_US),
    "others": Part(0.08, 0.0),
}
_BOTH: Final = (2, PLAN_S, (BATCH_S - PLAN_S) / 2)
TELEMETRY: Final = Query(
    2.0, 100_000, *_BOTH, JOBS_US - ARCHIVE_US - COPY_US - READ_US, COPY_US + IN_BATCH * DATABASE_US,
    wait_s=0.2, read_us=READ_US,
)  # fmt: skip
ARCHIVE: Final = Query(10.0, 500_000, *_BOTH, ARCHIVE_US)


@dataclass(frozen=True, slots=True)
class Site:
    """What there is: ``cores`` of one machine, or (None) as many for each part as it asks for."""

    cores: int | None = 2
    bridges: int = 1
    telemetry: Query = TELEMETRY
    archive: Query = ARCHIVE
    slots: int = 2
    """Cores of the executors, in a cluster."""
    slower: float = 1.0
    """Than the machine of the cards."""


@dataclass(frozen=True, slots=True)
class Run:
    """What came out: seconds, records, shares of the time, cores."""

    rate: float
    view_s: tuple[float, float, float]
    """Event to view: p50, p95, p99."""
    batch_s: float
    batch_records: float
    busy: float
    """Share of the time that ``telemetry`` is in batches."""
    lag: float
    archive_lag: float
    growth_per_s: float
    """Of the records that wait for ``telemetry``."""
    cores: float

    @property
    def holds(self) -> bool:
        """As `odograph bench` has it: a trend below 1 % of the rate."""
        return self.growth_per_s < 0.01 * self.rate


def simulated(site: Site, rate: float, seconds: float, seed: int = 1, interval_s: float = 1.0) -> Run:
    """``rate`` frames/s through a site for so long after a warm-up; a vehicle sends each ``interval_s``."""
    env, rng, log = simpy.Environment(), np.random.default_rng(seed), Log()
    shared = Cores(env, site.cores, SLICE_S, site.slower) if site.cores else None
    made: list[Cores] = [shared] if shared else []

    def cores(count: int) -> Cores:
        if shared is not None:
            return shared
        made.append(Cores(env, count, slower=site.slower))
        return made[-1]

    inboxes = [simpy.Store(env) for _ in range(site.bridges)]
    for inbox in inboxes:
        env.process(_bridge(inbox, log, cores(1), cores(1)))
    env.process(_vehicles(env, rate, rng, inboxes))
    for name, part in {**PARTS, "still": Part(BRIDGE.idle + KAFKA.idle + DATABASE_IDLE, 0)}.items():
        every_s = ROLL_UP_S if name == "maintenance" else BESIDE_S
        env.process(_beside(env, cores(math.ceil(part.cores(rate))), part.cores(rate), every_s))
    slots, done = cores(site.slots), (list[Batch](), list[Batch]())
    for query, found in zip((site.telemetry, site.archive), done, strict=True):
        env.process(batches(env, query, log, cores(1), slots, cores(1), found))
    env.run(WARM_UP_S)
    before_s = sum(each.busy_s for each in made)
    end_s = WARM_UP_S + seconds
    env.run(end_s)
    used = (sum(each.busy_s for each in made) - before_s) / seconds
    return _told(rate, log, *done, end_s, used, interval_s)


def _vehicles(
    env: simpy.Environment, rate: float, rng: np.random.Generator, inboxes: Sequence[simpy.Store]
) -> Steps:
    while True:
        yield env.timeout(PARCEL_S)
        for inbox in inboxes:
            inbox.put((env.now, int(rng.poisson(rate * PARCEL_S / len(inboxes)))))


def _bridge(inbox: simpy.Store, log: Log, own: Cores, kafka: Cores) -> Steps:
    """Takes all that waits in one turn, as the bridge does."""
    while True:
        parcels = [(yield inbox.get()), *inbox.items]
        inbox.items.clear()
        frames = sum(count for _, count in parcels)
        yield from own.work(frames * BRIDGE.us / 1e6)
        yield from kafka.work(frames * KAFKA.us / 1e6)
        for sent_s, count in parcels:
            log.append(sent_s, count)


def _beside(env: simpy.Environment, cores: Cores, used: float, every_s: float) -> Steps:
    """A program that takes ``used`` cores, its work of ``every_s`` at once, by one thread a core."""
    threads = math.ceil(used)
    while True:
        begun_s = env.now
        yield env.all_of([env.process(cores.work(used * every_s / threads)) for _ in range(threads)])
        yield env.timeout(max(0.0, begun_s + every_s - env.now))


def _told(
    rate: float, log: Log, telemetry: Sequence[Batch], archive: Sequence[Batch], end_s: float, used: float,
    interval_s: float,
) -> Run:  # fmt: skip
    seconds, looks = end_s - WARM_UP_S, np.arange(WARM_UP_S, end_s, 1.0)
    mine = [batch for batch in telemetry if batch.done_s > WARM_UP_S]
    waiting = _waiting(log, telemetry, looks)
    trend = float(np.polyfit(looks, waiting, 1)[0])
    seen = [late_s + POLL_S for batch in mine for late_s in _ages(log, batch, interval_s)]
    p50, p95, p99 = np.percentile(seen, [50, 95, 99]) if seen else (math.inf,) * 3
    lengths = [batch.done_s - batch.begun_s for batch in mine]
    return Run(
        rate=rate,
        view_s=(float(p50), float(p95), float(p99)),
        batch_s=float(np.mean(lengths)) if mine else math.inf,
        batch_records=float(np.mean([batch.records for batch in mine])) if mine else 0.0,
        busy=min(1.0, sum(lengths) / seconds) if mine else 1.0,
        lag=float(np.median(waiting)),
        archive_lag=float(np.median(_waiting(log, archive, looks))),
        growth_per_s=trend,
        cores=used,
    )


def _waiting(log: Log, done: Sequence[Batch], looks: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Frames that were sent and are in no committed batch, at each of these moments."""
    ends = np.array([0, *(batch.end for batch in done)])
    at = np.searchsorted([batch.done_s for batch in done], looks, side="right")
    sent = np.array(log.counts)[np.searchsorted(log.sent_s, looks, side="right") - 1]
    return np.asarray(sent - ends[at])


def _ages(log: Log, batch: Batch, interval_s: float) -> Iterator[float]:
    """How old the newest sample of vehicles is when the batch is there: each sends once in ``interval_s``."""
    last_s = log.sent(batch.end)
    for share in (0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95):
        yield batch.done_s - last_s + share * interval_s


def most(site: Site, low: float, high: float, seconds: float) -> float:
    """The highest rate that holds, to 3 %; ``low`` does and ``high`` does not."""
    while high > 1.03 * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if simulated(site, middle, seconds).holds else (low, middle)
    return low


@dataclass(frozen=True, slots=True)
class Cluster:
    """What a fleet needs, each part busy to the share asked for: how many of what."""

    applications: int
    """Of the stream jobs, each with its part of the fleet, and a database."""
    needs: Mapping[str, float]
    site: Site
    """One application with its share of the bridges."""


def cluster(rate: float, busy: float) -> Cluster:
    """For ``rate`` frames/s in all. A batch's tasks and its writer work in turn: half of ``busy`` each."""
    applications = math.ceil(rate * TELEMETRY.write_us / 1e6 / (busy / 2))
    own = rate / applications

    def count(us: float, of: float = own) -> int:
        return max(1, math.ceil(of * us / 1e6 / busy))

    slots = max(2, count(2 * (TELEMETRY.read_us + TELEMETRY.task_us) + ARCHIVE_US))
    tasks = {"tasks": slots, "most": math.ceil(30 * own)}
    bridges = count(BRIDGE.us)
    needs = {
        "applications of the stream jobs, each with a database": applications,
        "cores: executors": applications * slots,
        "cores: drivers, two each (telemetry and archive)": 2 * applications,
        "cores: databases, roll-ups too": applications * max(2, count(DATABASE_US)),
        "cores: instant": applications * count(PARTS["instant"].us),
        "cores: Kafka": count(KAFKA.us, rate),
        "bridges, a core each": applications * bridges,
        "MQTT brokers, a core each": count(PARTS["MQTT brokers"].us, rate),
    }
    site = Site(None, bridges, replace(TELEMETRY, **tasks), replace(ARCHIVE, **tasks), slots)
    return Cluster(applications, needs, site)


def one_application(cores: int) -> Site:
    """Of a cluster, whose executors have so many cores."""
    query = {"tasks": cores // 4, "most": 10**7}
    return Site(None, 4, replace(TELEMETRY, **query), replace(ARCHIVE, **query), cores)


READ_SHARE: Final = READ_US / (READ_US + TELEMETRY.task_us)
"""Of the CPU time of tasks what reads records, by partition; the rest is by bucket."""


def scaled_out(us: Mapping[str, float], most: int, partitions: int, executors: int, slower: float) -> float:
    """Frames/s that ``telemetry`` takes out of a full topic, in batches of ``most``, by executors of a core.

    ``us``: CPU time a frame of "executors", "driver" and "PostgreSQL"; it takes ``slower`` times as long.
    """
    tasks, writes = us["executors"], us["driver"] + us["PostgreSQL"]
    query = Query(
        1e-3, most, TELEMETRY.tasks, 0.0, 0.0, (1 - READ_SHARE) * tasks, writes,
        read_us=READ_SHARE * tasks, readers=partitions,
    )  # fmt: skip
    env, log, done = simpy.Environment(), Log(), list[Batch]()
    log.append(0.0, 10 * most)
    one, slots = Cores(env, 1, slower=slower), Cores(env, executors, slower=slower)
    env.process(batches(env, query, log, one, slots, one, done))
    while log.end > (done[-1].end if done else 0):
        env.step()
    return log.end / done[-1].done_s


VIEW: Final = ("event to view p50, s", "event to view p95, s", "event to view p99, s")
MEASURED: Final[Mapping[int, Mapping[str, float]]] = {
    300: {VIEW[0]: 1.3, VIEW[2]: 2.5},
    2500: dict(zip(VIEW, (1.7, 2.8, 3.5), strict=True)) | {"cores": 1.42},
    4000: dict(zip(VIEW, (2.1, 3.5, 4.5), strict=True)) | {
        "cores": 1.66, "a batch, s": 1.56, "records a batch": 8107, "telemetry in batches, %": 77,
        "lag of telemetry": 10_454, "lag of archive": 32_234,
    },
}  # fmt: skip
"""The cards and runs of README.md by frames/s."""
FITTED: Final = {(300, VIEW[0]), (4000, "cores"), (4000, "a batch, s")}
FLEETS: Final = (1_000, 10_000, 100_000, 1_000_000)


def figures(run: Run) -> dict[str, float]:
    """Of a run, named as those that were measured."""
    return dict(zip(VIEW, run.view_s, strict=True)) | {
        "cores": run.cores, "a batch, s": run.batch_s, "records a batch": round(run.batch_records),
        "telemetry in batches, %": 100 * run.busy,
        "lag of telemetry": run.lag, "lag of archive": run.archive_lag,
    }  # fmt: skip


def main() -> None:
    """Print the simulated figures beside the measured ones, then what fleets need."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=300, help="simulated after a minute [300]")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--busy", type=float, default=0.6, help="share of each core that is used [0.6]")
    given = parser.parse_args()
    rows: list[tuple[object, ...]] = []
    for rate, found in MEASURED.items():
        ours = figures(simulated(Site(), rate, given.seconds, given.seed))
        rows += [
            (f"{rate:,}", name, value, ours[name], f"{ours[name] / value - 1:+.0%}",
             "fitted" if (rate, name) in FITTED else "")
            for name, value in found.items()
        ]  # fmt: skip
    forms = {"frames/s": ">", "": "", "measured": ",.6g", "simulated": ",.3g", "off": ">", " ": ""}
    print(aligned(rows, forms))
    for slower, name in ((1.0, "that of the cards"), (1.4, "one that takes 1.4 times the CPU")):
        held = most(replace(Site(), slower=slower), 1000, 10_000, given.seconds / 2)
        print(f"most that 2 cores carry, {name}: {held:,.0f} frames/s")
    fleets = {vehicles: cluster(vehicles, given.busy) for vehicles in FLEETS}
    table: list[tuple[object, ...]] = [
        (name, *(each.needs[name] for each in fleets.values())) for name in fleets[FLEETS[0]].needs
    ]
    runs = [
        simulated(each.site, vehicles / each.applications, given.seconds / 5, given.seed)
        for vehicles, each in fleets.items()
    ]
    shown = (VIEW[0], VIEW[2], "telemetry in batches, %")
    table += [(name, *(figures(run)[name] for run in runs)) for name in shown]
    print(aligned(table, ["vehicles, a frame a second each", *(f"{vehicles:,}" for vehicles in FLEETS)]))
    held = most(one_application(256), 10_000, 100_000, given.seconds / 5)
    print(f"one application with 256 executor cores carries {held:,.0f} frames/s: one connection writes")


if __name__ == "__main__":
    main()
