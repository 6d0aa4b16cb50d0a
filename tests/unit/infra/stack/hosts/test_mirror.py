"""What MirrorMaker is told, what a copy lacks, and what runs in a region that waits."""

from __future__ import annotations

import signal
import subprocess
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from infra.clients.leases import Term
from infra.contract.errors import ConfigError, ServiceError
from infra.settings.settings import Endpoints, load
from infra.stack.hosts import mirror, regions
from infra.stack.stack import Stack, http_parts


def test_topics_keep_their_names_and_only_one_direction_is_copied() -> None:
    lines = mirror.config(("A", "a:1,a:2"), ("B", "b:1?ca=/ca&cert=/us"), "x.", 3).splitlines()
    told = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
    assert told["A.bootstrap.servers"] == "a:1,a:2"
    assert told["B.bootstrap.servers"] == "b:1"
    assert told["B.ssl.truststore.location"] == "/ca"
    assert told["replication.policy.class"].endswith(".IdentityReplicationPolicy")
    assert (told["A->B.enabled"], told["B->A.enabled"]) == ("true", "false")
    topics = told["A->B.topics"].replace("\\\\", "\\").split(",")
    assert {r"x\.telemetry", r"x\.crash", r"x\.status", r"x\.alerts"} <= {*topics}
    assert not any("clock" in topic or "policy" in topic for topic in topics)
    assert told["B.offset.storage.replication.factor"] == "3"


def test_a_copy_lacks_what_the_log_still_holds_beyond_what_it_has() -> None:
    spans = {
        ("telemetry", 0): (0, 10), ("telemetry", 1): (0, 5), ("crash", 0): (0, 2), ("alerts", 0): (0, 0),
        ("alerts", 1): (7, 7), ("status", 0): (4, 6),
    }  # fmt: skip
    copied = {("telemetry", 0): 7, ("telemetry", 1): 5}
    lacking = mirror.behind(spans, copied)
    assert lacking == {("telemetry", 0): (7, 10), ("crash", 0): (0, 2), ("status", 0): (4, 6)}
    assert (
        str(regions.Uncopied("A", "telemetry", 0, 7, 10, False)) == "telemetry 0: 7 to 9 of A, not here yet"
    )


@pytest.mark.parametrize(
    ("name", "other"),
    [("", "B=h:1"), ("A", "A=h:1"), ("A", "B"), ("A", "B=h"), ("A", "B=h:1,"), ("A", "B C=h:1")],
)
def test_the_other_region_has_a_name_of_its_own_and_an_address(name: str, other: str) -> None:
    with pytest.raises(ConfigError, match="ODOGRAPH_REGION"):
        load(region={"name": name, "other": other})


def test_in_a_region_that_waits_no_broker_runs_and_no_program_but_the_mirror(tmp_path: Path) -> None:
    settings = load(paths={"home": str(tmp_path)}, region={"name": "B", "other": "A=h:1,h:2"})
    assert (settings.region.other_name, settings.region.other_kafka) == ("A", "h:1,h:2")
    stack = Stack(settings, print)
    assert "mosquitto" in stack.embedded
    assert {"jobs", "mirror"} <= {program.name for program in stack.programs()}
    (tmp_path / regions.PASSIVE_FILE).touch()
    assert stack.embedded == ("postgres", "kafka")
    assert [program.name for program in stack.programs()] == ["mirror"]
    assert [*stack.pages()] == ["mirror"]
    assert http_parts(settings)[-1] == "mirror"
    assert "mirror" not in http_parts(load(paths={"home": str(tmp_path)}))


class Following:
    """Region A, which acted; what `failover --follow` asks and does there, where B acts, is noted."""

    def __init__(self, home: Path, patch: pytest.MonkeyPatch) -> None:
        self.settings = load(paths={"home": str(home)}, region={"name": "A", "other": "B=h:1"})
        self.copies_to, self.did, self.ends_in = "B", list[str](), ""
        where = Endpoints("", 0, "a:1", "owner", "", "")
        patch.setattr(regions, "endpoints", lambda *_: where)
        patch.setattr(regions, "role", lambda _: regions.Role("B", self.copies_to))
        patch.setattr(regions, "_copy_to", self._copy_to)
        patch.setattr(mirror, "forget", lambda *_: self._do("forget"))
        for name in ("_require_whole", "_until_mirror_ended", "delete_topics", "create_topics"):
            patch.setattr(regions, name, lambda *_, name=name: self._do(name))

    def _copy_to(self, to: str, *_: str) -> None:
        self.copies_to = to
        self._do(f"copy to {to or 'none'}")

    def _do(self, what: str) -> None:
        if what == self.ends_in:
            raise ServiceError(what)
        self.did.append(what)

    def follow(self) -> list[str]:
        self.did.clear()
        regions.follow(self.settings, 0.0, print)
        return self.did


@pytest.mark.parametrize("ends_in", ["_until_mirror_ended", "delete_topics", "forget", "create_topics"])
def test_a_log_that_was_seen_to_be_whole_elsewhere_is_begun_anew_wherever_that_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends_in: str
) -> None:
    region = Following(tmp_path, monkeypatch)
    with pytest.raises(ConfigError, match="may still write to the log; first, here: odograph up"):
        region.follow()
    (tmp_path / regions.PASSIVE_FILE).touch()
    region.ends_in = ends_in
    with pytest.raises(ServiceError, match=ends_in):
        region.follow()
    assert (region.did[0], region.copies_to) == ("_require_whole", "")
    region.ends_in = ""
    again = ["copy to none", "_until_mirror_ended", "delete_topics", "forget", "create_topics", "copy to A"]
    assert region.follow() == again
    region.copies_to = "B"  # it has acted again since
    assert region.follow() == ["_require_whole", *again]


@dataclass
class Time:
    """A lease that ends in so long, s."""

    left_s: float


def fenced(left: Time) -> AbstractContextManager[subprocess.Popen[bytes]]:
    return mirror.fenced(("sleep", "600"), cast(Term, left))


@pytest.mark.slow
def test_mirrormaker_goes_on_while_the_lease_is_renewed_and_no_longer() -> None:
    left = Time(1.5)  # time enough for a starved machine to renew it
    with fenced(left) as child:
        left.left_s = 60.0
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(2.5)
        left.left_s = 0.0
        assert child.wait(10) == -signal.SIGKILL


def test_mirrormaker_is_killed_at_the_end_of_the_lease_while_our_own_process_stands_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mirror, "FENCE_S", 600.0)
    with fenced(Time(0.5)) as child:
        assert child.wait(10) == -signal.SIGKILL


def test_mirrormaker_that_is_to_end_is_asked_to() -> None:
    with fenced(Time(60.0)) as child:
        pass
    assert child.returncode == -signal.SIGTERM
