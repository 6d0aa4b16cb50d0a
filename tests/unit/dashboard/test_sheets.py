"""Sheets: made once for all readers, kept while they are shown."""

from __future__ import annotations

import gc
import gzip
import json

import pandas as pd

from dashboard.queries import NUMBER
from dashboard.sheets import GRACE, Sheets


def answer(number: str, values: list[int]) -> pd.DataFrame:
    frame = pd.DataFrame({"n": values})
    frame.attrs[NUMBER] = number
    return frame


def test_all_readers_of_an_answer_have_one_sheet() -> None:
    sheets, found = Sheets(), answer("a", [1, 2])
    assert sheets.of(found.copy(deep=False)) is sheets.of(found.copy(deep=False))
    assert sheets.of(answer("b", [1, 2])) is not sheets.of(found)


def test_a_body_is_made_once_for_each_variant() -> None:
    made: list[str] = []

    def build(frame: pd.DataFrame) -> list[int]:
        made.append("once")
        values: list[int] = frame["n"].tolist()
        return values

    sheet = Sheets().of(answer("a", [1, 2]))
    bodies = [sheet.body("whole", build) for _ in range(3)]
    assert json.loads(gzip.decompress(bodies[2])) == [1, 2]
    sheet.body("part", build)
    assert made == ["once", "once"]


def test_a_sheet_that_someone_shows_outlives_newer_ones_and_an_old_one_goes() -> None:
    sheets = Sheets()
    shown = sheets.of(answer("shown", [0]))
    sheets.of(answer("gone", [0]))
    for n in range(GRACE):
        sheets.of(answer(f"newer {n}", [n]))
    gc.collect()
    assert sheets.get("shown") is shown
    last = sheets.get("gone")
    assert last is not None
    assert last.number == f"newer {GRACE - 1}"


def test_without_any_sheet_there_is_none() -> None:
    assert Sheets().get("a") is None
