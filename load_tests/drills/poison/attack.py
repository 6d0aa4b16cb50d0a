"""An attack: what is tried against the running service, what must hold, which defects undo the cure."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from infra.stack.supervisor import odograph
from load_tests.drills.site import Site
from load_tests.drills.verdict import Promise


@dataclass(frozen=True, slots=True)
class Attack:
    """One row of the table of attacks.

    ``run`` takes the site (services are up; the attack starts and stops the programs it needs)
    and the mutant in force or None, and gives the promises. With each of ``mutants`` at least one must fail.
    """

    name: str
    title: str
    run: Callable[[Site, str | None], Iterable[Promise]]
    mutants: Mapping[str, Callable[[], None]] = field(default_factory=dict)
    """By name, what puts the defect into the process that calls it."""


def program(mutant: str | None, *arguments: str) -> tuple[str, ...]:
    """The command line of ``odograph <arguments>``, with the defect where one is named."""
    if mutant is None:
        return odograph(*arguments)
    return (sys.executable, "-m", "load_tests.drills.poison.mutant", mutant, *arguments)
