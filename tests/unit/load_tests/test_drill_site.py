"""What drills do to programs and how they look at them, on a site of no services."""

from __future__ import annotations

import errno
import os
import signal
import socket
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from infra.contract.errors import ServiceError
from load_tests.drills import small_disk
from load_tests.drills.link import Link
from load_tests.drills.site import Site
from load_tests.drills.watch import Sample, Watch

SLEEP = ("sleep", "60")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    nothing: Any = SimpleNamespace(runner=SimpleNamespace(find=lambda _: None))
    endpoints: Any = SimpleNamespace(http_ports={"bridge": 1})
    settings: Any = None
    return Site(tmp_path, settings, endpoints, dict(os.environ), nothing)


def test_a_fault_for_what_does_not_run_is_an_error_and_none_of_the_drill_itself(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[int, int]] = []
    for name in ("kill", "killpg"):
        monkeypatch.setattr(os, name, lambda pid, number: sent.append((pid, number)))
    for fault in (site.kill, site.kill_group, lambda name: site.paused(name).__enter__()):
        with pytest.raises(ServiceError, match="kafka does not run"):
            fault("kafka")
    assert sent == []


def test_a_program_is_stopped_also_before_its_pid_file_is_there(site: Site) -> None:
    child = site.start("bridge", SLEEP)
    (site.run_dir / "bridge.pid").unlink(missing_ok=True)
    assert site.stop("bridge") == -signal.SIGTERM
    assert child.poll() is not None
    assert site.stop("never started") is None


def test_a_program_that_goes_on_is_an_error_that_names_its_log(site: Site) -> None:
    site.start("f3", SLEEP)
    with pytest.raises(ServiceError, match=r"f3 does not end within 0\.1 s; log: .*/logs/f3\.log"):
        site.ended("f3", 0.1)
    site.end_programs()


def test_a_recovery_ends_with_the_first_record_stored_after_the_fault(site: Site) -> None:
    watch = Watch(site)
    for at_s, produced in ((9.9, 100.0), (10.2, 150.0), (30.1, 150.0), (33.4, 151.0)):
        watch.samples.append(Sample(at_s, 7, {"produced_total": produced}, 0.0))
    assert watch.recovery_s(150.0, healed_s=30.0) == 3.4
    assert watch.recovery_s(151.0, healed_s=30.0) is None


def test_a_disk_is_filled_though_others_write_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    rooms = iter((1000, 900, 5))

    def allocate(_descriptor: int, _begin: int, length: int) -> None:
        taken.append(length)
        if len(taken) == 1:
            raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(small_disk, "_room", lambda _folder: next(rooms))
    monkeypatch.setattr(os, "posix_fallocate", allocate)
    small_disk.fill(tmp_path, 50)
    assert taken == [950, 850]


def test_a_link_that_refuses_lets_no_connection_through_that_was_under_way() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, Link(*server.getsockname()) as link:
        reached = link._reached

        def slowly() -> socket.socket:
            found = reached()
            link.refuse()  # between the connection and its note
            return found

        link._reached = slowly  # type: ignore[method-assign]
        with socket.create_connection(("127.0.0.1", link.port)) as client:
            client.settimeout(5)
            assert client.recv(1) == b""
        until_s = time.monotonic() + 5
        while link.open and time.monotonic() < until_s:
            time.sleep(0.01)
        assert link.open == {}
