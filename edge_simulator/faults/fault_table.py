"""All kinds of faults by name, and the README's table of them."""

from __future__ import annotations

from edge_simulator.faults import faults_chassis, faults_electric, faults_engine, faults_road
from edge_simulator.faults.fault_kind import Kind

KINDS: dict[str, Kind] = {
    kind.name: kind
    for part in (faults_engine, faults_electric, faults_chassis, faults_road)
    for kind in part.KINDS
}
IMPACTS = ("crash", "multi_crash", "pothole", "kerb_strike")

_WHO = {
    "any": "all",
    "engine": "petrol, diesel, hybrid",
    "petrol": "petrol, hybrid",
    "diesel": "diesel",
    "gears": "petrol, diesel, hybrid with gears",
    "pack": "electric, hybrid",
}


def markdown_table() -> str:
    """The table of faults for the README, one row a fault."""
    head = "| fault | who | what changes | progression | severity 0..1 | code | found by |"
    return "\n".join([head, "|---|---|---|---|---|---|---|", *(_row(kind) for kind in KINDS.values())])


def _row(kind: Kind) -> str:
    cells = (
        f"`{kind.name}`", _WHO[kind.needs], kind.changes, kind.law, kind.severity, kind.code or "", kind.rule
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"
