"""The command ``odograph cycles``."""

from __future__ import annotations

import sys
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from edge_simulator.vehicle.cycle_checks import Check

NOTE = """\
Traces: UDDS, HWFET, US06 (40 CFR 86 and 600), WLTC 3b (UN GTR 15) as published, 1 Hz; warm, level road.
Consumption of a hybrid is corrected for its battery; that of an electric one is what its cells give.
"""


def cycles(
    model: Annotated[list[str] | None, typer.Option(help="only this model; repeatable")] = None,
    cycle: Annotated[list[str] | None, typer.Option(help="only this cycle; repeatable")] = None,
    json: Annotated[bool, typer.Option("--json", help="one JSON object a line on stdout")] = False,
) -> None:
    """Drive the simulator's vehicle models along published cycles and compare.

    For each model and cycle: distance and mean speed beside the cycle's own, consumption beside its reference
    (10 %) or a plausible band; then fuel at idle and how fast a cold engine warms up.

    Exit codes: 0 all as it should be; 1 a figure is out of its limits; 2 no such model or cycle.
    """
    from edge_simulator.vehicle import cycle_checks
    from edge_simulator.vehicle.cycles import CYCLES
    from edge_simulator.vehicle.vehicles import MODELS

    checks = cycle_checks.run(
        _chosen(MODELS, model, "--model"),
        _chosen(CYCLES, cycle, "--cycle"),
    )
    (_print_json if json else _print_table)(checks)
    wrong = cycle_checks.failed(checks)
    for check in wrong:
        sys.stderr.write(f"{check.model}, {check.what}: {check.quantity} {check.value:.2f} {check.unit}\n")
    if wrong:
        raise typer.Exit(1)


def _chosen(known: Any, names: list[str] | None, option: str) -> list[Any]:
    """Those of ``known`` that are named, all without names; raises ConfigError for a strange one."""
    from infra.contract.errors import ConfigError

    by_name = {item.name.lower(): item for item in known}
    strange = [name for name in names or () if name.lower() not in by_name]
    if strange:
        raise ConfigError(f"{option} {strange[0]}: there are {', '.join(item.name for item in known)}")
    return [by_name[name.lower()] for name in names] if names else list(known)


def _print_json(checks: list[Check]) -> None:
    import orjson

    for c in checks:
        row = {
            "model": c.model, "cycle": c.what, "quantity": c.quantity, "value": round(c.value, 4),
            "unit": c.unit, "low": c.low, "high": c.high, "reference": c.reference,
            "deviation_pct": c.deviation_pct, "source": c.source, "ok": c.ok,
        }  # fmt: skip
        sys.stdout.write(orjson.dumps(row).decode() + "\n")


def _print_table(checks: list[Check]) -> None:
    """A line for each model and cycle: each figure with what it should be."""
    sys.stdout.write(NOTE + "\n")
    for (model, what), figures in groupby(checks, key=lambda c: (c.model, c.what)):
        line = "  ".join(_figure(c) for c in figures)
        sys.stdout.write(f"{model:17} {what:8} {line}".rstrip() + "\n")


def _figure(c: Check) -> str:
    value = f"{c.value:6.2f} {c.unit}"
    if c.low is None or c.high is None:
        return f"{value} ({c.source})"
    wanted = f"{c.low:g}..{c.high:g}" if c.reference is None else f"{c.reference:g} {c.deviation_pct:+.1f} %"
    return f"{value} ({wanted}) {'ok' if c.ok else 'NOT OK'}"
