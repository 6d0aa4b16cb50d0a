"""A running dashboard over known rows, and the ways in which tests change what lies below it."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from dashboard.db import Connection, Database
from infra.settings.settings import ENDPOINTS_FILE
from infra.stack.stack import Stack
from load_tests.drills.link import Link
from tests import support_rows
from tests.rows.fleet import speed_kmh
from tests.rows.pipeline import cells, progress
from tests.rows.town import ROVER, roads, vehicle_id
from tests.support import Lane, eventually, open_lane

START_S = 120.0
REFRESH_S = 5.0
"""A refresh takes 2 s of CPU where a map is drawn in software: one every 2 s, as by default, takes a core."""
HELD_S = 600.0
"""The dashboard takes a connection for one question; tests hold one for all of theirs."""
SILENT = (36, 37, 38)
STOPPED = 10
SPEED = "UPDATE odograph.vehicle_latest SET speed_kmh = %s WHERE vehicle_id = %s"


Known = tuple[Connection, datetime]
"""A connection as the dashboard has it, and the moment its rows are seen from."""


@dataclass(frozen=True, slots=True)
class Site:
    """A running dashboard: its lane, its address, the link between it and the database, and the moment its
    rows were made.
    """

    lane: Lane
    base: str
    link: Link
    made_at: datetime

    def execute(self, statement: str, *values: object) -> None:
        """Change rows as the jobs do."""
        with psycopg.connect(self.lane.endpoints.db_ingest_url) as connection:
            connection.execute(statement.encode(), values)

    def stop(self) -> None:
        """A vehicle that drives stands still with its ignition on, until the fleet has reported."""
        self.execute(SPEED, 0.0, vehicle_id(STOPPED))

    def report(self) -> None:
        """The fleet has reported this moment, whatever an earlier test changed; the silent ones have not."""
        self.execute(
            "UPDATE odograph.vehicle_latest SET event_time = now() WHERE vehicle_id <> ALL (%s)",
            [ROVER, *(vehicle_id(n) for n in SILENT)],
        )
        self.execute(SPEED, speed_kmh(STOPPED), vehicle_id(STOPPED))


def traffic_of_now(site: Site) -> None:
    """Vehicles are on the road this moment, however long ago the rows were made."""
    with psycopg.connect(site.lane.endpoints.db_owner_url) as connection:
        connection.execute(
            "DELETE FROM odograph.road_cell_window WHERE window_start > now() - '1h'::interval"
        )
        support_rows.insert(connection, "road_cell_window", cells(datetime.now(UTC), roads()))


def batches_until_now(site: Site) -> None:
    """The queries have worked for a quarter of an hour, however long ago the rows were made."""
    with psycopg.connect(site.lane.endpoints.db_owner_url) as connection:
        connection.execute("DELETE FROM odograph.query_progress")
        support_rows.insert(connection, "query_progress", progress(datetime.now(UTC)))


def minute_of_data(now: datetime) -> datetime:
    """The minute that is still running: the newest of the known rows is a second old."""
    return (now - timedelta(seconds=1)).replace(second=0, microsecond=0)


@contextmanager
def reading(lane: Lane) -> Iterator[Connection]:
    """A connection as the dashboard has it, for all questions of a test or of a module."""
    database = Database(lambda: lane.endpoints.db_dashboard_url, answer_s=HELD_S)
    with database.connection() as opened:
        yield opened
    database.close()


@contextmanager
def open_site(stack: Stack) -> Iterator[Site]:
    """A dashboard over the known rows, with a link to the database that can be cut."""
    made_at = datetime.now(UTC)
    with (
        open_lane(stack, topics=False, dashboard={"refresh_s": REFRESH_S}) as lane,
        link_to_database(lane) as link,
        lane.process("dashboard") as process,
    ):
        with psycopg.connect(lane.endpoints.db_ingest_url) as connection:  # while the dashboard starts
            support_rows.fill(connection, made_at)
        base = f"http://127.0.0.1:{lane.endpoints.http_ports['dashboard']}"
        eventually(lambda: process.assert_running() or status(base, "/readyz") == 200, START_S, "ready")
        yield Site(lane, base, link, made_at)


def link_to_database(lane: Lane) -> Link:
    """Puts a link between the dashboard and its database."""
    address = urlsplit(lane.endpoints.db_dashboard_url)
    assert address.hostname is not None
    assert address.port is not None
    link = Link(address.hostname, address.port)
    changed = lane.endpoints.db_dashboard_url.replace(f":{address.port}/", f":{link.port}/")
    file = Path(lane.home) / ENDPOINTS_FILE
    file.write_text(json.dumps(asdict(replace(lane.endpoints, db_dashboard_url=changed))))
    return link


def status(base: str, path: str) -> int:
    """The status of an answer; 0 where there is none."""
    try:
        with urllib.request.urlopen(base + path, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


@contextmanager
def watched(lane: Lane, run: str) -> Iterator[str]:
    """The dashboard of a run, by ``replay watch``: its address, once it is ready."""
    with lane.process("replay", "watch", run) as process:

        def said() -> str:
            process.assert_running()
            return next(iter(re.findall(r"dashboard: (http://\S+)", process.output())), "")

        base = eventually(said, START_S, "its address")
        eventually(lambda: status(base, "/readyz") == 200, START_S, "ready")
        yield base
