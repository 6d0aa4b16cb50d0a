"""Reports as aligned columns."""

from __future__ import annotations

from datetime import UTC, datetime

from infra.clients.tables import aligned, rendered, table


def test_columns_are_as_wide_as_their_longest_cell_and_numbers_are_flush_right() -> None:
    rows = [("a", 12345, 2.34, "x"), ("bcd", 7, None, "")]
    assert aligned(rows) == "a    12,345  2.3  x\nbcd       7    -"


def test_formats_stand_beside_the_heads() -> None:
    rows = [("V1", 1.234, "up"), ("V22", 10.0, "down")]
    wanted = "vehicle     km  state\nV1        1.23     up\nV22      10.00   down"
    assert aligned(rows, {"vehicle": "", "km": ".2f", "state": ">"}) == wanted


def test_what_a_vehicle_has_said_moves_no_cursor_and_breaks_no_line() -> None:
    assert aligned([("a\x1b[2J\nb\x9b1m", 1)]) == "a [2J b 1m  1"


def test_without_rows_there_are_the_heads_alone() -> None:
    assert aligned([], ("a", "bc"), indent="  ") == "  a  bc"
    assert aligned([]) == ""


def test_times_and_truth_are_written_for_people() -> None:
    assert aligned([(datetime(2026, 11, 20, 8, tzinfo=UTC), True)]) == "2026-11-20 08:00:00  yes"


def test_a_rendered_table_has_numbers_flush_right_and_texts_as_they_are() -> None:
    shown = rendered(table("name", "n", rows=[("a", 5), ("[auth], [/x]", 1000)])).split("\n")
    assert [line.rstrip() for line in shown[1:3]] == ["a                 5", "[auth], [/x]  1,000"]
