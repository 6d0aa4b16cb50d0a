"""Query results for pages: shared by readers, held through pauses and outages, drawn on maps, and measured.

Twenty readers of one page run the same query every two seconds. Each result is good for a moment; whoever
comes within it gets the same rows, and who comes while the query is under way waits for its result.
Readers who see other vehicles (VehicleScope) share nothing: neither connections nor results nor layers.

A map is given the address of a result's rows: the browser fetches them beside the page's own channel and
keeps drawing the rows before until they are there. They live as long as a session shows them, so a paused
map can still be moved; the last few are kept for browsers that are behind. Rows that another dashboard has
made, behind the same address, are not here: the browser gets those of now.
"""

import gzip
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary

import orjson
import pandas as pd
import streamlit as st
from prometheus_client import CollectorRegistry, Gauge, Histogram

from dashboard.db import NUMBER, Database, P, Query, SlowError, name_of
from infra.contract.errors import ServiceError
from infra.settings import settings as contract
from infra.sql.tenants import session_of

Build = Callable[[pd.DataFrame], Any]
Layer = tuple[str, str]  # the kind of a map's layer (``fleet``, ``traffic``) and the number of its result

CACHED_MOST: Final = 256
LAYERS_KEPT: Final = 6  # results of a kind that are kept though nobody shows them: a browser may still ask
KINDS_KEPT: Final = 64  # kinds of which they are, as each set of vehicles has its own: those made last
GZIP_LEVEL: Final = 1  # the rows shrink eightfold at little cost
HELD_MOST: Final = 64  # results that a session keeps for a pause or an outage
HELD_OF_ONE: Final = 8
"""Of these, of one query: a span that moves with the clock makes another result every few seconds."""
SHARED: Final = 0.5  # a result is good for this share of a refresh: a reader alone always gets a new one
SCOPES_MOST: Final = 256  # sets of vehicles with connections of their own
SLOW_S: Final = 10.0  # refresh of the parts that read an hour of windows, s
SLOW_AGAIN_S: Final = 30.0  # until a query that took too long is run again: readers do not queue for it
RARE_S: Final = 60.0  # how long results of a day, of the whole catalogue, or what hardly changes are good
BOUNDS_S: Final = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 8.0)

# Keys of the session's state, and of a frame's attributes (ASKED).
HELD, AWAY, AWAY_SINCE, OUTAGES, PAUSED = "held", "away", "away_since", "outages", "paused"
TOO_SLOW: Final = "too_slow"
SHOWN: Final = "layer_rows"
ASKED: Final = "asked_s"


@dataclass(slots=True)
class _Result:
    """``until_s`` is in the clock's time; the lock is held while the query is under way."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    until_s: float = 0.0
    found: pd.DataFrame | SlowError | None = None


class LayerRows:
    """The rows of one query result as maps fetch them."""

    def __init__(self, layer: Layer, frame: pd.DataFrame) -> None:
        self.layer, self._frame = layer, frame
        self._lock = threading.Lock()
        self._bodies: dict[str, bytes] = {}

    def body(self, variant: str, build: Build) -> bytes:
        """JSON of what ``build`` makes of the frame, compressed; made once for each ``variant``."""
        with self._lock:
            if variant not in self._bodies:
                self._bodies[variant] = gzip.compress(orjson.dumps(build(self._frame)), GZIP_LEVEL)
            return self._bodies[variant]


class QueryCache:
    """Frames by key. Safe between threads. ``clock`` gives seconds that never go back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = CACHED_MOST) -> None:
        self._clock, self._most = clock, most
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _Result] = OrderedDict()
        self._layers: WeakValueDictionary[Layer, LayerRows] = WeakValueDictionary()
        self._newest: OrderedDict[str, deque[LayerRows]] = OrderedDict()

    def get(self, key: str, good_s: float, run: Callable[[], pd.DataFrame]) -> pd.DataFrame:
        """The result of ``key``, at most ``good_s`` old, as a frame of the caller's own.

        Room for a new one is made of what is no longer good, then of what was asked for longest ago. Raises
        what ``run`` does; a SlowError to all who ask within SLOW_AGAIN_S, without another run.
        """
        with self._lock:
            if key not in self._known:
                now_s = self._clock()
                for name, result in list(self._known.items()):
                    if result.until_s <= now_s and not result.lock.locked():
                        del self._known[name]
                while len(self._known) >= self._most:
                    self._known.popitem(last=False)
            result = self._known.setdefault(key, _Result())
            self._known.move_to_end(key)
        with result.lock:
            if result.found is None or self._clock() >= result.until_s:
                try:
                    result.found = run()
                except SlowError as error:
                    result.found, good_s = error, SLOW_AGAIN_S
                result.until_s = self._clock() + good_s
            if isinstance(result.found, SlowError):
                raise SlowError(str(result.found)) from result.found
            return result.found.copy(deep=False)

    def drop(self, start: str) -> None:
        """Forget the results whose keys begin so; a query under way is answered as it was asked."""
        with self._lock:
            for key in [key for key in self._known if key.startswith(start)]:
                del self._known[key]

    def layer(self, kind: str, frame: pd.DataFrame) -> LayerRows:
        """A result's rows as a layer of this kind, one for all readers; whoever shows them keeps them."""
        layer: Layer = (kind, frame.attrs[NUMBER])
        with self._lock:
            rows = self._layers.get(layer)
            if rows is None:
                rows = self._layers[layer] = LayerRows(layer, frame)
                self._newest.setdefault(kind, deque(maxlen=LAYERS_KEPT)).append(rows)
                self._newest.move_to_end(kind)
                if len(self._newest) > KINDS_KEPT:
                    self._newest.popitem(last=False)
            return rows

    def layer_rows(self, layer: Layer) -> LayerRows | None:
        """Those rows; None where they are no longer kept, or were never here."""
        with self._lock:
            return self._layers.get(layer)

    def has_others(self, layer: Layer) -> bool:
        """Whether readers who see other vehicles have the result of this number."""
        with self._lock:
            return any(number == layer[1] and kind != layer[0] for kind, number in list(self._layers))


def hold(held: dict[str, pd.DataFrame], key: str, result: pd.DataFrame, most: int = HELD_OF_ONE) -> None:
    """Keep a result for a pause or an outage; the oldest go, of one query (before the bracket) and of all."""
    held.pop(key, None)
    held[key] = result
    name = key.partition("(")[0]
    alike = [known for known in held if known.partition("(")[0] == name]
    for known in [*alike[:-most], *list(held)[:-HELD_MOST]]:
        held.pop(known, None)


class Measures:
    """The metrics of one server, in a registry of their own: time of each query and live part, s."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        of: Any = {"namespace": "odograph", "subsystem": "dashboard", "registry": self.registry}
        self.up = Gauge("database_up", "1 while the database answers", **of)
        of["buckets"] = BOUNDS_S
        self.probe_s = Histogram("probe_seconds", "Time of the readiness question to the database", **of)
        asked = "Time of a question to the database"
        self.question_s = Histogram("question_seconds", asked, ["question"], **of)
        drawn = "Time to draw a live part, its questions among it"
        self.part_s = Histogram("part_seconds", drawn, ["part"], **of)


@st.cache_resource(show_spinner=False)
def settings() -> contract.Settings:
    """The settings in force when the server started."""
    return contract.load()


class VehicleScope(NamedTuple):
    """Whose vehicles a reader sees: those of some fleets and those lent to a driver."""

    fleets: tuple[str, ...] = ()
    driver: str = ""


NOBODY: Final = VehicleScope()
SCOPE: Final[ContextVar[VehicleScope | None]] = ContextVar("scope")
"""Of who asks a route; a page's is in its session. None: an operator, who sees all."""
SESSION_SCOPE: Final = "scope"
VIEWED: Final = "vehicle_viewed"  # the one that the session's page is about


def scope() -> VehicleScope | None:
    """Of who asks now; where people sign in, nothing is seen before it is known."""
    found: VehicleScope | None = SCOPE.get(NOBODY)
    if found is not NOBODY or settings().dashboard.oidc is None:
        return None if found is NOBODY else found
    mine: VehicleScope | None = st.session_state.get(SESSION_SCOPE, NOBODY)
    return mine


def database() -> Database:
    """The connections for all readers who see the same vehicles."""
    return _database(scope())


@st.cache_resource(show_spinner=False, max_entries=SCOPES_MOST)
def _database(seen: VehicleScope | None) -> Database:
    tenant = None if seen is None else session_of(seen.fleets, seen.driver)
    place = partial(contract.endpoints, settings(), ("db_dashboard_url",))
    return Database(lambda: place().db_dashboard_url, tenant=tenant)


@st.cache_resource(show_spinner=False)
def cache() -> QueryCache:
    """What the database answered a moment ago, for all readers."""
    return QueryCache()


@st.cache_resource(show_spinner=False)
def measures() -> Measures:
    """What the server measures of itself."""
    return Measures()


def paused() -> bool:
    """Whether the reader holds the page still."""
    return bool(st.session_state.get(PAUSED, False))


def away() -> bool:
    """Whether the database did not answer this reader's last query."""
    return AWAY in st.session_state


def too_slow() -> set[str]:
    """The queries of this reader's page, in words, that took too long when they were last asked."""
    slow: set[str] = st.session_state.setdefault(TOO_SLOW, set())
    return slow


def outages() -> int:
    """How often this reader's session lost the database and found it again."""
    return int(st.session_state.get(OUTAGES, 0))


@dataclass(frozen=True, slots=True)
class Ask:
    """Asks for a page. The rows are shared by readers for ``good_s`` (None: half a refresh).

    While paused, away or too slow they are the last known ones, else None; a session keeps ``most`` results
    of a query.
    """

    good_s: float | None = None
    most: int = HELD_OF_ONE

    def __call__(self, query: Query[P], *args: P.args, **kwargs: P.kwargs) -> pd.DataFrame | None:
        state = st.session_state
        held: dict[str, pd.DataFrame] = state.setdefault(HELD, {})
        key = _key(query, *args, **kwargs)
        if paused() and key in held:
            return held[key]
        good_s = self.good_s or settings().dashboard.refresh_s * SHARED
        result = _answer(query, lambda: cache().get(key, good_s, later(query, *args, **kwargs)))
        if result is None:
            return held.get(key)
        back = result.attrs[ASKED] > state.get(AWAY_SINCE, 0.0)  # an older one does not prove it
        if back and state.pop(AWAY, None) is not None:
            state[OUTAGES] = outages() + 1
        hold(held, key, result, self.most)
        return result


def _answer(query: Callable[..., Any], run: Callable[[], pd.DataFrame]) -> pd.DataFrame | None:
    """The rows that ``run`` gives. Without an answer none; the header line says then what is missing."""
    slow = too_slow()
    slow.discard(name_of(query))
    try:
        return run()
    except SlowError:
        slow.add(name_of(query))
    except ServiceError as error:
        st.session_state[AWAY], st.session_state[AWAY_SINCE] = str(error), time.monotonic()
    return None


ask: Final = Ask()
ask_slowly: Final = Ask(SLOW_S)  # what reads an hour of windows
ask_large: Final = Ask(SLOW_S, 1)  # about what is past: its last result only is kept
ask_rarely: Final = Ask(RARE_S)  # what reads a day, or hardly changes


def ask_for_all(query: Query[[]], good_s: float) -> pd.DataFrame:
    """As pages have the rows, for whoever is no page. Raises ServiceError."""
    return cache().get(_key(query), good_s, later(query))


def run_now(query: Query[P], *args: P.args, **kwargs: P.kwargs) -> pd.DataFrame:
    """The rows of this moment, for whoever is no page; how long it took is measured. Raises ServiceError."""
    asked_s = time.monotonic()
    with measures().question_s.labels(query.__name__).time():
        rows = database().run(query, *args, **kwargs)
    rows.attrs[ASKED] = asked_s
    return rows


def later(query: Query[P], *args: P.args, **kwargs: P.kwargs) -> Callable[[], pd.DataFrame]:
    """The query, to be run by whoever wants its rows, as who asked for it; raises ServiceError then."""
    asked_by = scope()

    def run() -> pd.DataFrame:
        with acting(asked_by):
            return run_now(query, *args, **kwargs)

    return run


@contextmanager
def acting(seen: VehicleScope | None) -> Iterator[None]:
    """In the block all is asked as who sees this."""
    token = SCOPE.set(seen)
    try:
        yield
    finally:
        SCOPE.reset(token)


def scoped(kind: str) -> str:
    """A kind of layer as who asks now may have it: rows of others are not found under it."""
    return f"{kind}{scope() or ''}"


def fetch(query: Query[P], *args: P.args, **kwargs: P.kwargs) -> pd.DataFrame | None:
    """The rows, not kept; None where there was no answer."""
    return _answer(query, later(query, *args, **kwargs))


def forget(*queries: Callable[..., pd.DataFrame]) -> None:
    """Let these be run anew for everybody, for this session also while paused: something was changed."""
    held: dict[str, pd.DataFrame] = st.session_state.setdefault(HELD, {})
    for start in (f"{_name(query)}(" for query in queries):
        cache().drop(start)
        for key in [key for key in held if key.startswith(start)]:
            del held[key]


def _key(query: Query[P], *args: P.args, **kwargs: P.kwargs) -> str:
    return f"{_name(query)}{args}{sorted(kwargs.items())}{scope() or ''}"


def _name(query: Callable[..., pd.DataFrame]) -> str:
    return f"{query.__name__}.{id(query)}"  # two pages may have queries of one name


def shown(kind: str, frame: pd.DataFrame) -> str:
    """The number of a result's rows; this session keeps them until it shows others of the kind."""
    kept: dict[str, LayerRows] = st.session_state.setdefault(SHOWN, {})
    kept[kind] = cache().layer(scoped(kind), frame)
    return kept[kind].layer[1]
