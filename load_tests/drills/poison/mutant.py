"""``odograph`` with one defect, so that an attack can show that it sees it.

Run: python -m load_tests.drills.poison.mutant NAME ARGUMENTS of odograph.
"""

from __future__ import annotations

import sys

from infra import cli
from load_tests.drills.defects import put_in
from load_tests.drills.poison.table import ATTACKS


def main() -> None:
    """Put the defect in, then run the command line."""
    name = sys.argv.pop(1)
    put_in(name, {key: defect for attack in ATTACKS for key, defect in attack.mutants.items()}, sys.argv[1])
    cli.main()


if __name__ == "__main__":
    main()
