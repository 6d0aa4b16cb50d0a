"""Connections to the views: which are used again."""

from __future__ import annotations

import socket

import psycopg
import pytest

from dashboard import db
from infra.contract.errors import ConfigError, ServiceError


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
    for error, told in (
        (ConfigError("the day has not begun"), ConfigError),  # whoever asked had no use for the rows
        (psycopg.OperationalError("the server closed it"), ServiceError),
        (ConfigError("the day has not begun"), ConfigError),
    ):
        with pytest.raises(told), database.connection():
            raise error
    database.close()
    assert [(len(made), one.closed) for one in made] == [(2, True), (2, True)]
