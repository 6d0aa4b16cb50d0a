"""``odograph`` with leases that do not fence: the holder writes on, whoever has the lease.

Run: python -m load_tests.drills.mutant_lease NAME ARGUMENTS of odograph.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

from infra import cli
from infra.clients import leases
from load_tests.drills.defects import put_in, replace


def no_fencing() -> None:
    """Whatever the database says, the lease is still this process's."""
    replace(leases.Term, "_lose", lambda _honest: lambda _term: None)


MUTANTS: Final[dict[str, Callable[[], None]]] = {"no-fencing": no_fencing}


def main() -> None:
    """Put the defect in, then run the command line."""
    put_in(sys.argv.pop(1), MUTANTS, sys.argv[-1])
    cli.main()


if __name__ == "__main__":
    main()
