"""Prints when each fault first crosses its rule after onset: ``python -m tests.fault_times [ambient C]``."""

from __future__ import annotations

import sys

import numpy as np

from edge_simulator import faults
from tests.support_faults import Drive, drive
from tests.support_rules import RULES

SEVERITIES = (0.0, 0.6, 1.0)


def first_s(d: Drive, fault: faults.Fault, since_s: float) -> str:
    """Seconds from a time until the fault's rule holds."""
    held = np.flatnonzero(RULES[fault.name](d)[:, fault.vehicle])
    return f"{held[0] + 1 - since_s:.0f}" if len(held) else "never"


def row(d: Drive, name: str) -> str:
    """One fault: rule and code by severity, and healthy vehicles that cross the rule."""
    mine = sorted((f for f in d.begun if f.name == name), key=lambda f: f.severity)
    times = " / ".join(first_s(d, f, f.onset_ms / 1000) for f in mine)
    full = " / ".join(f"{(f.full_ms - f.onset_ms) / 1000:.0f}" for f in mine)
    codes = " / ".join(_code_s(d, f) for f in mine)
    healthy = int(RULES[name](d)[:, d.sound].any(axis=0).sum())
    return f"| {name} | {full} | {times} | {codes} | {healthy} of {d.sound.sum()} |"


def _code_s(d: Drive, fault: faults.Fault) -> str:
    shown = [t for t, codes in enumerate(d.codes) if fault.vehicle in codes]
    return f"{shown[0] + 1 - fault.onset_ms / 1000:.0f}" if shown else "-"


def main(ambient_c: float) -> None:
    """Drive an hour with three of each fault and print the table."""
    wanted = [
        faults.Wanted(name, count=1, severity=(at, at), onset_s=(100, 300))
        for name in RULES
        for at in SEVERITIES
    ]
    found = drive(wanted, 120, 3600, ambient_c=ambient_c)
    head = "| fault | full effect after s | rule after s | code after s | healthy crossing |"
    lines = [head, "|---|---|---|---|---|", *(row(found, name) for name in RULES)]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 16.0)
