"""What errors of the database are about, and the deadline of one that accepts and never answers."""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack
from typing import Any, NoReturn

import psycopg
import pytest

from infra.clients.db import Cause, cause_of, described, open_connection, socket_deadline


def error_of(sqlstate: str) -> psycopg.Error:
    return psycopg.errors.lookup(sqlstate)("it went wrong")


@pytest.mark.parametrize(
    ("sqlstate", "cause"),
    [
        ("08006", Cause.AWAY),  # connection failure
        ("57P01", Cause.AWAY),  # admin shutdown
        ("57P03", Cause.AWAY),  # cannot connect now
        ("53100", Cause.AWAY),  # disk full
        ("53200", Cause.AWAY),  # out of memory
        ("53300", Cause.AWAY),  # too many connections
        ("25006", Cause.AWAY),  # read only, after a failover
        ("40001", Cause.BUSY),  # serialization failure
        ("40P01", Cause.BUSY),  # deadlock
        ("55P03", Cause.BUSY),  # lock not available
        ("57014", Cause.BUSY),  # statement timeout
        ("53400", Cause.DATA),  # tuple decompression limit exceeded
        ("54000", Cause.DATA),  # index row requires 40048 bytes
        ("22021", Cause.DATA),  # U+0000 in a text
        ("22003", Cause.DATA),  # number out of range
        ("23514", Cause.DATA),  # a CHECK
        ("P0001", Cause.DATA),  # raised by a trigger
        ("42P01", Cause.SETUP),  # no such table
        ("42501", Cause.SETUP),  # no right to it
        ("28P01", Cause.SETUP),  # wrong password
        ("3D000", Cause.SETUP),  # no such database
    ],
)
def test_a_sqlstate_says_what_helps(sqlstate: str, cause: Cause) -> None:
    assert cause_of(error_of(sqlstate)) is cause


def test_without_a_sqlstate_a_broken_link_is_waited_for_and_a_value_that_cannot_be_sent_is_not() -> None:
    assert cause_of(psycopg.OperationalError("server closed the connection")) is Cause.AWAY
    assert cause_of(psycopg.InterfaceError("the connection is closed")) is Cause.AWAY
    assert cause_of(psycopg.DataError("PostgreSQL text fields cannot contain NUL")) is Cause.DATA


def test_an_error_is_described_in_one_line_with_its_sqlstate() -> None:
    too_long = psycopg.errors.lookup("54000")("index row requires 40048 bytes,\nmaximum size is 8191")
    assert described(too_long) == "54000: index row requires 40048 bytes, maximum size is 8191"


class Asked(psycopg.Connection[Any]):
    """Tells what it was to connect by."""

    @classmethod
    def connect(cls, conninfo: str = "", **driver: Any) -> NoReturn:
        raise psycopg.OperationalError(driver)


@pytest.mark.parametrize(
    ("parameters", "asked"),
    [
        ("", {"options": "-c timezone=UTC -c role=r -c statement_timeout=7000", "connect_timeout": 3}),
        ("?options=-c%20search_path%3Dx%20-c%20role%3Dy&connect_timeout=9",
         {"options": "-c search_path=x -c role=y -c timezone=UTC -c role=r -c statement_timeout=7000",
          "connect_timeout": "9"}),
    ],
)  # fmt: skip
def test_what_an_address_asks_for_is_kept_before_what_we_ask_for(
    parameters: str, asked: dict[str, Any]
) -> None:
    terms: dict[str, Any] = {"statement_timeout_s": 7, "session": {"role": "r"}}
    with pytest.raises(psycopg.OperationalError) as told:
        open_connection(f"postgresql://me@h/d{parameters}", Asked, **terms)
    assert told.value.args == (asked,)


def test_no_name_under_which_somebody_signs_in_adds_an_option() -> None:
    with pytest.raises(psycopg.OperationalError) as told:
        open_connection("postgresql://me@h/d", Asked, actor="a\\b c\t-c\nrole=none", connect_timeout_s=None)
    assert told.value.args[0]["options"].endswith(" -c odograph.actor=a\\\\b\\ c\\\t-c\\\nrole=none")


def test_times_come_in_utc_whatever_zone_the_database_or_its_role_has() -> None:
    with pytest.raises(psycopg.OperationalError) as told:
        open_connection("postgresql://me@h/d", Asked)
    assert told.value.args == ({"options": "-c timezone=UTC", "connect_timeout": 3},)


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
