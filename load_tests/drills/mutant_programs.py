"""``odograph`` with one defect of what hosts and regions need.

Run: python -m load_tests.drills.mutant_programs NAME ARGUMENTS of odograph.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

from bridge.downlink.webhooks import Settled
from infra import cli
from infra.clients import leases
from load_tests.drills.defects import put_in, replace


def no_fencing() -> None:
    """Whatever the database says, the lease is still this process's."""
    replace(leases.Term, "_lose", lambda _honest: lambda _term: None)


def told_again() -> None:
    """The downlink knows nothing of what the other region has told."""
    replace(Settled, "of", lambda _honest: lambda _settled, _alerts: set())
    replace(Settled, "begin", lambda honest: lambda settled: (honest(settled)[0], []))


MUTANTS: Final[dict[str, Callable[[], None]]] = {"no-fencing": no_fencing, "told-again": told_again}


def main() -> None:
    """Put the defect in, then run the command line."""
    put_in(sys.argv.pop(1), MUTANTS, sys.argv[-1])
    cli.main()


if __name__ == "__main__":
    main()
