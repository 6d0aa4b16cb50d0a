"""A group of drills: each in its turn, one that fails to end is told and the next one follows, one table."""

from __future__ import annotations

import pytest

from infra.contract.errors import ConfigError, ServiceError
from load_tests.drills import runner
from load_tests.drills.catalogue import CLUSTER, Drill
from load_tests.drills.verdict import Promise, Verdict, table


def test_the_drills_of_several_hosts_run_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    def one(drill: Drill, *_: object) -> Verdict:
        if drill.name == "c2":
            raise ServiceError("no executor")
        if drill.name == "c9":
            raise TimeoutError("no answer")
        return Verdict(drill.name, (Promise("0 lost", True, "0 of 5"),), {"generated": 5, "lost": 0})

    monkeypatch.setattr(runner, "_one", one)
    said: list[str] = []
    verdicts = [*runner.carried_out("cluster", runner.Wanted(), said.append)]
    assert [verdict.drill for verdict in verdicts] == [f"c{number}" for number in range(1, 11)]
    assert [verdict.drill for verdict in verdicts if not verdict.passed] == ["c2", "c9"]
    assert not any(verdict.seen for verdict in verdicts)
    assert Verdict("c1", (Promise("0 lost", False, "5 of 5"),), {}, "one-copy").seen
    lines = table(verdicts).splitlines()
    assert lines[1].split() == ["c1", "PASS", "0", "5", "0", "-", "-", "1", "of", "1"]
    assert lines[2].endswith("it comes to its end: no executor")
    assert lines[9].endswith("it comes to its end: TimeoutError: no answer")
    with pytest.raises(ServiceError, match="no executor"):
        next(runner.carried_out("c2", runner.Wanted(), said.append))
    with pytest.raises(ConfigError, match="no drill c11"):
        next(runner.carried_out("c11", runner.Wanted(), said.append))
    assert all(drill.mutants for drill in CLUSTER)


def test_a_group_takes_no_mutant() -> None:
    for group in ("all", "cluster", "mutants"):
        with pytest.raises(ConfigError, match=f"no-fifo: it is put into one drill, not into {group}"):
            next(runner.carried_out(group, runner.Wanted(mutant="no-fifo"), print))
