"""How near each stage of the chain is to its limit, from measured figures. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Limit:
    """A stage, how much of its limit it uses (1: all of it), and the figures that say so."""

    name: str
    share: float
    detail: str


def of_machine(cores: Mapping[str, float], busy_cores: float, all_cores: int) -> Limit:
    """The processor: all that is busy, whoever it is."""
    largest = sorted(cores, key=lambda part: -cores[part])[:3]
    detail = f"{busy_cores:.2f} of {all_cores} busy; " + ", ".join(f"{p} {cores[p]:.2f}" for p in largest)
    return Limit("cores", min(1.0, busy_cores / all_cores), detail)


def of_query(batch: Mapping[str, Any], seconds: float, trigger_s: float) -> Limit:
    """A streaming query: time inside batches over time."""
    busy_s, count = float(batch["busy_s"]), int(batch["batches"])
    records = int(batch["records"]) / max(1, count)
    detail = (
        f"{count} batches, mean {busy_s / max(1, count):.2f} s and {records:,.0f} records, "
        f"longest {float(batch['longest_s']):.2f} s, trigger {trigger_s:g} s"
    )
    return Limit(f"query {batch['query']}", min(1.0, busy_s / max(1e-9, seconds)), detail)


def of_bridge(in_flight: Sequence[int], window: int) -> Limit:
    """The bridge: messages in flight over what the broker may send it unacknowledged."""
    if not in_flight:
        return Limit("bridge", 1.0, "its page never answered in time")
    middle = median(in_flight)
    detail = f"in flight median {middle:,.0f}, most {max(in_flight):,}, window {window:,}"
    return Limit("bridge", middle / window, detail)


def of_broker(queued: Sequence[int], rate: float, window: int) -> Limit:
    """The broker's queue beyond the bridge's window; a second of the rate counts as full."""
    waiting = max(0.0, median(queued) - window)
    detail = f"queue median {median(queued):,.0f}, most {max(queued):,} messages ($SYS)"
    return Limit("broker's queue", waiting / rate, detail)


def of_database(active_s: float, cores: float, seconds: float) -> Limit:
    """The database: time in statements over time, of one connection; several may be active at once."""
    detail = f"{active_s / seconds:.2f} connections in statements, {cores:.2f} cores"
    return Limit("database", min(1.0, active_s / max(1e-9, seconds)), detail)


def of_simulator(cores: float, overrun_share: float) -> Limit:
    """The load generator: one process, one thread."""
    return Limit("simulator", cores, f"{cores:.2f} of its one core, {overrun_share:.2%} of its frames late")
