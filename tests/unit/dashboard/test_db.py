"""Connections to the views: which are used again."""

from __future__ import annotations

import socket

import psycopg
import pytest

from dashboard import db
from infra.contract.errors import ConfigError, OdographError


class Answering:
    """A connection to a database that answers."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.closed = False

    def fileno(self) -> int:
        return self.ours.fileno()

    def execute(self, _: str) -> None:
        assert not self.closed

    def close(self) -> None:
        self.closed = True
        for end in (self.ours, self.theirs):
            end.close()


def test_a_connection_is_used_again_but_after_an_error_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Answering] = []

    def opened(*_: object, **__: object) -> Answering:
        made.append(Answering())
        return made[-1]

    monkeypatch.setattr(db, "open_connection", opened)
    database = db.Database(lambda: "")
    no_use = ConfigError("whoever asked has no use for the rows")
    too_slow = psycopg.errors.QueryCanceled("canceling statement due to statement timeout")
    errors = (no_use, too_slow, psycopg.OperationalError("the server closed the connection"), no_use)
    for error, opened_so_far in zip(errors, (1, 1, 1, 2), strict=True):
        with pytest.raises(OdographError), database.connection():
            raise error
        assert len(made) == opened_so_far
    database.close()
    assert [one.closed for one in made] == [True, True]
