"""Ends a home's programs when the process that wanted them ends, however it ends.

The guard waits for the end of its standard input. The kernel closes that pipe when the owner is gone, even
after ``kill -9``; the guard then stops every program of the home, those of test lanes inside it first, and
removes the home itself when asked to.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra.stack import processes
from infra.stack.trees import remove_tree

STOP_S = 15.0


@contextmanager
def guarded(home: Path, *, remove: bool = False) -> Iterator[None]:
    """While the block runs a guard watches this process; at its end the programs of ``home`` are stopped."""
    command = [sys.executable, "-m", "infra.stack.guard", str(home.resolve()), "remove" if remove else "keep"]
    guard = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        if guard.stdin is not None:
            guard.stdin.close()
        guard.wait()


def main(home: Path, remove: bool) -> None:
    """Wait for the owner's end, then clean up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    for run_dir in (*home.glob("lanes/*/run"), home / "run"):
        processes.stop_all(run_dir, STOP_S, ["supervisor"])  # first: it would start again what ends
        processes.stop_all(run_dir, STOP_S)
    if remove:
        remove_tree(home)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] == "remove")
