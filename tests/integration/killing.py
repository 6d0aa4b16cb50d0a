"""Processes that end by SIGKILL at a named point of their work, as by kill -9 or a lack of memory.

What dies is a process of its own: its connections break, no ``finally`` runs.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from itertools import count
from multiprocessing import get_context
from typing import Any, Final

PATIENCE_S: Final = 480.0
FORKED_WITH: Final = ("tests.integration.recompute_support", "tests.integration.promotion_support")
"""Imported once, in the server that the processes are forked from."""


@dataclass(frozen=True, slots=True)
class Point:
    """The moment when the ``nth`` call of a function has done its work: ``name`` is as ``module:function``,
    or ``module:class.method``.
    """

    name: str
    nth: int = 1


def kill_at(point: Point, work: Callable[..., object], *given: object) -> None:
    """Do ``work`` in a process of its own that is killed at ``point``; fails where it never comes there."""
    context = get_context("forkserver")
    context.set_forkserver_preload([*FORKED_WITH])
    process = context.Process(target=_mortal, args=(point, work, given))
    process.start()
    process.join(PATIENCE_S)
    if process.exitcode is None:
        process.kill()
        raise AssertionError(f"{point}: not reached within {PATIENCE_S:g} s")
    assert process.exitcode == -signal.SIGKILL, f"{point}: the process ended with {process.exitcode}"


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
