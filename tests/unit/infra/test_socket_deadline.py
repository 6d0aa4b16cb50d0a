"""A limit for a server that accepts and never answers."""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack

import pytest

from infra.clients.db import socket_deadline


def test_a_reader_who_waits_too_long_is_told_that_the_connection_ended() -> None:
    here, there = socket.socketpair()
    with here, there, socket_deadline(here.fileno(), 0.02) as wait:
        assert here.recv(1) == b""
        assert wait.over


def test_an_answer_in_time_leaves_the_connection_as_it_was() -> None:
    here, there = socket.socketpair()
    with here, there:
        with socket_deadline(here.fileno(), 60) as wait:
            there.sendall(b"a")
            assert here.recv(1) == b"a"
        assert not wait.over
        there.sendall(b"b")
        assert here.recv(1) == b"b"


def test_an_error_of_the_block_comes_through_and_its_limit_is_gone() -> None:
    here, there = socket.socketpair()
    with here, there:
        with pytest.raises(ValueError, match="mine"), socket_deadline(here.fileno(), 60):
            raise ValueError("mine")
        there.sendall(b"c")
        assert here.recv(1) == b"c"


def test_a_short_wait_within_a_long_one_ends_first() -> None:
    one, two = socket.socketpair(), socket.socketpair()
    with ExitStack() as open_ones:
        for end in (*one, *two):
            open_ones.enter_context(end)
        with socket_deadline(one[0].fileno(), 60) as long:
            with socket_deadline(two[0].fileno(), 0.02) as short:
                assert two[0].recv(1) == b""
            one[1].sendall(b"d")
            assert one[0].recv(1) == b"d"
        assert (short.over, long.over) == (True, False)


def test_each_of_many_waits_at_once_ends_by_itself_without_a_thread_of_its_own() -> None:
    pairs = [socket.socketpair() for _ in range(20)]
    with ExitStack() as open_ones:
        for pair in pairs:
            for end in pair:
                open_ones.enter_context(end)
        threads = threading.active_count()
        waits = [
            open_ones.enter_context(socket_deadline(here.fileno(), 0.3 - 0.01 * n))
            for n, (here, _) in enumerate(pairs)
        ]
        assert threading.active_count() <= threads + 1
        for here, _ in pairs:
            assert here.recv(1) == b""
        assert all(wait.over for wait in waits)
