"""Puts one defect into a program from outside: the product has no switch for any of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from infra.clients.log import configure
from infra.contract.errors import ConfigError


def replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Put ``make(honest)`` in the place of a public name; fails where that name is gone."""
    setattr(owner, name, make(getattr(owner, name)))


def put_in(name: str, mutants: Mapping[str, Callable[[], None]], program: str) -> None:
    """Make this process a ``program`` with the named defect; raises ConfigError."""
    if name not in mutants:
        raise ConfigError(f"there is no mutant {name}; there are {', '.join(mutants)}")
    warnings.simplefilter("ignore")
    configure(program)
    mutants[name]()
