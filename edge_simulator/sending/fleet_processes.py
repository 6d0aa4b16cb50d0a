"""``odograph simulate --processes``: a part of the fleet in each process, one run to the outside.

The parts begin at the same moment, stop together, and end when the parent is gone. Their files lie in runs of
their own, <run_id>.0 and so on; the parent's run has the sums in run.json and all parts' truth.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import orjson

from edge_simulator.console import now_ms, say
from edge_simulator.launch import Manner, connection_names, publish
from edge_simulator.runfiles import RunFiles
from edge_simulator.scenario import Scenario
from edge_simulator.sending import parts
from edge_simulator.stopping import StopFlag
from infra.contract.errors import OdographError, ServiceError
from infra.settings.settings import Settings

LOOK_S = 1.0
_READY = "ready"

Pipe = connection.Connection


@dataclass(frozen=True, slots=True)
class _Child:
    """A part, its process, and the parent's end of the pipe between them."""

    scenario: Scenario
    manner: Manner
    process: BaseProcess
    pipe: Pipe

    @property
    def name(self) -> str:
        last = self.scenario.first + self.scenario.vehicles - 1
        return f"process {self.manner.run_id} (vehicles {self.scenario.first} to {last})"


def run(
    in_force: Settings, wanted: Scenario, manner: Manner, count: int, connections: str
) -> Mapping[str, Any]:
    """Simulate in ``count`` processes; the summary of all. Raises ServiceError naming one that died."""
    plans = list(_plans(parts.split(wanted, count), manner, connections))
    folder = in_force.paths.home / "runs"
    with (
        StopFlag(say) as stop,
        RunFiles(in_force.paths.home, manner.run_id, log_frames=False) as files,
        _started(in_force, plans) as children,
    ):
        if manner.live:
            _begin_together(children)
        while any(child.process.is_alive() for child in children):
            connection.wait([c.process.sentinel for c in children if c.process.is_alive()], LOOK_S)
            if stop() or any(child.process.exitcode for child in children):
                _stop(children)
            _sync(files, manner.run_id, folder, children)
        for k, child in enumerate(children):
            files.truth(_truth(folder / child.manner.run_id / "truth.jsonl", k))
        summary = _sync(files, manner.run_id, folder, children)
    dead = [f"{c.name} ended with code {c.process.exitcode}" for c in children if c.process.exitcode]
    if dead or summary is None:
        raise ServiceError("; ".join(dead) + f"; what was sent until then: {files.folder / 'run.json'}")
    return summary


def _plans(
    scenarios: Sequence[Scenario], manner: Manner, connections: str
) -> Iterator[tuple[Scenario, Manner]]:
    """What each process does; connections and messages in flight are shared out."""
    count = len(scenarios)
    each = str(-(-int(connections) // count)) if connections.isdecimal() else connections
    for k, scenario in enumerate(scenarios):
        run_id = f"{manner.run_id}.{k}"
        yield scenario, replace(
            manner, run_id=run_id, clients=connection_names(each, scenario.vehicles, run_id),
            max_in_flight=max(1, manner.max_in_flight // count),
        )  # fmt: skip


@contextmanager
def _started(in_force: Settings, plans: Iterable[tuple[Scenario, Manner]]) -> Iterator[list[_Child]]:
    """The processes; at the end none is left."""
    context = multiprocessing.get_context("spawn")
    children: list[_Child] = []
    try:
        for scenario, manner in plans:
            ours, theirs = context.Pipe()
            process = context.Process(target=_child, args=(in_force, scenario, manner, theirs))
            process.start()
            theirs.close()
            children.append(_Child(scenario, manner, process, ours))
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
    paths = [folder / child.manner.run_id / "run.json" for child in children]
    found = [orjson.loads(path.read_bytes()) for path in paths if path.exists()]
    if not found:
        return None
    summary = parts.merged(run_id, found)
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


def _child(in_force: Settings, wanted: Scenario, manner: Manner, pipe: Pipe) -> None:
    """A part's process."""
    begin: queue.SimpleQueue[int] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(pipe, begin), daemon=True).start()
    label = manner.run_id.rpartition(".")[2]

    def tell(line: str) -> None:
        say(f"[{label}] {line}")

    def agree() -> int:
        pipe.send(_READY)
        return begin.get()

    try:
        summary = publish(in_force, wanted, manner, tell, agree)
    except OdographError as error:
        tell(f"error: {error}")
        sys.exit(error.exit_code)
    sys.exit(0 if summary["finished"] else 1)


def _listen(pipe: Pipe, begin: queue.SimpleQueue[int]) -> None:
    """Hand on the moment to begin; the pipe's end is the order to stop."""
    try:
        while True:
            begin.put(pipe.recv())
    except (EOFError, OSError):
        os.kill(os.getpid(), signal.SIGTERM)
