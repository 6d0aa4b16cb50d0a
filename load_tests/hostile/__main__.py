"""Run: python -m load_tests.hostile --messages 1000000. Exit code 1 where a promise does not hold."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Final

from infra.settings.settings import load
from load_tests.drills.site import opened
from load_tests.hostile import judge
from load_tests.hostile.run import RATE, Wanted, hostile

JOBS: Final[dict[str, object]] = {"archive_trigger_s": judge.BEHIND_S / 2}
"""By default the archive looks only every 10 s: at its best it is as far behind as nobody may be."""


def main() -> int:
    """Read the options, run, print the verdict."""
    parser = argparse.ArgumentParser(prog="python -m load_tests.hostile", description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument(
        "--rate", type=float, default=RATE, help="messages/s; 0: as fast as the broker takes them"
    )
    parser.add_argument("--files", type=int, help="files of each kind [a hundredth of the messages]")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="leave the site's home as it is")
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--no-spark", action="store_true", help="bridge and event store only, no honest vehicles"
    )
    options = parser.parse_args()
    wanted = Wanted(options.messages, options.rate, options.files, options.seed, spark=not options.no_spark)

    def say(text: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)

    with opened(load(), "hostile", say, options.keep, jobs=JOBS) as site:
        verdict = hostile(site, wanted)
    print(verdict.as_json() if options.json else "\n".join(verdict.lines()))
    return 0 if verdict.passed else 1


if __name__ == "__main__":
    raise SystemExit(main())
