"""Processes that end by SIGKILL at a named point of their work, as by kill -9 or a lack of memory.

What dies is a process of its own: its connections break, no ``finally`` runs.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any, Final

from infra.stack import processes
from tests.forked import Child

REACHED_S: Final = 480.0


def kill(home: Path, *names: str) -> None:
    """``kill -9`` of programs and services of a home, one after the other; of each with its group."""
    for name in names:
        running = processes.find(home / "run", name)
        assert running is not None, name
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        assert processes.wait_gone(running, 30), name


@dataclass(frozen=True, slots=True)
class Point:
    """The moment when the ``nth`` call of a function has done its work: ``name`` is as ``module:function``,
    or ``module:class.method``.
    """

    name: str
    nth: int = 1


def kill_at(point: Point, work: Callable[..., object], *given: object) -> None:
    """Do ``work`` in a process of its own that is killed at ``point``; fails where it never comes there."""
    process = Child(_mortal, point, work, given)
    try:
        code = process.wait(REACHED_S)
    except subprocess.TimeoutExpired as late:
        process.kill()
        raise AssertionError(f"{point}: not reached within {REACHED_S:g} s") from late
    assert code == -signal.SIGKILL, f"{point}: the process ended with {code}"


def _mortal(point: Point, work: Callable[..., object], given: tuple[object, ...]) -> None:
    module, _, name = point.name.partition(":")
    owner: Any = import_module(module)
    *outer, last = name.split(".")
    for each in outer:
        owner = getattr(owner, each)
    honest, calls = getattr(owner, last), count(1)

    def fatal(*args: Any, **named: Any) -> Any:
        done = honest(*args, **named)
        if next(calls) == point.nth:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    setattr(owner, last, fatal)
    work(*given)
