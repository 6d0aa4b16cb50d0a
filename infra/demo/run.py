"""The whole pipeline while a block runs, for demo and bench; a demo from the first service to the ledger."""

import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from infra.clients.health import in_background, stopped_by_signals
from infra.clients.kafka import LogEnds
from infra.contract.errors import ServiceError
from infra.settings.files import read_json
from infra.settings.settings import ENDPOINTS_FILE, Endpoints, Settings
from infra.sql import queries, truth
from infra.stack import probes, processes, status, supervisor
from infra.stack.downloads import fetch
from infra.stack.hosts import cluster
from infra.stack.processes import guarded
from infra.stack.stack import Stack
from stream_jobs.audit.collect import current_ledger, settled_ledger
from stream_jobs.audit.ledger import Ledger

Say = Callable[[str], None]
ALL = ("",)
FIRST = ("jobs", "bridge", "dashboard")
"""Begin of the names of programs that start with the services, because a first vehicle on the map needs them.
The others follow later: all at once would be slower for each.
"""
ALONE_S = 90.0  # the services' start among them
READY_S = 180.0


@contextmanager
def running(
    settings: Settings, say: Say, needed: tuple[str, ...] = ALL, follow: Callable[[], bool] | None = None
) -> Iterator[Endpoints]:
    """The pipeline while the block runs, which begins when the programs are ready whose names begin so.

    ``follow``: whether it is time for the others; None: when the jobs are ready.
    One that ``odograph up`` started is used as it is and left running. Otherwise everything is started, and
    stopped at the end, however this process ends. Raises ServiceError where a part does not become ready,
    and where another process has started everything.
    """
    stack = Stack(settings, say)
    fetch.fetch_all(settings.paths.cache, stack.kinds)
    if processes.find(stack.home / "run", supervisor.SUPERVISOR) is not None:
        say("the pipeline runs already (odograph up): it is used and left running")
        endpoints = stack.up()
        _wait_ready(endpoints, needed, say)
        yield endpoints
        return
    if settings.cluster != cluster.ALONE:
        raise ServiceError("a cluster runs in the background: odograph cluster up, then this uses it")
    stack.home.mkdir(parents=True, exist_ok=True)
    with supervisor.alone(stack.home), guarded(stack.home), ThreadPoolExecutor(max_workers=1) as pool:
        # Of a killed run: programs wait for the new one.
        (stack.home / ENDPOINTS_FILE).unlink(missing_ok=True)
        try:
            coming = pool.submit(stack.up)
            if stack.by_users:
                coming.result()  # programs are users with homes, which it makes
            keeper = supervisor.Supervisor(
                stack.home, stack.programs(), say, services=stack.kept, respawn=stack.respawn,
                first=lambda program: program.name.startswith(FIRST), alone_s=ALONE_S,
                due=follow or (lambda: probes.readyz(stack.ports().get("jobs", 0)) is None),
            )  # fmt: skip
            with status.sizes_kept(stack), keeper, in_background("watch", keeper.watch):
                endpoints = coming.result()
                _wait_ready(endpoints, needed, say)
                yield endpoints
        finally:
            say("stopping what was started")
            stack.down()


def _wait_ready(endpoints: Endpoints, needed: tuple[str, ...], say: Say) -> None:
    pages = {name: where for name, where in endpoints.pages.items() if name.startswith(needed)}
    refuse_late(supervisor.wait_ready(pages, READY_S, say), READY_S)


def refuse_late(late: Mapping[str, str], waited_s: float) -> None:
    """Raise ServiceError where programs are late, by reason, after their time is over."""
    if late and waited_s >= READY_S:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in late.items())
        raise ServiceError(f"not ready in {READY_S:g} s: {reasons}. Logs: <home>/logs; see odograph doctor")


NEEDED = ("bridge",)  # what a fleet waits for; what the other programs have to do waits in Kafka
SETTLE_S = 120.0
REPAIR_S = 120.0
TICK_S = 1.0


def run(settings: Settings, demo_fleet: "Fleet", say: Say, announce: Say) -> Ledger:
    """Start all, drive until the fleet is through or Ctrl-C, let it settle; the ledger of the run.

    Raises ServiceError where a part does not become ready or the simulator fails.
    """
    begun_s = time.monotonic()
    home, others_due = settings.paths.home.resolve(), threading.Event()
    with (
        running(settings, say, NEEDED, others_due.is_set) as endpoints,
        stopped_by_signals() as stop,
        LogEnds(endpoints.kafka_bootstrap, settings.kafka.prefix) as ends,
    ):
        before = settled_ledger(home, endpoints, ends, SETTLE_S)
        pulse = Pulse(demo_fleet.run_file(home), endpoints, ends)
        late = {name: where for name, where in endpoints.pages.items() if not name.startswith(NEEDED)}
        child = demo_fleet.start(home)
        try:
            while child.poll() is None and not stop.wait(TICK_S):
                reasons = supervisor.still_late(late, say)
                refuse_late(reasons, time.monotonic() - begun_s)
                if "dashboard" in late and "dashboard" not in reasons:
                    announce(f"dashboard: {probes.page(late['dashboard'])}")
                late = {name: late[name] for name in reasons}
                say(pulse.line())
                if pulse.first_map_s is not None:
                    others_due.set()
        finally:
            code = stop_simulator(home, child)
        stop.clear()
        if code != 0:
            log = home / "logs" / f"{SIMULATOR}.log"
            raise ServiceError(f"the simulator ended with {code}; its log {log}:\n{processes.log_tail(log)}")
        if pulse.first_map_s is not None:
            say(f"first vehicles on the map {pulse.first_map_s - begun_s:.0f} s after the start")
        truths = truth.load(endpoints.db_ingest_url, demo_fleet.run_id, truth.find(home, demo_fleet.run_id))
        say(f"truth: {truths} rows of what really happened")
        say("the fleet has stopped; waiting until everything has arrived")
        begun_s = time.monotonic()
        while True:  # until its residual is 0 and its late frames are repaired, or the deadlines are over
            ledger = current_ledger(home, endpoints, ends) - before
            waited_s = time.monotonic() - begun_s
            if ledger.residual == 0 and (ledger.late_open <= 0 or waited_s > REPAIR_S):
                return ledger
            if ledger.late_open > 0:  # who repairs them is among the others
                others_due.set()
            if stop.wait(TICK_S) or waited_s > SETTLE_S:
                return ledger


SIMULATOR = "simulate"
LAT_DEG, LON_DEG = 48.137, 11.575
SIMULATOR_STOP_S = 60.0

FAULTS = ("overheating=3", "rapid_leak=2", "weak_battery=2", "crash=2", "pothole=3")
LINK = {
    "late": 0.01,
    "late-beyond": 0.002,
    "duplicate": 0.01,
    "disorder": 0.02,
    "clock-ahead": 0.0005,
    "clock-unset": 0.0005,
    "poison": 0.0005,
}
"""What befalls frames in a demo, as shares: a believable radio link, some bad clocks, some nonsense."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """How many vehicles, how many frames/s, from which seed; what befalls its frames and its vehicles.

    Without ``duration_s`` it drives until it is stopped. ``roads``: it puts its city's into the database.
    """

    vehicles: int
    rate: float
    seed: int
    run_id: str
    duration_s: float | None = None
    link: Mapping[str, float] = field(default_factory=lambda: LINK)
    faults: tuple[str, ...] = FAULTS
    roads: bool = False

    def command(self) -> tuple[str, ...]:
        link = [text for name, share in self.link.items() for text in (f"--{name}", str(share))]
        faults = [text for fault in self.faults for text in ("--fault", fault)]
        head = ("simulate", "-c", str(self.vehicles), "--rate", str(self.rate), "--seed", str(self.seed))
        place = ("--lat", str(LAT_DEG), "--lon", str(LON_DEG), "--run-id", self.run_id)
        until = () if self.duration_s is None else ("--duration", f"{self.duration_s:f}s")
        return supervisor.odograph(*head, *place, *until, *faults, *link, *["--roads"] * self.roads)

    def run_file(self, home: Path) -> Path:
        """Where the simulator says what it did."""
        return home / "runs" / self.run_id / "run.json"

    def start(self, home: Path) -> subprocess.Popen[bytes]:
        return processes.spawn(home / "run", SIMULATOR, self.command(), home / "logs" / f"{SIMULATOR}.log")


def stop_simulator(home: Path, child: subprocess.Popen[bytes]) -> int:
    """Let the simulator finish what is in flight; its exit code."""
    processes.stop_child(home / "run", SIMULATOR, child, SIMULATOR_STOP_S)
    return child.wait()


class Pulse:
    """Reads the parts and says how they stand; what does not answer is shown as such, never as 0."""

    def __init__(self, run_file: Path, endpoints: Endpoints, ends: LogEnds) -> None:
        self._run_file, self._endpoints, self._ends = run_file, endpoints, ends
        self._begun_s = time.monotonic()
        self._before = (self._begun_s, self._published())
        self._appended_before = ends.appended("telemetry")
        self._counted_before = queries.pulse(endpoints.db_ingest_url)["frames_counted"]
        self.first_map_s: float | None = None

    def line(self) -> str:
        """The figures since the run began."""
        now_s, published = time.monotonic(), self._published()
        rate = (published - self._before[1]) / max(1e-9, now_s - self._before[0])
        self._before = (now_s, published)
        try:
            bridged = f"{self._ends.appended('telemetry') - self._appended_before:,}"
        except ServiceError:
            bridged = "(no answer)"
        head = f"{now_s - self._begun_s:4.0f} s  published {published:,} ({rate:,.0f}/s)"
        return f"{head}  bridged {bridged}  {self._stored()}"

    def _published(self) -> int:
        return int(read_json(self._run_file).get("sent", 0))

    def _stored(self) -> str:
        try:
            row = queries.pulse(self._endpoints.db_ingest_url)
        except ServiceError:
            return "windowed (no answer)"
        if self.first_map_s is None and row["frames_counted"] > self._counted_before:  # of this fleet
            self.first_map_s = time.monotonic()
        lag = "unknown" if row["lag_records"] is None else f"{row['lag_records']:,}"
        behind = "unknown" if row["watermark_lag_s"] is None else f"{row['watermark_lag_s']:.0f} s"
        return (
            f"windowed {row['frames_counted'] - self._counted_before:,}  lag {lag}  watermark -{behind}"
            f"  late {row['records_late']:,}  alerts {row['alerts_active']:,}"
        )


def ledger_text(ledger: Ledger) -> str:
    """One line a figure, what it means beside it, the residual last."""
    x = ledger
    missing = (
        f"missing on the way {x.missing_on_the_way}, in the archive {x.missing_in_archive},"
        f" in the windows {x.missing_in_windows}"
    )
    letters = f"dead letters, {x.dead_distinct} of them distinct, {x.dead_archived} archived too"
    rows = [
        ("generated", x.generated, "distinct frames that the simulator wrote down before publishing"),
        ("poison", x.poison, "messages broken on purpose"),
        ("sent", x.sent, "frames published, copies included"),
        ("acked", x.acked, "of these, PUBACK received"),
        ("in Kafka", x.appended, "records appended to the telemetry topic"),
        ("archived", x.archived, "records in the Parquet archive"),
        ("counted", x.counted, "frames in windows by the stream"),
        ("late", x.late, f"records; {x.repaired} frames repaired, {x.late_open} open"),
        *[("deferred", x.deferred, f"frames put off by overload, {x.deferred_open} open")] * bool(x.deferred),
        ("quarantined", x.quarantined, "records with an impossible clock"),
        ("duplicate", x.duplicate, "records seen before"),
        ("dead", x.dead, letters),
        ("residual", x.residual, "everything is accounted for" if x.residual == 0 else missing),
    ]
    return "\n".join(f"{name:>12} {figure:>12,}   {meaning}" for name, figure, meaning in rows)
