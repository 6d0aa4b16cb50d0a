"""What the simulator's commands say: lines on stderr, results on stdout."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

import orjson


def now_ms() -> int:
    """The wall clock, ms since 1970."""
    return time.time_ns() // 1_000_000


def say(line: str) -> None:
    """A line for people, at once."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def show(summary: Mapping[str, Any], as_json: bool) -> None:
    """A run's summary: one JSON object, or a line a key."""
    if as_json:
        sys.stdout.write(orjson.dumps(summary).decode() + "\n")
        return
    for key, value in summary.items():
        if key == "drives":
            for drive in value:
                sys.stdout.write("drive " + "  ".join(f"{k} {v}" for k, v in drive.items()) + "\n")
        else:
            sys.stdout.write(f"{key}  {value}\n")
