"""What a drill says at its end: promises that hold or not, and figures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from infra.clients.tables import aligned
from load_tests.drills.checker import Findings


@dataclass(frozen=True, slots=True)
class Promise:
    """One invariant: what must hold, and what was found."""

    text: str
    holds: bool
    found: str = ""


ENDS: Final = "it comes to its end"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a drill; ``mutant`` names the defect that was put into the bridge, if any."""

    drill: str
    promises: tuple[Promise, ...]
    figures: Mapping[str, Any] = field(default_factory=dict)
    mutant: str | None = None

    @property
    def passed(self) -> bool:
        """Whether every promise holds."""
        return all(promise.holds for promise in self.promises)

    @property
    def seen(self) -> bool:
        """Whether a defect was: that a drill, or an attack, broke off shows nothing."""
        return any(not promise.holds and not promise.text.endswith(ENDS) for promise in self.promises)

    def as_json(self) -> str:
        """For machines."""
        return json.dumps(asdict(self) | {"passed": self.passed}, indent=1)

    def lines(self) -> list[str]:
        """For people."""
        patched = f" with the defect {self.mutant}" if self.mutant else ""
        head = f"{self.drill}{patched}: {'PASS' if self.passed else 'FAIL'}"
        promises = [f"  {'PASS' if p.holds else 'FAIL'}  {p.text}: {p.found}" for p in self.promises]
        width = max((len(name) for name in self.figures), default=0)
        return [
            head,
            *promises,
            *(f"        {name:<{width}}  {value}" for name, value in self.figures.items()),
        ]


def table(verdicts: Sequence[Verdict]) -> str:
    """A line for each: its counts, and the promises that do not hold."""
    heads = ("drill", "verdict", "s", "generated", "lost", "doubled", "reordered", "promises kept", "broken")
    return aligned(
        (
            (
                v.drill + (f" {v.mutant}" if v.mutant else ""), "PASS" if v.passed else "FAIL",
                *(v.figures.get(name) for name in ("took_s", *heads[3:7])),
                f"{sum(p.holds for p in v.promises)} of {len(v.promises)}",
                "; ".join(f"{p.text}: {p.found}" for p in v.promises if not p.holds),
            )
            for v in verdicts
        ),
        heads,
    )  # fmt: skip


def nothing_lost(found: Findings) -> tuple[Promise, ...]:
    """What holds in every drill in which nothing may be lost."""
    examples = f" ({'; '.join(found.examples)})" if found.examples else ""
    return (
        Promise("0 lost", found.lost == 0, f"{found.lost} of {found.generated}{examples}"),
        Promise("order per vehicle holds for first copies", found.reordered == 0, f"{found.reordered}"),
        Promise("0 foreign, one partition a vehicle", found.foreign + found.scattered == 0,
                f"{found.foreign} and {found.scattered}"),
    )  # fmt: skip


def counts(found: Findings) -> dict[str, Any]:
    """The checker's counts as figures."""
    return {name: value for name, value in asdict(found).items() if name not in ("examples", "scattered")}
