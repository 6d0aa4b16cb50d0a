"""Results shared by readers: asked once, good for a while, never many."""

from __future__ import annotations

import gc
import gzip
import json
import threading
from collections.abc import Callable, Iterator

import pandas as pd
import pytest

from dashboard.db import NUMBER, SlowError
from dashboard.query_cache import (
    HELD_MOST,
    HELD_OF_ONE,
    KINDS_KEPT,
    LAYERS_KEPT,
    SLOW_AGAIN_S,
    QueryCache,
    hold,
)
from infra.contract.errors import ServiceError


@pytest.fixture(autouse=True)
def copy_on_write() -> Iterator[None]:
    """As in the server."""
    with pd.option_context("mode.copy_on_write", True):
        yield


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def counting() -> tuple[list[int], Callable[[], pd.DataFrame]]:
    asked: list[int] = []

    def question() -> pd.DataFrame:
        asked.append(1)
        return pd.DataFrame({"n": [len(asked)]})

    return asked, question


def test_within_its_time_an_answer_is_asked_for_once() -> None:
    clock = Clock()
    cache = QueryCache(clock)
    asked, question = counting()
    first = cache.get("key", 2.0, question)
    clock.now_s += 1.9
    second = cache.get("key", 2.0, question)
    clock.now_s += 0.1
    third = cache.get("key", 2.0, question)
    assert [frame["n"].tolist() for frame in (first, second, third)] == [[1], [1], [2]]
    assert len(asked) == 2


def test_other_questions_have_other_answers() -> None:
    cache = QueryCache(Clock())
    _, question = counting()
    cache.get("a", 2.0, question)
    assert cache.get("b", 2.0, question)["n"].tolist() == [2]


def test_a_failed_question_is_asked_again() -> None:
    cache = QueryCache(Clock())

    def fails() -> pd.DataFrame:
        raise ServiceError("away")

    with pytest.raises(ServiceError):
        cache.get("key", 2.0, fails)
    assert cache.get("key", 2.0, counting()[1])["n"].tolist() == [1]


def test_a_question_that_took_too_long_keeps_nobody_waiting_again_for_a_while() -> None:
    clock = Clock()
    cache = QueryCache(clock)
    asked, question = counting()

    def slow() -> pd.DataFrame:
        question()
        raise SlowError("trips took too long")

    for waited_s, runs in ((0.0, 1), (SLOW_AGAIN_S - 0.1, 1), (0.1, 2)):
        clock.now_s += waited_s
        with pytest.raises(SlowError, match="trips took too long"):
            cache.get("key", 2.0, slow)
        assert len(asked) == runs
    clock.now_s += SLOW_AGAIN_S
    assert cache.get("key", 2.0, question)["n"].tolist() == [3]


def test_a_reader_who_changes_its_rows_changes_nothing_for_others() -> None:
    cache = QueryCache(Clock())
    _, question = counting()
    mine = cache.get("key", 2.0, question)
    mine["mine"] = mine["n"] + 1
    mine.loc[0, "n"] = 7
    assert cache.get("key", 2.0, question).to_dict("list") == {"n": [1]}


def test_who_comes_while_a_question_is_under_way_waits_for_its_answer() -> None:
    cache = QueryCache(Clock())
    asked, question = counting()
    entered, go_on = threading.Event(), threading.Event()

    def slow() -> pd.DataFrame:
        entered.set()
        go_on.wait(60)
        return question()

    readers = [threading.Thread(target=cache.get, args=("key", 2.0, slow)) for _ in range(3)]
    readers[0].start()
    assert entered.wait(60)
    for reader in readers[1:]:
        reader.start()
    go_on.set()
    for reader in readers:
        reader.join(10)
    assert len(asked) == 1


def test_answers_that_are_no_longer_good_go_with_the_next_new_question() -> None:
    clock = Clock()
    cache = QueryCache(clock)
    _, question = counting()
    for key in ("a", "b", "c"):
        cache.get(key, 2.0, question)
    clock.now_s += 5
    cache.get("d", 2.0, question)
    assert len(cache._known) == 1


def test_of_many_good_answers_the_one_asked_for_longest_ago_goes() -> None:
    cache = QueryCache(Clock(), most=2)
    asked, question = counting()
    for key in ("a", "b", "c", "b", "c"):
        cache.get(key, 2.0, question)
    assert (len(cache._known), len(asked)) == (2, 3)


def test_a_question_under_way_is_not_forgotten_for_another() -> None:
    cache = QueryCache(Clock())
    asked, question = counting()

    def slow() -> pd.DataFrame:
        cache.get("b", 2.0, question)
        return question()

    cache.get("a", 2.0, slow)
    assert cache.get("a", 2.0, question)["n"].tolist() == [2]
    assert len(asked) == 2


def test_a_session_holds_the_newest_answers_of_each_question() -> None:
    held: dict[str, pd.DataFrame] = {}
    rows = pd.DataFrame()
    hold(held, "queries.vehicle('V1',)[]", rows)
    for minute in range(100):
        hold(held, f"queries.history('V1', {minute})[]", rows)
    assert list(held) == [
        "queries.vehicle('V1',)[]",
        *(f"queries.history('V1', {minute})[]" for minute in range(100 - HELD_OF_ONE, 100)),
    ]
    for number in range(HELD_MOST):
        hold(held, f"queries.question{number}()[]", rows)
    assert len(held) == HELD_MOST
    assert "queries.vehicle('V1',)[]" not in held


def answer(number: str, values: list[int]) -> pd.DataFrame:
    frame = pd.DataFrame({"n": values})
    frame.attrs[NUMBER] = number
    return frame


def test_all_readers_of_an_answer_share_one_layer() -> None:
    layers, found = QueryCache(Clock()), answer("a", [1, 2])
    assert layers.layer("fleet", found.copy(deep=False)) is layers.layer("fleet", found.copy(deep=False))
    assert layers.layer("fleet", answer("b", [1, 2])) is not layers.layer("fleet", found)


def test_a_body_is_made_once_for_each_variant() -> None:
    made: list[str] = []

    def build(frame: pd.DataFrame) -> list[int]:
        made.append("once")
        values: list[int] = frame["n"].tolist()
        return values

    rows = QueryCache(Clock()).layer("fleet", answer("a", [1, 2]))
    bodies = [rows.body("whole", build) for _ in range(3)]
    assert json.loads(gzip.decompress(bodies[2])) == [1, 2]
    rows.body("part", build)
    assert made == ["once", "once"]


def test_a_layer_that_someone_shows_outlives_newer_ones_and_an_old_one_goes() -> None:
    layers = QueryCache(Clock())
    shown = layers.layer("fleet", answer("shown", [0]))
    layers.layer("fleet", answer("gone", [0]))
    for n in range(LAYERS_KEPT):
        layers.layer("fleet", answer(f"newer {n}", [n]))
    gc.collect()
    assert layers.layer_rows(("fleet", "shown")) is shown
    assert layers.layer_rows(("fleet", "gone")) is None
    assert layers.layer_rows(("fleet", "newer 0")) is not None
    for n in range(KINDS_KEPT):
        layers.layer(f"fleet of {n}", answer("theirs", [n]))
    gc.collect()
    there = [kind for kind, _ in layers._layers]
    assert (len(there), there.count("fleet")) == (KINDS_KEPT + 1, 1)
    assert layers.layer_rows(("fleet", "shown")) is shown


def test_rows_that_other_readers_have_are_known_as_theirs() -> None:
    layers = QueryCache(Clock())
    kept = layers.layer("fleet south", answer("1", [0]))
    asked = (("fleet north", "1"), ("fleet south", "1"), ("fleet north", "2"), ("fleet north", ""))
    assert [layers.has_others(layer) for layer in asked] == [True, False, False, False]
    assert layers.layer_rows(("fleet north", "1")) is None
    assert kept.layer == ("fleet south", "1")


def test_without_any_layer_there_is_none() -> None:
    assert QueryCache(Clock()).layer_rows(("fleet", "a")) is None
