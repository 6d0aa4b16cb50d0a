"""``odograph simulate --processes``: a part of the fleet in each process, one run to the outside.

A world's traffic cannot be split: each part is a smaller fleet on the same map, with traffic of its own, and
vehicles of different parts do not meet. The parts begin at the same moment, stop together, and end when the
parent is gone. Their files lie in runs of their own, <run_id>.0 and so on; the parent's run has the sums in
run.json and all parts' truth.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson

from edge_simulator.console import StopFlag, now_ms, say
from edge_simulator.faults.plan import Wanted
from edge_simulator.launch import RunOptions, connection_names, publish
from edge_simulator.runfiles import RunFiles
from edge_simulator.scenario import Scenario, Schedule, Stage
from infra.contract.errors import ConfigError, OdographError, ServiceError
from infra.settings.settings import Settings

POLL_INTERVAL_S = 1.0
_READY = "ready"


def split(whole: Scenario, count: int) -> list[Scenario]:
    """``count`` parts whose vehicles, frames, faults and rates add up to the whole. Raises ConfigError."""
    if not 1 <= count <= whole.vehicles:
        raise ConfigError(
            f"--processes {count}: 1 to {whole.vehicles}, one vehicle each at least, are wanted"
        )
    return [_part(whole, k, count) for k in range(count)]


def _part(whole: Scenario, k: int, count: int) -> Scenario:
    first, stop = k * whole.vehicles // count, (k + 1) * whole.vehicles // count
    share = (stop - first) / whole.vehicles
    stages = tuple(Stage(s.for_ms, s.from_rate * share, s.to_rate * share) for s in whole.schedule.stages)
    return replace(
        whole, first=first, vehicles=stop - first, schedule=Schedule(stages),
        limit=None if whole.limit is None else _portion(whole.limit, k, count),
        faults=tuple(f for w in whole.faults for f in _faults(w, k, count, range(first, stop))),
    )  # fmt: skip


def _portion(amount: int, k: int, count: int) -> int:
    """Part ``k`` of a whole number; the parts add up."""
    return (k + 1) * amount // count - k * amount // count


def _faults(wanted: Wanted, k: int, count: int, vehicles: range) -> list[Wanted]:
    """What of a wanted fault is in a part; shares and rates by vehicle are the same in all."""
    if wanted.count is not None:
        return [replace(wanted, count=_portion(wanted.count, k, count))]
    if wanted.vehicle is not None:
        here = wanted.vehicle in vehicles
        return [replace(wanted, vehicle=wanted.vehicle - vehicles.start)] if here else []
    return [wanted]


def merged(run_id: str, summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One summary of the parts': counts add up; of times until PUBACK the slowest part's stand."""
    found = {key: _merge(key, [s[key] for s in summaries]) for key in summaries[0]}
    return found | {"run_id": run_id, "processes": len(summaries), "parts": [s["run_id"] for s in summaries]}


def _merge(key: str, values: Sequence[Any]) -> Any:
    if key in RULES:
        return RULES[key](values)
    if isinstance(values[0], Mapping):
        return {k: _merge(k, [value[k] for value in values]) for k in values[0]}
    return all(values) if isinstance(values[0], bool) else sum(values)


def _last(values: Sequence[int | None]) -> int | None:
    """The latest time, None as long as one is not known."""
    known = [value for value in values if value is not None]
    return max(known) if len(known) == len(values) else None


def _slowest(values: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    known = {q: [time for value in values if (time := value[q]) is not None] for q in values[0]}
    return {q: max(times, default=None) for q, times in known.items()}


RULES: Mapping[str, Callable[[Sequence[Any]], Any]] = {
    **dict.fromkeys(("run_id", "seed", "boot_id", "start_ms", "interval_ms"), itemgetter(0)),
    "started_ms": min,
    "ended_ms": _last,
    "puback_ms": _slowest,
}
"""What is not a sum, by its key in a summary."""


@dataclass(frozen=True, slots=True)
class _Child:
    """A part, its process, and the parent's end of the pipe between them."""

    scenario: Scenario
    options: RunOptions
    process: BaseProcess
    pipe: connection.Connection

    @property
    def name(self) -> str:
        last = self.scenario.first + self.scenario.vehicles - 1
        return f"process {self.options.run_id} (vehicles {self.scenario.first} to {last})"


def run(
    in_force: Settings, wanted: Scenario, options: RunOptions, count: int, connections: str
) -> Mapping[str, Any]:
    """Simulate in ``count`` processes; the summary of all. Raises ServiceError naming one that died."""
    plans = list(_plans(split(wanted, count), options, connections))
    folder = in_force.paths.home / "runs"
    with (
        StopFlag(say) as stop,
        RunFiles(in_force.paths.home, options.run_id, log_frames=False) as files,
        _started(in_force, plans) as children,
    ):
        if options.live:
            _begin_together(children)
        while any(child.process.is_alive() for child in children):
            connection.wait([c.process.sentinel for c in children if c.process.is_alive()], POLL_INTERVAL_S)
            if stop() or any(child.process.exitcode for child in children):
                _stop(children)
            _sync(files, options.run_id, folder, children)
        for k, child in enumerate(children):
            files.truth(_truth(folder / child.options.run_id / "truth.jsonl", k))
        summary = _sync(files, options.run_id, folder, children)
    dead = [f"{c.name} ended with code {c.process.exitcode}" for c in children if c.process.exitcode]
    if dead or summary is None:
        raise ServiceError("; ".join(dead) + f"; what was sent until then: {files.folder / 'run.json'}")
    return summary


def _plans(
    scenarios: Sequence[Scenario], options: RunOptions, connections: str
) -> Iterator[tuple[Scenario, RunOptions]]:
    """What each process does; connections and messages in flight are shared out."""
    count = len(scenarios)
    each = str(-(-int(connections) // count)) if connections.isdecimal() else connections
    for k, scenario in enumerate(scenarios):
        run_id = f"{options.run_id}.{k}"
        yield scenario, replace(
            options, run_id=run_id, clients=connection_names(each, scenario.vehicles, run_id),
            max_in_flight=max(1, options.max_in_flight // count),
        )  # fmt: skip


@contextmanager
def _started(in_force: Settings, plans: Iterable[tuple[Scenario, RunOptions]]) -> Iterator[list[_Child]]:
    """The processes; at the end none is left."""
    context = multiprocessing.get_context("spawn")
    children: list[_Child] = []
    try:
        for scenario, options in plans:
            ours, theirs = context.Pipe()
            process = context.Process(target=_child, args=(in_force, scenario, options, theirs))
            process.start()
            theirs.close()
            children.append(_Child(scenario, options, process, ours))
        yield children
    finally:
        for child in children:
            child.pipe.close()  # a child whose parent is gone stops
        for child in children:
            child.process.join()


def _begin_together(children: Sequence[_Child]) -> None:
    """Let all worlds get ready, then begin at the same moment; whoever ends before is seen later."""
    try:
        for child in children:
            child.pipe.recv()
        begin_ms = now_ms()
        for child in children:
            child.pipe.send(begin_ms)
    except (EOFError, OSError):
        _stop(children)


def _stop(children: Sequence[_Child]) -> None:
    for child in children:
        if child.process.is_alive() and not child.pipe.closed:
            child.pipe.close()


def _sync(files: RunFiles, run_id: str, folder: Path, children: Sequence[_Child]) -> dict[str, Any] | None:
    """Write the sums of what the parts have written so far."""
    paths = [folder / child.options.run_id / "run.json" for child in children]
    found = [orjson.loads(path.read_bytes()) for path in paths if path.exists()]
    if not found:
        return None
    summary = merged(run_id, found)
    summary["finished"] = summary["finished"] and len(found) == len(children)
    files.sync(summary)
    return summary


def _truth(path: Path, part: int) -> Iterator[dict[str, Any]]:
    """The rows of a part; each part numbers its faults for itself."""
    for line in path.read_bytes().splitlines() if path.exists() else ():
        row = orjson.loads(line)
        if "fault_id" in row:
            row["fault_id"] += f".{part}"
        yield row


def _child(in_force: Settings, wanted: Scenario, options: RunOptions, pipe: connection.Connection) -> None:
    """A part's process."""
    begin: queue.SimpleQueue[int] = queue.SimpleQueue()
    label = options.run_id.rpartition(".")[2]

    def listen() -> None:
        """Hand on the moment to begin; the pipe's end is the order to stop."""
        try:
            while True:
                begin.put(pipe.recv())
        except (EOFError, OSError):
            os.kill(os.getpid(), signal.SIGTERM)

    def report(line: str) -> None:
        say(f"[{label}] {line}")

    def begin_ms() -> int:
        pipe.send(_READY)
        return begin.get()

    threading.Thread(target=listen, daemon=True).start()
    try:
        summary = publish(in_force, wanted, options, report, begin_ms)
    except OdographError as error:
        report(f"error: {error}")
        sys.exit(error.exit_code)
    sys.exit(0 if summary["finished"] else 1)
