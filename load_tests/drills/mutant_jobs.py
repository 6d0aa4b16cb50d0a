"""A stream application with one defect, so that drills can show that they see it.

Run: python -m load_tests.drills.mutant_jobs NAME.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from infra.contract import settings
from load_tests.drills.defects import put_in, replace
from stream_jobs import jobs, session, sinks, windows

WORKERS: Final = Path(__file__).with_name("mutant_workers")


def no_ledger() -> None:
    """A batch is written though the ledger has it."""

    def blind(honest: Any) -> Any:
        def claim(self: Any, *arguments: Any, **named: Any) -> bool:
            honest(self, *arguments, **named)
            return True

        return claim

    replace(sinks.BatchClaims, "claim", blind)


def zero_watermark() -> None:
    """State is given up as soon as event time has passed it."""

    def hasty(honest: Any) -> Any:
        return lambda *arguments: dataclasses.replace(honest(*arguments), watermark_s=0)

    replace(windows, "lengths_of", hasty)


def no_sequencer() -> None:
    """Frames of a vehicle go on in the order in which they come, copies too."""

    def misled(honest: Any) -> Any:
        def common_conf(*arguments: Any) -> dict[str, str]:
            conf: dict[str, str] = honest(*arguments)
            path = conf["spark.executorEnv.PYTHONPATH"]
            return conf | {"spark.executorEnv.PYTHONPATH": f"{WORKERS}:{path}"}

        return common_conf

    replace(session, "common_conf", misled)


MUTANTS: Final[dict[str, Callable[[], None]]] = {
    "no-ledger": no_ledger,
    "zero-watermark": zero_watermark,
    "no-sequencer": no_sequencer,
}


def main(name: str) -> None:
    """Run the stream application with the named defect."""
    put_in(name, MUTANTS, "jobs")
    jobs.run(settings.load())


if __name__ == "__main__":
    main(sys.argv[1])
