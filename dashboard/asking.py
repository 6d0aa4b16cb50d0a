"""Asking for a page: answers shared by readers, held through pauses and outages, and measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec

import pandas as pd
import streamlit as st

from dashboard.answers import Answers, hold
from dashboard.measures import Measures
from dashboard.queries import Connection, Database
from infra.contract.errors import ServiceError
from infra.settings import settings as contract

P = ParamSpec("P")
Query = Callable[Concatenate[Connection, P], pd.DataFrame]

HELD: Final = "held"
AWAY: Final = "away"
AWAY_SINCE: Final = "away_since"
ASKED: Final = "asked_s"
OUTAGES: Final = "outages"
PAUSED: Final = "paused"
SHARED: Final = 0.5
"""An answer is good for this share of a refresh: a reader alone always gets a new one."""
SLOW_S: Final = 10.0
"""Refresh of the parts that read an hour of windows, s."""
RARE_S: Final = 60.0
"""How long an answer is good that reads a day, or the whole catalogue, or what hardly changes, s."""


@st.cache_resource(show_spinner=False)
def settings() -> contract.Settings:
    """The settings in force when the server started."""
    return contract.load()


@st.cache_resource(show_spinner=False)
def database() -> Database:
    """One set of connections for all readers."""
    return Database(lambda: contract.endpoints(settings()).db_dashboard_url)


@st.cache_resource(show_spinner=False)
def answers() -> Answers:
    """What the database said a moment ago, for all readers."""
    return Answers()


@st.cache_resource(show_spinner=False)
def measures() -> Measures:
    """What the server measures of itself."""
    return Measures()


def paused() -> bool:
    """Whether the reader holds the page still."""
    return bool(st.session_state.get(PAUSED, False))


def every(seconds: float | None = None) -> float | None:
    """Interval of a live part, s; none while paused."""
    return None if paused() else max(seconds or 0.0, settings().dashboard.refresh_s)


def outages() -> int:
    """How often this reader's session lost the database and found it again."""
    return int(st.session_state.get(OUTAGES, 0))


def part(body: Callable[..., None], seconds: float | None = None, *args: Any, still: bool = False) -> None:
    """Draw a live part, now and again every ``seconds`` (``every``); how long it took is measured.

    ``args`` are the body's. ``still``: what it draws does not change any more, so only a click draws it anew.
    """
    name = f"{Path(body.__code__.co_filename).stem}.{body.__name__}"

    def timed() -> None:
        with measures().part_s.labels(name).time():
            body(*args)

    timed.__qualname__ = timed.__name__ = body.__name__  # Streamlit tells fragments apart by their names
    st.fragment(timed, run_every=None if still else every(seconds))()


def ask(query: Query[P], *args: P.args, **kwargs: P.kwargs) -> pd.DataFrame | None:
    """The database's answer; the last one known while paused or while it is away; else None.

    Readers who ask the same within half a refresh get one answer.
    """
    return _answer(_shared_s(), query, *args, **kwargs)


def ask_slowly(query: Query[P], *args: P.args, **kwargs: P.kwargs) -> pd.DataFrame | None:
    """As ``ask``, but an answer is good for SLOW_S, for all readers: for what reads an hour of windows."""
    return _answer(SLOW_S, query, *args, **kwargs)


def ask_rarely(query: Query[P], *args: P.args, **kwargs: P.kwargs) -> pd.DataFrame | None:
    """As ``ask``, but an answer is good for RARE_S: for what reads a day, or hardly changes."""
    return _answer(RARE_S, query, *args, **kwargs)


def _answer(good_s: float, query: Query[P], *args: P.args, **kwargs: P.kwargs) -> pd.DataFrame | None:
    held: dict[str, pd.DataFrame] = st.session_state.setdefault(HELD, {})
    key = f"{_name(query)}{args}{sorted(kwargs.items())}"
    if paused() and key in held:
        return held[key]

    def question() -> pd.DataFrame:
        asked_s = time.monotonic()
        with measures().question_s.labels(query.__name__).time(), database().connection() as connection:
            rows = query(connection, *args, **kwargs)
        rows.attrs[ASKED] = asked_s
        return rows

    try:
        answer = answers().of(key, good_s, question)
    except ServiceError as error:
        st.session_state[AWAY] = str(error)
        st.session_state[AWAY_SINCE] = time.monotonic()
        return held.get(key)
    since_s = st.session_state.get(AWAY_SINCE, 0.0)
    if answer.attrs[ASKED] > since_s:  # an older one does not tell that the database is back
        _is_back()
    hold(held, key, answer)
    return answer


def until_answered(query: Query[P], *args: P.args, **kwargs: P.kwargs) -> None:
    """Draw the page anew once the database answers this: for a part that is no live one."""

    def again() -> None:
        if ask(query, *args, **kwargs) is not None:
            st.rerun()

    if AWAY in st.session_state:
        st.fragment(again, run_every=settings().dashboard.refresh_s)()


def forget(*queries: Callable[..., pd.DataFrame]) -> None:
    """Let these be asked anew by everybody, by this session also while paused: something was done."""
    held: dict[str, pd.DataFrame] = st.session_state.setdefault(HELD, {})
    for name in map(_name, queries):
        answers().drop(f"{name}(")
        for key in [key for key in held if key.startswith(f"{name}(")]:
            del held[key]


def _name(query: Callable[..., pd.DataFrame]) -> str:
    return f"{query.__module__}.{query.__name__}"


def _shared_s() -> float:
    return settings().dashboard.refresh_s * SHARED


def _is_back() -> None:
    if st.session_state.pop(AWAY, None) is not None:
        st.session_state[OUTAGES] = outages() + 1
