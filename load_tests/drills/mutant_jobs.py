"""A stream application with one defect, so that drills can show that they see it.

Run: python -m load_tests.drills.mutant_jobs NAME [COMMAND ...], as of `odograph`, instead of the application.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow.compute as pc

from infra import cli
from infra.contract.verdict import OK
from infra.settings import settings
from load_tests.drills.defects import put_in, replace
from stream_jobs.app import jobs, session
from stream_jobs.archive import query
from stream_jobs.recovery import ledger, rescale

WORKERS: Final = Path(__file__).with_name("mutant_workers")


def no_ledger() -> None:
    """A batch is written though the ledger has it."""

    def blind(honest: Any) -> Any:
        def claim(self: Any, *arguments: Any, **named: Any) -> bool:
            honest(self, *arguments, **named)
            return True

        return claim

    replace(ledger.BatchClaims, "claim", blind)


def unlisted() -> None:
    """What overload put off is archived and listed nowhere."""

    def forgetful(honest: Any) -> Any:
        def note_exceptions(connection: Any, found: Any, *more: Any) -> int:
            return int(honest(connection, found.filter(pc.not_equal(found["verdict"], OK)), *more))

        return note_exceptions

    replace(query, "note_exceptions", forgetful)


def in_workers(name: str) -> Callable[[], None]:
    """The defect ``name`` of mutant_workers."""

    def misled(honest: Any) -> Any:
        def common_conf(*arguments: Any) -> dict[str, str]:
            conf: dict[str, str] = honest(*arguments)
            path = conf["spark.executorEnv.PYTHONPATH"]
            worker = {"PYTHONPATH": f"{WORKERS}:{path}", "MUTANT": name}
            return conf | {f"spark.executorEnv.{key}": value for key, value in worker.items()}

        return common_conf

    return lambda: replace(session, "common_conf", misled)


def local_staging() -> None:
    """Workers leave their files on their own disks, and the driver takes what it finds on its own for all."""

    def left(honest: Any) -> Any:
        folder = Path.cwd().absolute() / "staging"

        def hour_files(batches: Any, limits: Any) -> Any:
            for rows in honest(batches, limits):
                folder.mkdir(parents=True, exist_ok=True)
                with (folder / str(os.getpid())).open("ab") as file:
                    file.writelines(rows["content"].to_pylist())
                yield rows.slice(0, 0)

        return hour_files

    replace(query, "hour_files", left)
    replace(query, "check_whole", lambda _honest: lambda *_: None)


def forgetful_split() -> None:
    """New buckets of a split state remember nothing of their vehicles."""

    def empty(honest: Any) -> Any:
        return lambda settings, rule_set, blob, _: honest(settings, rule_set, blob, set())

    replace(rescale, "part_of", empty)


MUTANTS: Final[dict[str, Callable[[], None]]] = {
    "no-ledger": no_ledger,
    "local-staging": local_staging,
    "forgetful-split": forgetful_split,
    "unlisted": unlisted,
    "early-close": in_workers("early-close"),
    "no-sequencer": in_workers("no-sequencer"),
}


def main(name: str, *command: str) -> None:
    """Run the stream application, or a command of `odograph`, with the named defect."""
    put_in(name, MUTANTS, "jobs")
    if command:
        sys.argv = ["odograph", *command]
        cli.main()
    jobs.run(settings.load())


if __name__ == "__main__":
    main(*sys.argv[1:])
