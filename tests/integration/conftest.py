"""One browser and one dashboard for all tests of pages: starting them costs more than a page.

Rows are shared: a test that changes some puts them back, or changes rows that are its own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime

import psycopg
import pytest
from playwright.sync_api import Browser, BrowserContext

from dashboard.db import Connection
from infra.stack.stack import Stack
from stream_jobs.app.database import Database as JobDatabase
from tests import support_rows
from tests.integration.broker_support import Broker, a_broker
from tests.integration.browser_support import Visit, chromium, desk, visit
from tests.integration.dashboard_support import Known, Site, open_site, reading
from tests.support import Lane, open_lane


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Not longer than this package: the tests of the whole pipeline open their own."""
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="package")
def site(stack: Stack) -> Iterator[Site]:
    """A dashboard over the rows of tests/support_rows.py."""
    with open_site(stack) as opened:
        yield opened


@pytest.fixture(scope="package")
def light(browser: Browser) -> Iterator[BrowserContext]:
    """A window in the light theme."""
    with desk(browser) as opened:
        yield opened


@pytest.fixture
def reader(light: BrowserContext, site: Site) -> Iterator[Visit]:
    """A session of its own on the shared dashboard, whose fleet has just reported; it asks nobody outside."""
    site.report()
    with visit(light, site.base) as opened:
        yield opened
        assert opened.outside() == []


@pytest.fixture(scope="module")
def known(stack: Stack) -> Iterator[Known]:
    """A lane with the known rows, only read: for the tests of queries.

    A module's own: two minutes after ``now`` its fleet is silent.
    """
    with open_lane(stack, topics=False) as lane, reading(lane) as opened:
        moment = datetime.now(UTC)
        with psycopg.connect(lane.endpoints.db_ingest_url) as ingest:
            support_rows.fill(ingest, moment)
        yield opened, moment


@pytest.fixture(scope="module")
def now(known: Known) -> datetime:
    """The moment the known rows are seen from."""
    return known[1]


@pytest.fixture(scope="module")
def connection(known: Known) -> Connection:
    """A connection to the known rows, as the dashboard has it."""
    return known[0]


@pytest.fixture
def database(lane: Lane) -> Iterator[JobDatabase]:
    """The jobs' way to the lane's tables."""
    opened = JobDatabase(lane.endpoints.db_ingest_url, "test", threading.Event())
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker of the module's own, with a home for the commands that use it."""
    with a_broker() as made:
        yield made
