"""``odograph simulate --processes``: a part of the fleet in each process, one run to the outside.

A world's traffic cannot be split: each part is a smaller fleet on the same map, with traffic of its own, and
vehicles of different parts do not meet. The parts begin at the same moment, stop together, and end when the
parent is gone. Their files lie in runs of their own, <run_id>.0 and so on; the parent's run has the sums in
run.json and all parts' truth.
"""

import multiprocessing
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from edge_simulator.console import now_ms, say, stop_flag
from edge_simulator.runfiles import RunFiles
from edge_simulator.scenario import Scenario
from edge_simulator.sending.run import RunOptions, connection_names, publish
from infra.contract.errors import ConfigError, OdographError, ServiceError
from infra.settings.settings import Settings

POLL_INTERVAL_S = 1.0


def split(whole: Scenario, count: int) -> list[Scenario]:
    """``count`` parts whose vehicles, frames, faults and rates add up to the whole. Raises ConfigError."""
    if not 1 <= count <= whole.vehicles:
        raise ConfigError(f"--processes {count}: 1 to {whole.vehicles}, one vehicle each at least, is wanted")
    return [_part(whole, k, count) for k in range(count)]


def _part(whole: Scenario, k: int, count: int) -> Scenario:
    """Part ``k``; what is counted is shared out, shares and rates by vehicle are the same in all."""

    def portion(amount: int) -> int:
        return (k + 1) * amount // count - k * amount // count

    first, vehicles = k * whole.vehicles // count, portion(whole.vehicles)
    share = vehicles / whole.vehicles
    faults = []
    for wanted in whole.faults:
        if wanted.count is not None:
            faults.append(replace(wanted, count=portion(wanted.count)))
        elif wanted.vehicle is None:
            faults.append(wanted)
        elif first <= wanted.vehicle < first + vehicles:
            faults.append(replace(wanted, vehicle=wanted.vehicle - first))
    stages = []
    for stage in whole.stages:
        rates = {"rate": stage.rate, "ramp_to": stage.ramp_to}
        less = {name: rate * share for name, rate in rates.items() if rate is not None}
        stages.append(stage.model_copy(update=less))
    limit = None if whole.limit is None else portion(whole.limit)
    own = {"first": first, "vehicles": vehicles, "faults": tuple(faults), "stages": tuple(stages)}
    return whole.model_copy(update={**own, "limit": limit})


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


RULES: Mapping[str, Callable[[Sequence[Any]], Any]] = {
    **dict.fromkeys(("run_id", "seed", "boot_id", "start_ms", "interval_ms"), itemgetter(0)),
    "started_ms": min,
    "ended_ms": lambda values: None if None in values else max(values),  # not known until all have ended
    **dict.fromkeys(
        ("p50", "p95", "p99"), lambda values: max((v for v in values if v is not None), default=None)
    ),
}
"""What is not a sum, by its key in a summary."""


class _Child(NamedTuple):
    """A part, its process, and the parent's end of the pipe between them."""

    label: str
    run_id: str
    process: BaseProcess
    pipe: connection.Connection


def run(
    in_force: Settings, wanted: Scenario, options: RunOptions, count: int, connections: str
) -> Mapping[str, Any]:
    """Simulate in ``count`` processes; the summary of all. Raises ServiceError naming one that died."""
    each = str(-(-int(connections) // count)) if connections.isdecimal() else connections
    plans = []
    for k, part in enumerate(split(wanted, count)):
        run_id = f"{options.run_id}.{k}"
        names = connection_names(each, part.vehicles, run_id)
        in_flight = max(1, options.max_in_flight // count)
        plans.append((part, replace(options, run_id=run_id, clients=names, max_in_flight=in_flight)))
    folder = in_force.paths.home / "runs"
    with (
        stop_flag(say) as stop,
        RunFiles(in_force.paths.home, options.run_id, log_frames=False) as files,
        _started(in_force, plans) as children,
    ):
        if options.live:
            _begin_together(children)
        while alive := [child.process.sentinel for child in children if child.process.is_alive()]:
            connection.wait(alive, POLL_INTERVAL_S)
            if stop() or any(child.process.exitcode for child in children):
                _stop(children)
            _sync(files, options.run_id, folder, children)
        for k, child in enumerate(children):
            files.truth(_truth(folder / child.run_id / "truth.jsonl", k))
        summary = _sync(files, options.run_id, folder, children)
    dead = [f"{c.label} ended with code {c.process.exitcode}" for c in children if c.process.exitcode]
    if dead or summary is None:
        raise ServiceError("; ".join(dead) + f"; what was sent until then: {files.folder / 'run.json'}")
    return summary


@contextmanager
def _started(in_force: Settings, plans: Sequence[tuple[Scenario, RunOptions]]) -> Iterator[list[_Child]]:
    context = multiprocessing.get_context("spawn")
    children: list[_Child] = []
    try:
        for scenario, options in plans:
            ours, theirs = context.Pipe()
            process = context.Process(target=_child, args=(in_force, scenario, options, theirs))
            process.start()
            theirs.close()
            last = scenario.first + scenario.vehicles - 1
            label = f"process {options.run_id} (vehicles {scenario.first} to {last})"
            children.append(_Child(label, options.run_id, process, ours))
        yield children
    finally:
        _stop(children)
        for child in children:
            child.process.join()


def _begin_together(children: Sequence[_Child]) -> None:
    """Let all get ready and connect, then begin at the same moment; whoever ends before is seen later."""
    try:
        for child in children:
            child.pipe.recv()
        begin_ms = now_ms()
        for child in children:
            child.pipe.send(begin_ms)
    except (EOFError, OSError):
        _stop(children)


def _stop(children: Sequence[_Child]) -> None:
    """A part whose pipe is closed stops: to it the parent is gone."""
    for child in children:
        child.pipe.close()


def _sync(files: RunFiles, run_id: str, folder: Path, children: Sequence[_Child]) -> dict[str, Any] | None:
    paths = [folder / child.run_id / "run.json" for child in children]
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
    begin: queue.SimpleQueue[int] = queue.SimpleQueue()

    def listen() -> None:
        """Hand on the moment to begin; the pipe's end is the order to stop."""
        try:
            while True:
                begin.put(pipe.recv())
        except (EOFError, OSError):
            os.kill(os.getpid(), signal.SIGTERM)
            begin.put(now_ms())  # who waits for it ends in order

    def report(line: str) -> None:
        say(f"[{options.run_id.rpartition('.')[2]}] {line}")

    def begin_ms() -> int:
        with suppress(OSError):  # the parent is gone
            pipe.send("ready")
        return begin.get()

    threading.Thread(target=listen, daemon=True).start()
    try:
        summary = publish(in_force, wanted, options, report, begin_ms)
    except OdographError as error:
        report(f"error: {error}")
        sys.exit(error.exit_code)
    sys.exit(0 if summary["finished"] else 1)
