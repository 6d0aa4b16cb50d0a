"""What commands of the simulator print (lines on stderr, results on stdout), and how they are stopped."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import orjson

from infra.clients.health import stopped_by_signals


def now_ms() -> int:
    """The wall clock, ms since 1970."""
    return time.time_ns() // 1_000_000


def say(line: str) -> None:
    """A line for people, at once."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def line_s() -> float:
    """Time between lines on how far a run is, s: where nobody watches, few."""
    return 1.0 if sys.stderr.isatty() else 10.0


def show(summary: Mapping[str, Any], as_json: bool) -> None:
    """A run's summary: one JSON object, or a line a key."""
    lines = [f"{key}  {value}" for key, value in summary.items()]
    sys.stdout.write((orjson.dumps(summary).decode() if as_json else "\n".join(lines)) + "\n")


@contextmanager
def stop_flag(say: Callable[[str], None]) -> Iterator[Callable[[], bool]]:
    """What tells whether Ctrl-C or SIGTERM came; the same one again ends at once."""
    with stopped_by_signals(True, partial(say, "stopping: finishing what is in flight")) as stopped:
        yield stopped.is_set
