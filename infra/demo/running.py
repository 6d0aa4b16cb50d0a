"""The whole pipeline while a block runs, in the foreground: for demo and bench."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Event

from infra.clients.health import in_background
from infra.contract.errors import ServiceError
from infra.settings.settings import ENDPOINTS_FILE, Endpoints, Settings
from infra.stack import fetch, processes
from infra.stack.cluster import ALONE
from infra.stack.probes import readyz
from infra.stack.processes import guarded
from infra.stack.stack import Stack
from infra.stack.supervisor import POLL_S, SUPERVISOR, Program, Supervisor, programs, wait_ready

Say = Callable[[str], None]
ALL = ("",)
FIRST = ("jobs", "bridge", "dashboard")
"""Begin of the names of programs that start with the services, because a first vehicle on the map needs them.
The others follow later: all at once would be slower for each.
"""
ALONE_S = 60.0
READY_S = 180.0


@contextmanager
def running(
    settings: Settings, say: Say, needed: tuple[str, ...] = ALL, follow: Callable[[], bool] | None = None
) -> Iterator[Endpoints]:
    """The pipeline while the block runs, which begins when the programs are ready whose names begin so.

    ``follow``: whether it is time for the others; None: when the jobs are ready.
    One that ``odograph up`` started is used as it is and left running. Otherwise everything is started, and
    stopped at the end, however this process ends. Raises ServiceError where a part does not become ready.
    """
    stack = Stack(settings, say)
    fetch.fetch_all(settings.paths.cache, stack.embedded)
    if processes.find(stack.home / "run", SUPERVISOR) is not None:
        say("the pipeline runs already (odograph up): it is used and left running")
        endpoints = stack.up()
        _wait_ready(endpoints, needed, say)
        yield endpoints
        return
    if settings.cluster != ALONE:
        raise ServiceError("a cluster runs in the background: odograph cluster up, then this uses it")
    stack.home.mkdir(parents=True, exist_ok=True)
    wanted = programs(settings.bridge.shards)
    first = [program for program in wanted if program.name.startswith(FIRST)]
    with guarded(stack.home), ThreadPoolExecutor(max_workers=1) as pool:
        (stack.home / ENDPOINTS_FILE).unlink(
            missing_ok=True
        )  # of a killed run: programs wait for the new one
        try:
            coming = pool.submit(stack.up)
            with Supervisor(stack.home, first, say) as supervisor, in_background("watch", supervisor.watch):
                endpoints = coming.result()
                others = [program for program in wanted if program not in first]
                where = endpoints.pages["jobs"]
                ready = follow or (lambda: readyz(where) is None)
                with in_background("others", partial(_follow, supervisor, others, ready)):
                    _wait_ready(endpoints, needed, say)
                    yield endpoints
        finally:
            say("stopping what was started")
            stack.down()


def _follow(
    supervisor: Supervisor, others: Sequence[Program], ready: Callable[[], bool], stop: Event
) -> None:
    end = time.monotonic() + ALONE_S
    while not ready() and time.monotonic() < end:
        if stop.wait(POLL_S):
            return
    supervisor.add(others)


def _wait_ready(endpoints: Endpoints, needed: tuple[str, ...], say: Say) -> None:
    pages = {name: where for name, where in endpoints.pages.items() if name.startswith(needed)}
    refuse_late(wait_ready(pages, READY_S, say), READY_S)


def refuse_late(late: Mapping[str, str], waited_s: float) -> None:
    """Raise ServiceError where programs are late, by reason, after their time is over."""
    if late and waited_s >= READY_S:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in late.items())
        raise ServiceError(
            f"not ready after {READY_S:g} s: {reasons}. Logs: <home>/logs; see odograph doctor"
        )
