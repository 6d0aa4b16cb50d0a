"""The whole pipeline in the foreground: services, processes, roads; all that was started is stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from infra.contract.errors import ServiceError
from infra.settings.settings import Endpoints, Settings
from infra.stack import fetch, processes, programs
from infra.stack.guard import guarded
from infra.stack.progress import Progress
from infra.stack.stack import Stack
from infra.stack.supervisor import Supervisor

Say = Callable[[str], None]
READY_S = 180.0


@contextmanager
def running(settings: Settings, say: Say) -> Iterator[Endpoints]:
    """The pipeline, ready, while the block runs.

    One that ``odograph up`` started is used as it is and left running. Otherwise everything is started, and
    stopped at the end, however this process ends. Raises ServiceError where a part does not become ready.
    """
    stack = Stack(settings, say)
    fetch.fetch_all(settings.paths.cache, Progress(), stack.embedded)
    if processes.find(stack.home / "run", programs.SUPERVISOR) is not None:
        say("the pipeline runs already (odograph up): it is used and left running")
        endpoints = stack.up()
        _wait_ready(endpoints, say)
        yield endpoints
        return
    stack.home.mkdir(parents=True, exist_ok=True)
    with guarded(stack.home):
        endpoints = stack.up()
        try:
            with _supervised(stack, say):
                _wait_ready(endpoints, say)
                yield endpoints
        finally:
            say("stopping what was started")
            stack.down()


@contextmanager
def _supervised(stack: Stack, say: Say) -> Iterator[None]:
    stop = threading.Event()
    with Supervisor(stack.home, programs.programs(stack.settings.bridge.shards), say) as supervisor:
        watcher = threading.Thread(target=supervisor.watch, args=(stop,), name="supervisor", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            stop.set()
            watcher.join()


def _wait_ready(endpoints: Endpoints, say: Say) -> None:
    missing = programs.wait_ready(endpoints.http_ports, READY_S, say)
    if missing:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in missing.items())
        raise ServiceError(
            f"not ready after {READY_S:g} s: {reasons}. Logs: <home>/logs; see odograph doctor"
        )
