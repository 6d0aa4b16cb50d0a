"""What rate measurements need: CPU time by part, and a broker of their own."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra.contract.settings import load
from infra.stack import cache, ports
from infra.stack.fetch import fetch_all
from infra.stack.guard import guarded
from infra.stack.mosquitto import mosquitto
from infra.stack.progress import Progress
from infra.stack.service import Runner


@dataclass(slots=True)
class Clock:
    """CPU time by part; a part within another one counts for itself only."""

    spent_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    _open: list[str] = field(default_factory=list)
    _since_s: float = 0.0

    def time(self, owner: Any, method: str, part: str) -> None:
        """Count what a method of one object costs as ``part``."""
        inner: Callable[..., Any] = getattr(owner, method)

        def timed(*arguments: Any, **named: Any) -> Any:
            self._switch()
            self._open.append(part)
            try:
                return inner(*arguments, **named)
            finally:
                self._switch()
                self._open.pop()

        setattr(owner, method, timed)

    def _switch(self) -> None:
        now_s = time.process_time()
        if self._open:
            self.spent_s[self._open[-1]] += now_s - self._since_s
        self._since_s = now_s


@dataclass(frozen=True, slots=True)
class Broker:
    """A Mosquitto and its process."""

    port: int
    pid: int


@contextmanager
def broker_in(home: Path) -> Iterator[Broker]:
    """A Mosquitto in ``home`` while the block runs."""
    folder = load(paths={"home": str(home)}).paths.cache
    fetch_all(folder, Progress(), ("mosquitto",))
    with guarded(home):
        service = mosquitto(cache.rootfs(folder), home / "data" / "mosquitto", ports.free_port())
        runner = Runner(home)
        runner.start(service)
        found = runner.find(service.name)
        assert found is not None
        yield Broker(service.port, found.pid)
        runner.stop(service.name)
