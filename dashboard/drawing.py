"""A chart whose description is kept and whose rows travel: what a live part draws every few seconds.

Altair makes and checks a description in 15 to 60 ms of CPU, in part under a lock that all readers share. A
live chart's description hardly ever changes, so it is made once for all; a refresh costs what its rows cost.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import Any, Final, ParamSpec, cast

import altair as alt
import pandas as pd

P = ParamSpec("P")
Window = tuple[pd.Timestamp, pd.Timestamp]

KEPT: Final = 256
"""Descriptions of a kind of chart that are kept, at most."""
FOREIGN: Final = ("$schema", "config", "data", "datasets")
"""What Altair adds: the page has a theme of its own, and rows that no layer may cover with empty ones."""
SPAN: Final = ("since", "until")
"""Stands in a description for the ends of the time shown, which no description keeps."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A description (Vega-Lite, JSON) and the rows that it draws; ``window``: the ends of its axis of time.

    ``told`` is said to whoever cannot see it.
    """

    description: str
    rows: pd.DataFrame
    told: str
    window: Window | None = None

    @property
    def spec(self) -> dict[str, Any]:
        """The description as Vega-Lite takes it, over this window; without rows."""
        text = self.description
        for name, end in zip(SPAN, self.window or (), strict=False):
            text = text.replace(json.dumps(f"@{name}"), json.dumps(end.isoformat()))
        spec: dict[str, Any] = json.loads(text)
        return spec


def described(build: Callable[P, alt.Chart | alt.LayerChart]) -> Callable[P, str]:
    """``build`` as a function that gives the description, made once for each set of arguments.

    The chart is built without data: its rows come with the drawing. Arguments are hashable.
    """

    @wraps(build)
    def make(*args: P.args, **kwargs: P.kwargs) -> str:
        spec = build(*args, **kwargs).to_dict()
        for part in (spec, *spec.get("layer", [])):
            for name in FOREIGN:
                part.pop(name, None)
        return json.dumps(spec)

    return cast(Callable[P, str], lru_cache(KEPT)(make))


def span_scale(spanned: bool) -> alt.Scale:
    """Of an axis of time: from end to end of the drawing's window, or of its rows."""
    return alt.Scale(domain=[f"@{name}" for name in SPAN], nice=False) if spanned else alt.Scale()
