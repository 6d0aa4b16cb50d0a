"""Fixtures on the real stack: one stack a session, one lane a test."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

from edge_simulator.town import roads
from infra.settings.settings import load
from infra.stack import kafka
from infra.stack.downloads.fetch import fetch_all
from infra.stack.processes import guarded
from infra.stack.stack import SERVICES, Stack
from tests.forked import begin_to_load
from tests.support import Lane, make_template, open_lane, without_fsync

hypothesis.settings.register_profile(
    "odograph", deadline=None, derandomize=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("odograph")  # the same examples each time, and no test fails for being slow

roads.region = lru_cache(maxsize=16)(roads.region.__wrapped__)
"""The simulator has one town; tests ask for the same few again and again, and each takes half a second."""
KEPT = ("ODOGRAPH_PATHS_CACHE",)
WITHOUT_BYTECODE = "PYTHONDONTWRITEBYTECODE"
"""Of a container's image: hundreds of programs would compile our code at each start, 0.1 to 0.5 s of CPU."""
sys.dont_write_bytecode = False
"""And a worker 42,000 lines of tests, whose asserts pytest rewrites, in each run."""
QUICK_COMPILER = "-XX:TieredStopAtLevel=1"
LIGHT_JAVA = {
    "JDK_JAVA_OPTIONS": QUICK_COMPILER,
    "ODOGRAPH_JOBS_JAVA_OPTIONS": f"{QUICK_COMPILER} -XX:+UseSerialGC",
}
"""A test is over before Java's second compiler pays, Kafka's too: test_instant takes 89 s of CPU, not 185."""
QUICK_KAFKA = "check.interval.ms=1000\nlog.cleaner.backoff.ms=500"
"""What is expired or compacted goes soon: a test waits for that."""
PIPELINE_S = 1200
"""The whole pipeline starts, drives and is killed several times before the first of its tests."""
GROUPS = ("stream", "services", "messages", "pages", "jobs", "demo", "e2e", "dashboard", "unit")
"""What a worker runs in one go, in the order they are taken. Two browsers at once draw maps in software on
the same two cores, and their live pages go on refreshing meanwhile: their groups lie apart. The unit tests
that need neither stack nor Spark come last, file by file, so that workers end at the same time. The demo has
a pipeline of its own: it comes before that of the other tests of the whole, which works on until their end.
"""
STREAM = (
    "test_checkpoints", "test_fleet_silence", "test_instant", "test_log_identity", "test_promotion",
    "test_recompute", "test_replay", "test_stream",
)  # fmt: skip
"""Modules that start applications of Spark: half of the time of those that need services."""
PAGES = ("test_dashboard_outage", "test_dashboard_pages", "test_dashboard_trip_pages")
"""Half of the time that tests of the dashboard take."""
MESSAGES = (
    "test_bridge", "test_broker", "test_crash", "test_dead", "test_downlink", "test_listeners",
    "test_publishers", "test_scenarios", "test_simulat",
)  # fmt: skip
"""Modules of what happens before the jobs: a group of their own, on a stack of their worker's."""


def group_of(nodeid: str) -> str:
    """The group of a test, by its file."""
    room, module = nodeid.partition("::")[0].split("/")[1:3]
    if room == "unit" and module == "stream_jobs":
        return "jobs"
    if module == "test_demo.py":
        return "demo"
    if room != "integration":
        return room if room in GROUPS else "unit"
    if module.startswith("test_dashboard"):
        return "pages" if module.startswith(PAGES) else "dashboard"
    if module.startswith(STREAM):
        return "stream"
    return "messages" if module.startswith(MESSAGES) else "services"


class Groups(LoadScopeScheduling):
    """Workers share the tests in groups: what needs the session's stack stays together, on one stack.

    xdist's own loadgroup writes the group into a test's id; with pytest 9.2 nothing comes of that.
    """

    def _split_scope(self, nodeid: str) -> str:
        group = group_of(nodeid)
        return nodeid.partition("::")[0] if group == "unit" else group


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Groups:
    """Groups go to workers in the order of GROUPS, not by their number of tests."""
    config.option.loadscopereorder = False
    return Groups(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Groups in the order of GROUPS; marks; more time for the whole pipeline."""
    items.sort(key=lambda item: GROUPS.index(group_of(item.nodeid)))
    for item in items:
        if "java" in item.fixturenames:
            item.add_marker("spark")
        if group_of(item.nodeid) in ("demo", "e2e"):
            item.add_marker(pytest.mark.timeout(PIPELINE_S))


@pytest.fixture(scope="session", autouse=True)
def clean_environment() -> Iterator[None]:
    """No setting of the person who runs the tests reaches them, the cache of downloads excepted.

    Java machines are light ones.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith("ODOGRAPH_") and name not in KEPT:
                patch.delenv(name)
        patch.delenv(WITHOUT_BYTECODE, raising=False)
        for name, value in LIGHT_JAVA.items():
            patch.setenv(name, value)
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--services postgres``: enough for the tests of the dashboard, and quick; others need all."""
    parser.addoption("--services", default=",".join(SERVICES), help="services to start, by comma")


@pytest.fixture(scope="session")
def stack(pytestconfig: pytest.Config) -> Iterator[Stack]:
    """The real services in a home of their own, on free ports; gone at the end, even of a killed pytest."""
    only = pytestconfig.getoption("services").split(",")
    home = Path(tempfile.mkdtemp(prefix="odograph-test-"))
    settings = load(paths={"home": str(home)}, kafka={"heap_mb": 512})
    fetch_all(settings.paths.cache, SERVICES)
    begin_to_load()  # while the services start
    with guarded(home, remove=True), pytest.MonkeyPatch.context() as patch:
        quick = home / kafka.TEMPLATE.name
        quick.write_text(kafka.TEMPLATE.read_text().replace("check.interval.ms=60000", QUICK_KAFKA))
        patch.setattr(kafka, "TEMPLATE", quick)
        running = Stack(settings, say=lambda _: None, preferred={}, only=only)
        running.up()
        make_template(running)
        without_fsync(running)
        yield running
        running.down()


@pytest.fixture
def lane(stack: Stack, request: pytest.FixtureRequest) -> Iterator[Lane]:
    """A lane of this test's own through the shared stack."""
    with open_lane(stack, topics="tables" not in request.keywords) as opened:
        yield opened


@pytest.fixture
def topics(lane: Lane) -> Iterator[None]:
    """The topics of a lane that has none by itself."""
    kafka.create_topics(lane.endpoints.kafka_bootstrap, lane.settings.kafka.prefix)
    yield
    kafka.delete_topics(lane.endpoints.kafka_bootstrap, lane.settings.kafka.prefix)
