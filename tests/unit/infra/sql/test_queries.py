"""A span is refreshed a day at a time."""

from __future__ import annotations

from datetime import UTC, datetime

from infra.sql.queries import pieces


def at(day: int, hour: int) -> datetime:
    return datetime(2026, 11, day, hour, tzinfo=UTC)


def test_a_span_is_cut_into_days_of_which_the_last_is_shorter() -> None:
    assert pieces(at(1, 6), at(3, 8)) == [(at(1, 6), at(2, 6)), (at(2, 6), at(3, 6)), (at(3, 6), at(3, 8))]


def test_a_span_whose_windows_are_all_gone_has_no_pieces() -> None:
    assert pieces(at(3, 8), at(3, 8)) == pieces(at(4, 0), at(3, 8)) == []
