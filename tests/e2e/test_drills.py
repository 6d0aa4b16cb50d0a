"""The short form of a drill that goes through to the windows, on the end-to-end tests' pipeline."""

from __future__ import annotations

import pytest

from infra.stack.stack import Stack
from load_tests.drills.aggregates import balanced
from load_tests.drills.evidence import Log
from load_tests.drills.flow import Load, finish
from load_tests.drills.site import Site
from load_tests.drills.vehicle_faults import judge_ahead
from tests.support import Lane

pytestmark = pytest.mark.e2e


def test_f15_frames_stamped_years_ahead_are_quarantined_and_cost_no_honest_one(
    pipeline: Lane, stack: Stack
) -> None:
    site = Site(pipeline.home, pipeline.settings, pipeline.endpoints, pipeline.env, stack)
    log = Log(site.settings, site.endpoints)
    log.begin_here("telemetry")
    before = balanced(site)
    load = Load(rate=60, duration_s=6, seed=15)
    site.simulate("f15", *load.arguments("--clock-ahead", "0.02"))
    finish(site, "f15", 120)
    verdict = judge_ahead(site, log, "f15", before)
    assert [promise.text for promise in verdict.promises if not promise.holds] == []
    assert verdict.figures["generated"] == 360
    assert verdict.figures["offenders"] == verdict.figures["quarantined"] > 0
