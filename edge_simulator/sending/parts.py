"""A fleet in several processes: how a scenario is split, and how what the parts leave is put together. Pure.

A world's traffic cannot be split: each part is a smaller fleet on the same map, with traffic of its own;
vehicles of different parts do not meet. Identities are those of one fleet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from edge_simulator.faults.fault_wanted import Wanted
from edge_simulator.scenario import Scenario
from edge_simulator.stages import Schedule, Stage
from infra.contract.errors import ConfigError


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
    first = summaries[0]
    found = {key: _merge(key, [s[key] for s in summaries]) for key in first}
    return found | {"run_id": run_id, "processes": len(summaries), "parts": [s["run_id"] for s in summaries]}


def _merge(key: str, values: Sequence[Any]) -> Any:
    if key in RULES:
        return RULES[key](values)
    if isinstance(values[0], Mapping):
        return {k: _merge(k, [value[k] for value in values]) for k in values[0]}
    return all(values) if isinstance(values[0], bool) else sum(values)


def _same(values: Sequence[Any]) -> Any:
    return values[0]


def _last(values: Sequence[int | None]) -> int | None:
    """The latest time, None as long as one is not known."""
    known = [value for value in values if value is not None]
    return max(known) if len(known) == len(values) else None


def _slowest(values: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    known = {q: [time for value in values if (time := value[q]) is not None] for q in values[0]}
    return {q: max(times, default=None) for q, times in known.items()}


RULES: Mapping[str, Callable[[Sequence[Any]], Any]] = {
    **dict.fromkeys(("run_id", "seed", "boot_id", "start_ms", "interval_ms"), _same),
    "started_ms": min,
    "ended_ms": _last,
    "puback_ms": _slowest,
}
"""What is not a sum, by its key in a summary."""
