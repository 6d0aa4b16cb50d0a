"""Short forms of the drills on the tests' services: an honest bridge passes, one with a defect does not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from infra.stack.stack import Stack
from load_tests.drills.bridge_faults import Kills, f1
from load_tests.drills.flow import Load
from load_tests.drills.payload_faults import f16
from load_tests.drills.site import Site
from load_tests.drills.verdict import Verdict
from load_tests.hostile.run import Wanted, hostile
from tests.forked_site import ForkedSite
from tests.support import open_lane

pytestmark = pytest.mark.integration

LOAD = Load(rate=800, duration_s=2)
KILLS = Kills(every_frames=500, at_most=2)


@pytest.fixture
def site(stack: Stack) -> Iterator[Site]:
    with open_lane(stack, bridge={"max_in_flight": 1000}) as lane:
        place = ForkedSite(lane.home, lane.settings, lane.endpoints, lane.env, stack)
        yield place
        place.end_programs()


def broken(verdict: Verdict) -> list[str]:
    return [promise.text for promise in verdict.promises if not promise.holds]


def test_f1_a_bridge_killed_twice_loses_nothing_and_keeps_the_order(site: Site) -> None:
    verdict = f1(site, LOAD, KILLS)
    assert broken(verdict) == []
    assert (verdict.figures["generated"], verdict.figures["kills"]) == (1600, 2)


def test_f1_sees_a_bridge_that_acknowledges_before_it_produces(site: Site) -> None:
    verdict = f1(site, LOAD, KILLS, mutant="ack-before-produce")
    assert broken(verdict) == ["0 lost"]


def test_f16_all_poison_is_dead_lettered_with_its_reason_and_nothing_else(site: Site) -> None:
    verdict = f16(site, Load(rate=400, duration_s=2), pairs=1, timed=False)
    assert broken(verdict) == []
    assert (verdict.figures["generated"], verdict.figures["lost"]) == (1600, 0)
    assert verdict.figures["poison"] > 20


def test_twenty_thousand_hostile_messages_end_nothing_and_each_is_accounted_for(site: Site) -> None:
    verdict = hostile(site, Wanted(20_000, rate=0, files=0, seed=17, spark=False))
    assert broken(verdict) == []
    assert verdict.figures["messages"] >= 20_000
