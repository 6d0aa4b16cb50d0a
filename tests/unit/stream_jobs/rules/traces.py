"""Literal traces past one rule: frames a second apart unless said, and what was found, in seconds."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from infra.settings.settings import Settings
from stream_jobs.alerts.derive import AlertRow
from stream_jobs.rules.model import Rule, load_rules
from stream_jobs.rules.rule_set import of_rules
from stream_jobs.vehicles.core import Core
from stream_jobs.vehicles.features import Features
from stream_jobs.vehicles.fleet import dump, load
from stream_jobs.windows.open_windows import Memory
from tests.support_vehicles import Evaluation, features_of, inputs_of

T0 = 1_790_000_000_000
NO = Evaluation(False, True)
Frame = tuple[dict[str, Any], Evaluation]


def rule(folder: Path, **keys: Any) -> Rule:
    """A rule of a file, over `x` with the limit 100 unless said."""
    entry = {"id": "mine", "version": 1, "severity": "WARNING", "query": "vehicles", "message": "Mine"} | keys
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump({"rules": [{k: v for k, v in entry.items() if v is not None}]}))
    return load_rules(path)[0]


def frame(at_s: float, reading: Evaluation = NO, **changes: Any) -> Frame:
    """A frame that ends ``at_s`` seconds after T0 and is received then, and what the rule says of it."""
    end_ms = T0 + round(1000 * at_s)
    head: dict[str, Any] = {
        "boot_id": 1, "seq": round(at_s), "t0_ms": end_ms - 1000, "end_ms": end_ms,
        "received_ms": end_ms, "believed": 1, "ignition_on": 1,
    }  # fmt: skip
    return head | changes, reading


def level(value: float | None, limit: float = 100.0, clear: float = 100.0, **more: Any) -> Evaluation:
    """What Spark says of a value that is to stay below its limit."""
    if value is None:
        return Evaluation(None, None, None, limit, **more)
    return Evaluation(value > limit, value <= clear, value, limit, **more)


def found(of: Rule, frames: Iterable[Frame], until_s: float | None = None) -> list[AlertRow]:
    """What the rule's detector finds: the same in one go and frame by frame with a checkpoint after each."""
    came = list(frames)
    heads = [head | {"seq": _rank(came, head)} for head, _ in came]
    named = [0] if of.names else []
    features = features_of(heads, inputs_of([[said] for _, said in came], named))
    until_ms = heads[-1]["received_ms"] if until_s is None else T0 + round(1000 * until_s)
    core = Core(Settings().jobs, Settings().journeys, of_rules([of]))
    rows = [row for row in core.replay(features, until_ms) if isinstance(row, AlertRow)]
    assert key(rows) == key(one_by_one(core, of, features, until_ms))
    return rows


def _rank(frames: Iterable[Frame], head: dict[str, Any]) -> int:
    """The number of a frame where none is missing."""
    own = [each for each, _ in frames if each["boot_id"] == head["boot_id"]]
    return sum(each["t0_ms"] < head["t0_ms"] for each in own)


def one_by_one(core: Core, of: Rule, features: Features, until_ms: int) -> list[AlertRow]:
    """As the stream would have it: frames in the order of receipt, a batch each."""
    rule_set, blob, rows = of_rules([of]), None, []
    for place in np.argsort(features["received_ms"], kind="stable"):
        fleet, _ = load(blob, rule_set)
        rows += core.take(fleet, features.take(np.array([place])))
        blob = dump(fleet, Memory())
    fleet, _ = load(blob, rule_set)
    rows += core.expire(fleet, until_ms)
    return [row for row in rows if isinstance(row, AlertRow)]


def key(rows: Iterable[AlertRow]) -> list[tuple[Any, ...]]:
    return sorted((row.event_ms, row.ended, row.rule, row.value or 0.0, row.limit or 0.0) for row in rows)


def seconds(rows: Iterable[AlertRow]) -> list[float]:
    """Event times, s after T0; an end is negative."""
    return [(row.event_ms - T0) / 1000 * (-1 if row.ended else 1) for row in rows]
