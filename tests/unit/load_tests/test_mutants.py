"""Each defect that a drill must see still finds the name whose place it takes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from load_tests.drills import defects, mutant_bridge, mutant_jobs, mutant_lease, mutant_region
from load_tests.drills.poison.table import ATTACKS

OF_THE_ATTACK = ("row5-any-caller", "row2-broker-without-limit")
"""Defects of the database and of the broker: the attack puts them in itself."""
TABLES = [
    *(module.MUTANTS for module in (mutant_bridge, mutant_jobs, mutant_lease, mutant_region)),
    *(attack.mutants for attack in ATTACKS),
]
MUTANTS = {name: defect for table in TABLES for name, defect in table.items() if name not in OF_THE_ATTACK}


@pytest.mark.parametrize("defect", MUTANTS.values(), ids=MUTANTS)
def test_a_defect_takes_the_place_of_something(
    defect: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced: list[Any] = []

    def note(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        replaced.append(make(getattr(owner, name)))

    names = [
        (module, name)
        for module in sys.modules.values()
        if module.__name__.startswith("load_tests.drills.")
        for name, value in vars(module).items()
        if value is defects.replace
    ]
    for module, name in names:
        monkeypatch.setattr(module, name, note)
    defect()
    assert replaced
