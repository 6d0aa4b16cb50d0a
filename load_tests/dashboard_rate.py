"""How fast every page is over a large fleet, and whether it stays so.

Run: python -m load_tests.dashboard_rate [--vehicles 10000] [--days 30] [--readers 20] [--minutes 10]

A database of its own with a month of roll-ups, rows that go on changing, the dashboard's own process,
headless Chromium for what one person waits for, and readers that speak Streamlit's protocol for what twenty
do to the server. Prints tables; exit 1 where a page misses its aim. ``--home DIR`` keeps the filled database.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path

from playwright.sync_api import Page

from edge_simulator.town.roads import city
from infra.clients.db import session
from infra.contract.errors import ServiceError
from infra.settings.settings import Endpoints, Settings, load
from infra.sql import queries
from infra.stack import processes
from infra.stack.probes import readyz
from infra.stack.processes import cpu_s, guarded, memory_mb
from infra.stack.stack import Stack
from infra.stack.supervisor import odograph
from load_tests.dashboard import month, paint, pulse, reader, report

TOWN_SEED, TOWN = 1, (48.137, 11.575)
READY_S = 60.0
SAMPLE_S = 10.0
VISITS = 3
ALONE_S = 30.0
WARM_S = 4.0
PARTS = ("paint", "alone", "crowd")
PAGES = (
    "/",
    "/?traffic=cells",
    "/vehicle?vehicle=WDB1240001A000001",
    "/alerts",
    "/crashes",
    "/trips",
    "/routing",
    "/replay",
    "/operations",
)


def say(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


def main(wanted: argparse.Namespace) -> int:
    """Measure, print, 1 where an aim is missed."""
    with ExitStack() as parts:
        home = Path(wanted.home or parts.enter_context(tempfile.TemporaryDirectory(prefix="odograph-pages-")))
        settings = load(paths={"home": str(home)})
        parts.enter_context(guarded(home))
        stack = Stack(settings, say, preferred={}, only=("postgres",))
        addresses = stack.up()
        parts.callback(stack.down)
        fill(addresses, wanted.vehicles, wanted.days, as_is=wanted.as_is)
        parts.enter_context(pulse.driving(addresses.db_ingest_url))
        base, pid = parts.enter_context(served(settings, addresses))
        every_s = settings.dashboard.refresh_s
        found = report.Report(wanted.vehicles, wanted.readers, refresh_every_s=every_s)
        database = stack.runner.find("postgres")
        measure(found, base, (pid, database.pid if database else pid), wanted)
    text = json.dumps(asdict(found), indent=1) if wanted.json else report.text(found)
    sys.stdout.write(text + "\n")
    return 0 if not found.missed() else 1


def fill(addresses: Endpoints, vehicles: int, days: int, *, as_is: bool) -> None:
    """A month where there is none yet; the last hour anew each time."""
    with session(addresses.db_owner_url, autocommit=True) as connection:
        (there,) = connection.execute("SELECT count(*) FROM odograph.vehicle").fetchone() or (0,)
        if not there:
            roads = city(TOWN_SEED, *TOWN).edges()
            queries.store_roads(addresses.db_ingest_url, f"city-{TOWN_SEED}", roads)
            month.fill(connection, vehicles, days, say)
        if not as_is:
            month.fill_now(connection, vehicles, say)


@contextmanager
def served(settings: Settings, addresses: Endpoints) -> Iterator[tuple[str, int]]:
    """The dashboard's process: its address and its pid."""
    home, port = settings.paths.home.resolve(), addresses.http_ports["dashboard"]
    env = {**os.environ, "ODOGRAPH_PATHS_HOME": str(home), "PYTHONPATH": str(Path.cwd())}
    log = home / "logs" / "dashboard.log"
    child = processes.spawn(home / "run", "dashboard", odograph("dashboard"), log, env=env)
    try:
        wait_ready(child, port)
        yield f"http://127.0.0.1:{port}", child.pid
    finally:
        child.terminate()
        child.wait(30)
        processes.pid_file(home / "run", "dashboard").unlink(missing_ok=True)


def wait_ready(child: subprocess.Popen[bytes], port: int) -> None:
    """Until it is ready; raises ServiceError."""
    end_s = time.monotonic() + READY_S
    while (reason := readyz(port)) is not None:
        if child.poll() is not None or time.monotonic() > end_s:
            raise ServiceError(f"the dashboard did not become ready: {reason}")
        time.sleep(0.2)


def measure(found: report.Report, base: str, pids: tuple[int, int], wanted: argparse.Namespace) -> None:
    """One person, one reader a page, then many for a while with memory watched."""
    pages = [page for page in PAGES if wanted.pages is None or name_of(page) in wanted.pages]
    if "paint" in wanted.only:
        with paint.browser() as opened:
            for path in pages:
                say(f"paint {path}")
                found.paints += paint.visits(opened, base, path, VISITS)
    if "alone" in wanted.only:
        with spending(found, "nobody: the rows that change", pids):
            time.sleep(ALONE_S)
        for path in pages:
            say(f"alone {path}")
            alone(found, base, path, pids)
    if "crowd" in wanted.only:
        say(f"{wanted.readers} readers for {wanted.minutes:g} min")
        with paint.browser() as opened, paint.stays(opened, base + pages[0]) as page:
            crowd(found, base, pids[0], pages, wanted, page)


@contextmanager
def spending(found: report.Report, name: str, pids: tuple[int, int]) -> Iterator[None]:
    """The CPU time of server and database in a block of ALONE_S, by a refresh."""
    before_s = [cpu_s(pid) for pid in pids]
    yield
    spent_s = [cpu_s(pid) - before for pid, before in zip(pids, before_s, strict=True)]
    rounds = max(1.0, ALONE_S / found.refresh_every_s)
    found.cpu_ms[name] = tuple(1000 * seconds / rounds for seconds in spent_s)


def alone(found: report.Report, base: str, path: str, pids: tuple[int, int]) -> None:
    """One reader of one page."""
    asyncio.run(reader.crowd(base, [path], 1, WARM_S))
    with spending(found, path, pids):
        notes = asyncio.run(reader.crowd(base, [path], 1, ALONE_S))
    found.alone.extend(notes.runs)
    found.wrong.extend(notes.wrong)


def name_of(page: str) -> str:
    """``alerts`` of ``/alerts?severity=MAJOR``."""
    return page.strip("/").partition("?")[0]


def crowd(
    found: report.Report, base: str, pid: int, pages: list[str], wanted: argparse.Namespace, page: Page
) -> None:
    """Many readers; memory of the server and of one browser meanwhile."""
    result: list[reader.Notes] = []
    seconds = wanted.minutes * 60

    def run() -> None:
        result.append(asyncio.run(reader.crowd(base, pages, wanted.readers, seconds)))

    thread = threading.Thread(target=run, name="readers")
    begun_s = time.monotonic()
    thread.start()
    while thread.is_alive():
        found.memory.append((time.monotonic() - begun_s, memory_mb(pid), paint.heap_mb(page)))
        thread.join(SAMPLE_S)
    found.together.extend(result[0].runs)
    found.wrong.extend(result[0].wrong)


def arguments() -> argparse.Namespace:
    """Of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vehicles", type=int, default=10_000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--readers", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long the readers stay")
    parser.add_argument("--home", help="folder of the database, kept; none: a temporary one")
    parser.add_argument("--as-is", action="store_true", help="the last hours are not made anew")
    names = [*dict.fromkeys(map(name_of, PAGES))]
    parser.add_argument("--pages", nargs="+", choices=names, help="only these, by name; the fleet's is ''")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS, help="what to measure")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main(arguments()))
