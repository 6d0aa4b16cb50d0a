"""One load: a simulator of its own, from its first frame to its last, and what the chain did meanwhile."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from infra.contract.errors import ServiceError
from infra.demo import run
from infra.demo.run import Fleet
from infra.stack import processes
from load_tests.bench import parts
from load_tests.bench.search import Verdict
from load_tests.bench.ticks import Load, Tick, pause_s, rate_of, trend
from load_tests.bench.watch import Chain, Say

TICK_S = 1.0
MEMORY_EVERY = 5
FIRST_FRAME_S = 60.0
DRAIN_S = 90.0
LINE_EVERY = 5
OVERRUN_SHARE = 0.01
"""More frames than these that left over 100 ms late make a figure void: the load was not what it says."""
HOPELESS_S = 20.0
"""A lag that has grown by so many seconds of the rate is not watched any longer."""
EVIDENT_S, EVIDENT = 90.0, 3.0
"""Nor one that after so long grows by so many times what is allowed."""
SWING_SHARE = 1 / 6
"""Of the time watched: a lag may swing by what comes in meanwhile."""
ARCHIVE, ARCHIVE_BLOCK_S = "archive", 30.0
"""The archive commits every 10 s or more: its lag goes up and down, its lowest values must be flat."""
STAGE_GROWTH, CONFIRMED_GROWTH = 0.03, 0.01
"""A lag is flat where it grows by less than this share of the rate, in a stage and in a confirmation."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of a load while it was measured."""

    rate: float
    vehicles: int
    ticks: Sequence[Tick]
    cpu_s: dict[str, float]
    machine: parts.MachineTime
    db_active_s: float
    began_wall_s: float
    verdict: Verdict

    @property
    def seconds(self) -> float:
        """How long was measured."""
        return self.ticks[-1].at_s - self.ticks[0].at_s

    @property
    def overrun_share(self) -> float:
        """Frames that left late, of those sent."""
        first, last = self.ticks[0].load, self.ticks[-1].load
        return (last.overrun - first.overrun) / max(1, last.sent - first.sent)

    @property
    def offered_fps(self) -> float:
        """Frames/s that the simulator sent."""
        first, last = self.ticks[0].load, self.ticks[-1].load
        return (last.sent - first.sent) / max(1e-9, last.noted_s - first.noted_s)


@contextmanager
def driving(home: Path, load: Fleet, say: Say) -> Iterator[subprocess.Popen[bytes]]:
    """The fleet on the road while the block runs, from its first frame on."""
    child = load.start(home)
    try:
        _await_frames(load.run_file(home), child, home)
        if not parts.put_first(child.pid):
            say("the simulator cannot be given priority here: the load may be late (see overrun)")
        yield child
    finally:
        run.stop_simulator(home, child)


def _await_frames(run_file: Path, child: subprocess.Popen[bytes], home: Path) -> None:
    end = time.monotonic() + FIRST_FRAME_S
    while noted(run_file).sent == 0:
        if child.poll() is not None or time.monotonic() > end:
            log = home / "logs" / f"{run.SIMULATOR}.log"
            raise ServiceError(f"the simulator sends nothing; its log {log}:\n{processes.log_tail(log)}")
        time.sleep(0.1)


def noted(run_file: Path) -> Load:
    """What the simulator notes each second of its run."""
    try:
        at_s = run_file.stat().st_mtime
        run: dict[str, Any] = json.loads(run_file.read_text())
    except FileNotFoundError:
        return Load()
    return Load(int(run["sent"]), int(run["overrun"]), at_s)


def watch(
    chain: Chain, load: Fleet, settle_s: float, observe_s: float, growth: float, say: Say, label: str,
    *, endure: bool = False,
) -> Seen:  # fmt: skip
    """Let a running load settle, then watch it: for ``observe_s``, or, unless it shall ``endure``, until its
    lag has grown hopelessly.
    """
    run_file, home = load.run_file(chain.home), chain.home
    time.sleep(settle_s)
    begun_wall_s = time.time()
    ticks = [chain.tick(noted(run_file), parts.memory(home))]
    cpu, machine, active_s = parts.cpu_s(home), parts.machine_time(), chain.db_active_s()
    due_s = begun_s = ticks[0].at_s
    while True:
        if len(ticks) % LINE_EVERY == 1:
            say(_line(label, ticks, begun_s))
        lost = not endure and _hopeless(ticks, load.rate, growth)
        if ticks[-1].at_s >= begun_s + observe_s or lost:
            break
        due_s += TICK_S
        time.sleep(max(0.0, due_s - time.monotonic()))
        memory = parts.memory(home) if len(ticks) % MEMORY_EVERY == 0 else None
        ticks.append(chain.tick(noted(run_file), memory))
    used = {name: after - cpu[name] for name, after in parts.cpu_s(home).items() if name in cpu}
    now = parts.machine_time()
    spent = parts.MachineTime(
        now.busy_s - machine.busy_s, now.idle_s - machine.idle_s, now.stolen_s - machine.stolen_s
    )
    seen = Seen(
        load.rate, load.vehicles, ticks, used, spent, chain.db_active_s() - active_s, begun_wall_s, "held"
    )
    return replace(seen, verdict=verdict_of(seen, growth))


def _line(label: str, ticks: Sequence[Tick], begun_s: float) -> str:
    now = ticks[-1]
    each = "  ".join(f"{query} {now.lag(query):,}" for query in now.committed)
    fps = f"{rate_of(ticks):,.0f}" if len(ticks) > 1 else "?"
    head = f"{label} {now.at_s - begun_s:4.0f} s  {fps} frames/s in the log"
    return f"{head}  lag: {each}  broker {now.queued:,}  bridge {now.in_flight}"


def _hopeless(ticks: Sequence[Tick], rate: float, growth: float) -> bool:
    """Whether any query has fallen back so far, or goes on so steadily, that no more needs to be seen."""
    if ticks[-1].at_s - ticks[0].at_s > EVIDENT_S and _grew(ticks, rate, EVIDENT * growth):
        return True
    grown = [ticks[-1].lag(q) - ticks[0].lag(q) for q in ticks[-1].committed if q != ARCHIVE]
    return max(grown, default=0) > HOPELESS_S * rate


def verdict_of(seen: Seen, growth: float) -> Verdict:
    """What a load showed; its lag may grow by the share ``growth`` of the rate."""
    if seen.overrun_share > OVERRUN_SHARE or seen.offered_fps < (1 - OVERRUN_SHARE) * seen.rate:
        return "void"
    if seen.ticks[-1].dropped > seen.ticks[0].dropped or not seen.ticks[-1].committed:
        return "grew"  # messages are lost, or no query has begun
    return "grew" if _grew(seen.ticks, seen.rate, growth) else "held"


def _grew(ticks: Sequence[Tick], rate: float, growth: float) -> bool:
    """Whether a query's lag gains more than the share ``growth`` of the rate, and more than a batch is: one
    that is short beside the time watched, since batches of an overload are long.
    """
    span_s = ticks[-1].at_s - ticks[0].at_s

    def swing_s(query: str) -> float:
        return 0.0 if query == ARCHIVE else min(pause_s(ticks, query), SWING_SHARE * span_s)

    return any(
        slope * span_s > rate * max(growth * span_s, swing_s(query)) for query, slope in trends(ticks).items()
    )


def trends(ticks: Sequence[Tick]) -> dict[str, float]:
    """How fast each query's lag grows, records/s."""
    return {q: trend(ticks, q, ARCHIVE_BLOCK_S if q == ARCHIVE else 0.0) for q in ticks[-1].committed}


def drained(chain: Chain, say: Say) -> None:
    """Wait until every query has taken in what is in the log, or the deadline."""
    end = time.monotonic() + DRAIN_S
    while time.monotonic() < end:
        now = chain.tick(Load(), None)
        behind = max((now.lag(q) for q in now.committed if q != ARCHIVE), default=0)
        if behind <= 0:
            return
        time.sleep(0.5)
    say(f"not drained within {DRAIN_S:g} s")
