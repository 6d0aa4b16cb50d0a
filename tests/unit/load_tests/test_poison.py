"""The drill poison-2 on a site of no services: which attacks run, and what one that breaks down says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from infra.contract.errors import ConfigError
from load_tests.drills.poison.attack import Attack
from load_tests.drills.poison.run import poison
from load_tests.drills.runner import Wanted, carried_out
from load_tests.drills.site import Site
from load_tests.drills.verdict import Promise


class Nowhere(Site):
    """A site at which nothing was started."""

    def __init__(self) -> None:
        self.say, self._children = print, {}


def breaks_down(site: Site, mutant: str | None) -> Iterator[Promise]:
    yield Promise("0 doubled", True, "0 of 3")
    raise OSError("the broker is away")


def stands(site: Site, mutant: str | None) -> list[Promise]:
    return [Promise("0 lost", mutant is None, "3 of 3")]


ATTACKS = (
    Attack("row1", "breaks down", breaks_down),
    Attack("row2", "holds, but for its defect", stands, {"no-limit": lambda: None}),
    Attack("row3", "says nothing", lambda site, mutant: []),
)


def test_an_attack_that_raises_is_a_promise_not_kept_and_the_next_one_runs() -> None:
    verdict = poison(Nowhere(), None, ATTACKS)
    assert "took_s" not in verdict.figures, "the runner's name for the whole drill"
    assert verdict.promises == (
        Promise("row1: 0 doubled", True, "0 of 3"),
        Promise("row1: it comes to its end", False, "OSError: the broker is away"),
        Promise("row2: 0 lost", True, "3 of 3"),
        Promise("row3: says what must hold", False, "no promise"),
    )
    assert not poison(Nowhere(), None, ATTACKS[:1]).seen
    assert poison(Nowhere(), "no-limit", ATTACKS).seen


def test_a_mutant_runs_only_the_attack_that_must_see_it() -> None:
    verdict = poison(Nowhere(), "no-limit", ATTACKS)
    assert (verdict.promises, verdict.mutant) == ((Promise("row2: 0 lost", False, "3 of 3"),), "no-limit")


def test_an_unknown_mutant_is_refused_before_anything_starts() -> None:
    with pytest.raises(ConfigError, match="--mutant none-such: poison-2 is made to see"):
        next(carried_out("poison-2", Wanted(mutant="none-such"), print))
