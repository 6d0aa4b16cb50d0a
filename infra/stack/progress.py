"""Says what long work does and how far it is: a live line on a terminal, else a line every few seconds."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.status import Status

from infra.contract.errors import ServiceError

EVERY_S = 3.0
MIB = 1 << 20


class Progress:
    """Reports to ``console``, standard error as a rule."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False)

    def say(self, text: str) -> None:
        """One line."""
        self.console.print(text, markup=False, soft_wrap=True)

    @contextlib.contextmanager
    def task(self, name: str, grows: Path | None) -> Iterator[Task]:
        """A piece of work; ``grows`` is the folder whose size tells how far it is."""
        self.say(f"{name}: fetching")
        with contextlib.ExitStack() as stack:
            live = self.console.is_terminal
            status = stack.enter_context(self.console.status(name)) if live else None
            task = Task(self, name, grows, status)
            yield task
        self.say(f"{name}: done, {task.figures()}")


class Task:
    """A piece of work under way."""

    def __init__(self, progress: Progress, name: str, grows: Path | None, status: Status | None) -> None:
        self._progress = progress
        self._name = name
        self._grows = grows
        self._status = status
        self._steps = 0
        self._began = self._told = time.monotonic()

    def run(
        self, command: Sequence[str], step: re.Pattern[str], env: Mapping[str, str] | None = None
    ) -> None:
        """Run a command; a line of its output that matches ``step`` is a step, named by its group.

        Raises ServiceError with the command and its last lines when it fails.
        """
        last: deque[str] = deque(maxlen=15)
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=None if env is None else dict(env),
        )
        with child:
            for line in child.stdout or ():
                last.append(line.rstrip())
                found = step.match(line)
                if found:
                    self._step(found[1])
        if child.returncode != 0:
            lines = "\n".join(f"  | {line}" for line in last)
            raise ServiceError(f"{self._name} failed ({child.returncode}): {shlex.join(command)}\n{lines}")

    def figures(self) -> str:
        """How far it is."""
        took = f"{time.monotonic() - self._began:.0f} s"
        size = "" if self._grows is None else f", {_size_bytes(self._grows) / MIB:.0f} MiB"
        return f"{self._steps} steps, {took}{size}"

    def _step(self, what: str) -> None:
        self._steps += 1
        now = time.monotonic()
        if self._status is not None:
            self._status.update(f"{self._name}: {what} ({self._steps} steps, {now - self._began:.0f} s)")
        elif now - self._told >= EVERY_S:
            self._told = now
            self._progress.say(f"{self._name}: {what}, {self.figures()}")


def _size_bytes(folder: Path) -> int:
    """Bytes on disk below ``folder``; what vanishes meanwhile does not count."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += os.lstat(f"{root}/{name}").st_blocks * 512
    return total
