"""Which errors of the database are waited for, which are tried again, and which are a row's own."""

from __future__ import annotations

import psycopg
import pytest

from infra.clients.db import Cause, cause_of, described


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
