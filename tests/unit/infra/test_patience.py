"""A limit for a server that accepts and never answers."""

from __future__ import annotations

import socket

import pytest

from infra.contract.patience import at_most


def test_a_reader_who_waits_too_long_is_told_that_the_connection_ended() -> None:
    here, there = socket.socketpair()
    with here, there, at_most(here.fileno(), 0.02) as wait:
        assert here.recv(1) == b""
        assert wait.over


def test_an_answer_in_time_leaves_the_connection_as_it_was() -> None:
    here, there = socket.socketpair()
    with here, there:
        with at_most(here.fileno(), 60) as wait:
            there.sendall(b"a")
            assert here.recv(1) == b"a"
        assert not wait.over
        there.sendall(b"b")
        assert here.recv(1) == b"b"


def test_an_error_of_the_block_comes_through_and_its_limit_is_gone() -> None:
    here, there = socket.socketpair()
    with here, there:
        with pytest.raises(ValueError, match="mine"), at_most(here.fileno(), 60):
            raise ValueError("mine")
        there.sendall(b"c")
        assert here.recv(1) == b"c"
