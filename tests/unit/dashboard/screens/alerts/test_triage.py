"""The list of alerts while somebody works on it."""

from __future__ import annotations

import pandas as pd

from dashboard.screens.alerts.tables import Held, held, in_order, neighbour


def test_a_list_that_nobody_works_on_is_always_the_newest() -> None:
    assert held([3, 1, 2], [4, 3, 1], still=False) == Held((4, 3, 1), 0)


def test_a_list_stands_still_while_an_alert_is_open_and_counts_the_newcomers() -> None:
    assert held([3, 1, 2], [4, 5, 3, 1], still=True) == Held((3, 1, 2), 2)


def test_a_list_opened_by_a_link_has_no_order_to_keep_yet() -> None:
    assert held([], [4, 3], still=True) == Held((4, 3), 0)


def test_rows_come_in_the_order_that_stands_and_none_is_doubled() -> None:
    rows = pd.DataFrame({"alert_no": [4, 1, 3, 3], "rule": ["d", "a", "c", "c"]})
    assert in_order(rows, [3, 9, 1])["rule"].tolist() == ["c", "a"]


def test_the_neighbours_end_at_the_list_and_an_alert_outside_leads_to_its_first() -> None:
    assert [neighbour([7, 5, 6], current, 1) for current in (7, 5, 6, 99, None)] == [5, 6, None, 7, 7]
    assert [neighbour([7, 5, 6], current, -1) for current in (7, 6)] == [None, 5]
    assert neighbour([], None, 1) is None
