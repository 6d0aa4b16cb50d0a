"""Questions about what is past: large answers, of which a session keeps the last one only, or none.

``live.ask`` keeps the last answers to many questions, which fits the small frames of now.
"""

from __future__ import annotations

import time
from typing import Any, Final

import pandas as pd
import streamlit as st

from dashboard.asking import AWAY, SLOW_S, P, Query, database, measures, paused
from infra.contract.errors import ServiceError

LAST: Final = "past_answers"


def fetch(query: Query[P], *args: P.args, **kwargs: P.kwargs) -> pd.DataFrame | None:
    """The database's answer, not kept; None while the database is away."""
    try:
        with measures().question_s.labels(query.__name__).time(), database().connection() as connection:
            return query(connection, *args, **kwargs)
    except ServiceError as error:
        st.session_state[AWAY] = str(error)
        return None


def ask(query: Query[P], *args: P.args, **kwargs: P.kwargs) -> pd.DataFrame | None:
    """The answer, kept until the same question has other words; asked again after SLOW_S.

    While paused, or while the database is away, the kept one.
    """
    kept: dict[str, tuple[Any, float, pd.DataFrame]] = st.session_state.setdefault(LAST, {})
    words = (args, sorted(kwargs.items()))
    known = kept.get(query.__name__)
    same = known[2] if known is not None and known[0] == words else None
    if same is not None and known is not None and (paused() or _fresh(known[1])):
        return same
    answer = fetch(query, *args, **kwargs)
    if answer is None:
        return same
    kept[query.__name__] = (words, time.monotonic(), answer)
    return answer


def _fresh(asked_s: float) -> bool:
    return time.monotonic() - asked_s < SLOW_S
