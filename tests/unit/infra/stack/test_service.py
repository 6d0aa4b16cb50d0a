"""Which port a part of the stack gets."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.settings.settings import load
from infra.stack import service
from infra.stack.stack import Stack


@pytest.fixture
def busy() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def test_a_fixed_port_is_taken_as_it_is_even_when_busy(busy: int) -> None:
    assert service.choose_port(busy, kept=None, preferred=0, taken=()) == busy


def test_the_kept_port_comes_before_the_preferred_one() -> None:
    kept, preferred = service.free_port(), service.free_port()
    assert service.choose_port(0, kept, preferred, taken=()) == kept


def test_a_busy_kept_port_gives_way_to_the_preferred_one(busy: int) -> None:
    preferred = service.free_port()
    assert service.choose_port(0, kept=busy, preferred=preferred, taken=()) == preferred


def test_with_all_else_busy_any_free_port_is_found(busy: int) -> None:
    found = service.choose_port(0, kept=busy, preferred=busy, taken=())
    assert found in service.FREE_RANGE
    assert service.port_is_free(found)


def test_two_parts_never_get_one_port() -> None:
    kept = service.free_port()
    assert service.choose_port(0, kept, kept, taken=(kept,)) != kept


def test_the_holder_of_a_busy_port_is_named_with_its_pid(busy: int) -> None:
    assert service.port_holder(busy).endswith(f"(pid {os.getpid()})")


def test_ports_that_were_never_kept_are_none(tmp_path: Path) -> None:
    assert Stack(load(paths={"home": tmp_path}), print).ports() == {}
