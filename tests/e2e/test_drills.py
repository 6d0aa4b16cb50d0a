"""Short forms of drills that need the whole pipeline, on that of the end-to-end tests."""

from __future__ import annotations

import pytest

from infra.stack.stack import Stack
from load_tests.drills.alert_faults import differences, due, promises, read_on
from load_tests.drills.evidence import Log
from load_tests.drills.site import Site
from tests.e2e.support import CLEAR_FOR_S, Drive
from tests.forked_site import ForkedSite
from tests.support import Lane, eventually

pytestmark = pytest.mark.e2e


def site_of(pipeline: Lane, stack: Stack) -> Site:
    return ForkedSite(pipeline.home, pipeline.settings, pipeline.endpoints, pipeline.env, stack)


def test_f9_alert_query_and_event_store_are_killed_and_each_alert_is_there_exactly_once(
    pipeline: Lane, stack: Stack, drive: Drive
) -> None:
    site = site_of(pipeline, stack)
    log = Log(site.settings, site.endpoints)
    eventually(lambda: read_on(site, log), 300, "query and store have read on to the ends of their topics")
    wanted, vehicles = due(drive.folder.parent.parent, drive.folder.name)
    found = differences(site, wanted, vehicles, CLEAR_FOR_S)
    assert [promise for promise in promises(found) if not promise.holds] == []
    assert {finding.rule for finding in wanted.values()} == {"drill_fast", "drill_load", "drill_crash"}
    assert len(vehicles) == drive.summary["vehicles"]
