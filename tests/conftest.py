"""Fixtures on the real stack: one stack a session, one lane a test."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.contract.settings import load
from infra.stack.fetch import fetch_all
from infra.stack.guard import guarded
from infra.stack.progress import Progress
from infra.stack.stack import SERVICES, Stack
from tests.support import Lane, make_template, open_lane

KEPT = ("ODOGRAPH_PATHS_CACHE",)
PIPELINE_S = 600
"""The whole pipeline starts, drives and is killed several times before the first of its tests."""
GROUPS = ("services", "messages", "unit", "e2e")
"""What a worker runs in one go, the longest first."""
MESSAGES = (
    "test_bridge", "test_broker", "test_crash", "test_dead", "test_downlink", "test_listeners",
    "test_publishers", "test_scenarios", "test_simulat",
)  # fmt: skip
"""Modules of what happens before the jobs: a group of their own, on a stack of their worker's."""


@pytest.hookimpl(tryfirst=True)  # before the workers read the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Two workers share the tests in groups: what needs the session's stack stays together, on one stack."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))
        if _group(item) == "e2e":
            item.add_marker(pytest.mark.timeout(PIPELINE_S))
    items.sort(key=lambda item: GROUPS.index(_group(item)))


def _group(item: pytest.Item) -> str:
    if item.get_closest_marker("e2e"):
        return "e2e"
    if item.get_closest_marker("integration"):
        return "messages" if item.path.name.startswith(MESSAGES) else "services"
    return "unit"


@pytest.fixture(scope="session")
def clean_environment() -> Iterator[None]:
    """No setting of the person who runs the tests reaches them, the cache of downloads excepted."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith("ODOGRAPH_") and name not in KEPT:
                patch.delenv(name)
        yield


@pytest.fixture(scope="session")
def stack(clean_environment: None) -> Iterator[Stack]:
    """The real services in a home of their own, on free ports; gone at the end, even of a killed pytest."""
    home = Path(tempfile.mkdtemp(prefix="odograph-test-"))
    settings = load(paths={"home": str(home)}, kafka={"heap_mb": 512})
    fetch_all(settings.paths.cache, Progress(), SERVICES)
    with guarded(home, remove=True):
        running = Stack(settings, say=lambda _: None, preferred={})
        running.up()
        make_template(running)
        yield running
        running.down()


@pytest.fixture
def lane(stack: Stack) -> Iterator[Lane]:
    """A lane of this test's own through the shared stack."""
    with open_lane(stack) as opened:
        yield opened
