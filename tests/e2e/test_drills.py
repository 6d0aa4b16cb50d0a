"""Short forms of drills that need the whole pipeline, on that of the end-to-end tests."""

from __future__ import annotations

import pytest

from infra.stack.stack import Stack
from load_tests.drills.aggregates import balanced
from load_tests.drills.alert_faults import differences, due, promises, read_on
from load_tests.drills.evidence import Log
from load_tests.drills.flow import Load, finish
from load_tests.drills.site import Site
from load_tests.drills.vehicle_faults import judge_ahead
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


def test_f15_frames_stamped_years_ahead_are_quarantined_and_cost_no_honest_one(
    pipeline: Lane, stack: Stack
) -> None:
    site = site_of(pipeline, stack)
    log = Log(site.settings, site.endpoints)
    log.begin_here("telemetry")
    before = balanced(site, 60)
    load = Load(rate=60, duration_s=6, seed=15)
    site.simulate("f15", *load.arguments("--clock-ahead", "0.02"))
    finish(site, "f15", 300)
    verdict = judge_ahead(site, log, "f15", before)
    assert [promise.text for promise in verdict.promises if not promise.holds] == []
    assert verdict.figures["generated"] == 360
    assert verdict.figures["offenders"] == verdict.figures["quarantined"] > 0
