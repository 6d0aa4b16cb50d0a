"""Rows of layers: made once for all readers, kept while they are shown."""

from __future__ import annotations

import gc
import gzip
import json

import pandas as pd

from dashboard.db import NUMBER
from dashboard.layer_cache import NEWEST, LayerCache


def answer(number: str, values: list[int]) -> pd.DataFrame:
    frame = pd.DataFrame({"n": values})
    frame.attrs[NUMBER] = number
    return frame


def test_all_readers_of_an_answer_have_one_sheet() -> None:
    layers, found = LayerCache(), answer("a", [1, 2])
    assert layers.of(found.copy(deep=False)) is layers.of(found.copy(deep=False))
    assert layers.of(answer("b", [1, 2])) is not layers.of(found)


def test_a_body_is_made_once_for_each_variant() -> None:
    made: list[str] = []

    def build(frame: pd.DataFrame) -> list[int]:
        made.append("once")
        values: list[int] = frame["n"].tolist()
        return values

    rows = LayerCache().of(answer("a", [1, 2]))
    bodies = [rows.body("whole", build) for _ in range(3)]
    assert json.loads(gzip.decompress(bodies[2])) == [1, 2]
    rows.body("part", build)
    assert made == ["once", "once"]


def test_a_sheet_that_someone_shows_outlives_newer_ones_and_an_old_one_goes() -> None:
    layers = LayerCache()
    shown = layers.of(answer("shown", [0]))
    layers.of(answer("gone", [0]))
    for n in range(NEWEST):
        layers.of(answer(f"newer {n}", [n]))
    gc.collect()
    assert layers.get("shown") is shown
    last = layers.get("gone")
    assert last is not None
    assert last.number == f"newer {NEWEST - 1}"


def test_without_any_sheet_there_is_none() -> None:
    assert LayerCache().get("a") is None
