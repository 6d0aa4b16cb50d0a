"""Says what long work does and how far it is: a live line on a terminal, else a line every few seconds."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.status import Status

from infra.contract.errors import ServiceError

EVERY_S = 5.0
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
            stack.enter_context(task.heartbeat())
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
        self._what = "at work"
        self._began = time.monotonic()

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
                    self._steps += 1
                    self._what = found[1]
        if child.returncode != 0:
            lines = "\n".join(f"  | {line}" for line in last)
            raise ServiceError(f"{self._name} failed ({child.returncode}): {shlex.join(command)}\n{lines}")

    @contextlib.contextmanager
    def heartbeat(self) -> Iterator[None]:
        """Tell how far it is every few seconds while the block runs, whether or not a step is done."""
        done = threading.Event()
        thread = threading.Thread(target=self._beat, args=(done,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _beat(self, done: threading.Event) -> None:
        while not done.wait(1.0 if self._status is not None else EVERY_S):
            text = f"{self._name}: {self._what}, {self.figures()}"
            if self._status is not None:
                self._status.update(text)
            else:
                self._progress.say(text)

    def figures(self) -> str:
        """How far it is."""
        took = f"{time.monotonic() - self._began:.0f} s"
        size = "" if self._grows is None else f", {_size_bytes(self._grows) / MIB:.0f} MiB"
        return f"{self._steps} steps, {took}{size}"


def _size_bytes(folder: Path) -> int:
    """Bytes on disk below ``folder``, mounts inside it apart; what vanishes meanwhile does not count."""
    total = 0
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not os.path.ismount(f"{root}/{name}")]
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += os.lstat(f"{root}/{name}").st_blocks * 512
    return total
