"""Alert rules: data with Spark SQL expressions, read from a YAML file; needs no Spark.

Instant rules see one frame or crash record. Stateful rules (query ``vehicles``) have a kind, which remembers
a bounded amount of each vehicle. Seconds are event time unless said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BeforeValidator, TypeAdapter, ValidationError

from infra.contract.errors import ConfigError
from infra.contract.incidents import JOIN_MS, Causes, Terms
from infra.contract.messages import SEVERITIES
from infra.contract.signals import BY_NAME
from infra.settings.files import read_yaml

SHIPPED: Final = Path(__file__).with_name("rules.yaml")
SOURCES: Final = ("frame", "crash")
QUERIES: Final = ("instant", "vehicles")
INSTANT, VEHICLES = QUERIES
CLEAR_FOR_S: Final = 60.0
"""Seconds of event time without a finding that clear an alert whose rule does not say."""
GAP_S: Final = 120.0  # two frames further apart than this say nothing of the time between them
DAYS_MAX_S: Final = 90 * 86_400
PER_S: Final = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86_400.0}
POINTS_MAX: Final = 1000
FENCES_MAX: Final = 200
RADIUS_MAX_M: Final = 500_000.0
NO_VALUE: Final = "CAST(NULL AS DOUBLE)"  # the value of rules whose kind makes one itself
MOMENTS: Final = ("count", "geofence", "silence", "clone")
"""Kinds that find moments by themselves: they take no `limit`, need no `value`, and `while_for_s` says
nothing to them, since moments need not last.
"""
UNTIMED: Final = ("silence", "geofence")
"""Kinds whose alerts end when their detector says so, not by a time without findings."""
UNARMED: Final = ("geofence", "silence", "clone")
"""Kinds that look at frames whatever their flags, or at what does not come: they take no `while`."""
_WORD: Final = re.compile(r"[a-z_][a-z0-9_]*", re.IGNORECASE)
Gives = Literal["BOOLEAN", "DOUBLE", "VARCHAR[]"]  # what an expression must give, as DuckDB calls it
Check = Callable[[Any], Any]
"""Gives the value as the program has it; raises ValueError saying what is allowed."""
Made = TypeVar("Made")


def check_of(holds: Check, refusal: str, made: Check = lambda value: value) -> Check:
    """A check that ``holds``; ``refusal`` has the place ``{!r}`` for the value."""

    def check(value: Any) -> Any:
        if not holds(value):
            raise ValueError(refusal.format(value))
        return made(value)

    return check


def number(least: float, most: float) -> Check:
    """A number in a range; NaN is in none."""
    refusal = f"{{!r}} is not a number in {least:.10g}..{most:.10g}"
    return check_of(lambda value: type(value) in (int, float) and least <= value <= most, refusal, float)


def whole(least: int, most: int) -> Check:
    """A whole number in a range."""
    refusal = f"{{!r}} is not a whole number in {least}..{most}"
    return check_of(lambda value: type(value) is int and least <= value <= most, refusal)


def one_of(words: Iterable[str]) -> Check:
    """One of a few words."""
    known = tuple(words)
    return check_of(lambda value: value in known, f"{{!r}} is none of {', '.join(known)}", str)


def name_of(length: int) -> Check:
    """A name of at most ``length`` letters."""
    pattern = re.compile(rf"[a-z][a-z0-9_]{{0,{length - 1}}}")
    refusal = "is not a name of a-z, 0-9 and _ that starts with a letter"
    return check_of(lambda value: isinstance(value, str) and pattern.fullmatch(value), refusal)


text: Final = check_of(
    lambda value: isinstance(value, str) and value.strip(), "{!r} is not a text", lambda value: value.strip()
)
"""A text that is not empty, without the space around it."""
_mapping: Final = check_of(lambda value: isinstance(value, dict), "{!r} is not keys and values")
_flag: Final = check_of(lambda value: type(value) is bool, "{!r} is neither true nor false")
_names: Final = check_of(
    lambda value: isinstance(value, list) and all(isinstance(name, str) and name for name in value),
    "{!r} is not a list of names", tuple,
)  # fmt: skip
Text = Annotated[str, BeforeValidator(text)]
Flag = Annotated[bool, BeforeValidator(_flag)]
OptionalText = Annotated[str | None, BeforeValidator(text)]
Severity = Annotated[str, BeforeValidator(one_of(SEVERITIES))]
Seconds = Annotated[float, BeforeValidator(number(0, DAYS_MAX_S))]
Span = Annotated[float, BeforeValidator(number(1, DAYS_MAX_S))]
_LEVEL: Final = number(-1e9, 1e9)


@dataclass(frozen=True, slots=True)
class Level:
    """Beyond the limit for ``raise_for_s``; each frame's value, or with ``mean_s`` the mean of so long."""

    raise_for_s: Seconds = 0.0
    mean_s: Seconds = 0.0


@dataclass(frozen=True, slots=True)
class Slope:
    """The value's change over ``span_s``, per ``per_s`` s, beyond the limit by ``sure`` standard errors."""

    span_s: Span
    per_s: Annotated[float, BeforeValidator(lambda value: PER_S[one_of(PER_S)(value)])]
    sure: Annotated[float, BeforeValidator(number(0, 10))] = 0.0


@dataclass(frozen=True, slots=True)
class Baseline:
    """The value against the vehicle's own history, by name where the rule has names.

    ``by``: ``z`` in standard deviations, ``share`` of it, ``difference``. ``against``: ``mean`` (moving, with
    the time constant ``memory_s``) or a quantile ``p01`` to ``p99`` of all that was learned. Pauses
    up to ``pause_s``, in which the condition lets no frame be judged, do not begin ``raise_for_s`` anew.
    ``resolution``: what the value is rounded to, a signal's by the contract, adds to the deviation of ``z``.
    """

    raise_for_s: Seconds = 0.0
    by: Annotated[str, BeforeValidator(one_of(("z", "share", "difference")))] = "z"
    against: Annotated[str, BeforeValidator(one_of(("mean", "p01", "p05", "median", "p95", "p99")))] = "mean"
    warm_up: Annotated[int, BeforeValidator(whole(5, 10_000_000))] = 300
    memory_s: Span = 604_800.0
    steady_s: Seconds = 0.0
    mean_s: Seconds = 0.0
    pause_s: Seconds = 0.0
    resolution: Annotated[float, BeforeValidator(number(0, 1e9))] = 0.0


@dataclass(frozen=True, slots=True)
class Count:
    """At least ``times`` beginnings within ``span_s``; absent for ``absent_s``, it begins anew.

    ``apart``: each name is an alert of its own. ``reversal``: what counts is each time that the value, having
    fallen by so much, rises by so much while the condition holds.
    """

    times: Annotated[int, BeforeValidator(whole(1, 32))] = 1
    span_s: Span = 86_400.0
    absent_s: Seconds = 5.0
    apart: Flag = False
    reversal: Annotated[float | None, BeforeValidator(number(1e-9, 1e9))] = None


@dataclass(frozen=True, slots=True)
class Fence:
    """A circle (``radius_m`` around its one point) or a polygon of at least 3 points (lat, lon), degrees."""

    name: str
    points: tuple[tuple[float, float], ...]
    radius_m: float | None = None


@dataclass(frozen=True, slots=True)
class Geofence:
    """In (``enter``) or out of (``exit``) a fence; a border is crossed ``margin_m`` beyond it."""

    fences: tuple[Fence, ...]
    on: Annotated[str, BeforeValidator(one_of(("enter", "exit")))] = "enter"
    margin_m: Annotated[float, BeforeValidator(number(0, 10_000))] = 50.0


@dataclass(frozen=True, slots=True)
class Silence:
    """Nothing received for ``silent_for_s`` of the receive clock after a frame where the condition held."""

    silent_for_s: Span


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The very same value for ``raise_for_s`` and in at least ``frames`` frames.

    ``follows``: Spark SQL above 0 that moves the value, by ``per_fold`` where its mean over ``lag_s`` grows
    e-fold. A value stands still only once that should have moved it ``swings`` times by MOVES of its sensor's
    steps: ``resolution``, the signal's in the contract where it is left out.
    """

    raise_for_s: Span
    frames: Annotated[int, BeforeValidator(whole(2, 100_000))] = 30
    follows: OptionalText = None
    per_fold: Annotated[float, BeforeValidator(number(1e-9, 1e9))] = 1.0
    lag_s: Span = 20.0
    swings: Annotated[int, BeforeValidator(whole(1, 100))] = 3
    resolution: Annotated[float | None, BeforeValidator(number(1e-9, 1e9))] = None


@dataclass(frozen=True, slots=True)
class Clone:
    """Two boots whose sample times and receive times both overlap by more than ``overlap_s``."""

    overlap_s: Span = 30.0


_SPECS: Final = (Level, Slope, Baseline, Count, Geofence, Silence, Unchanged, Clone)
KINDS: Final[dict[str, type]] = {spec.__name__.lower(): spec for spec in _SPECS}
_MORE: Final = {
    "level": ("clear", "escalate"), "slope": ("clear", "escalate"), "geofence": ("fences_file",),
    "baseline": ("learn", "clear", "escalate"),
}  # fmt: skip
"""Keys of a kind besides its fields."""


@dataclass(frozen=True, slots=True)
class Stateful:
    """What a rule of the query ``vehicles`` has besides its expressions.

    ``clear``: Spark SQL (plain level) that ends it; ``clear_level``: a number for kinds with a value of their
    own. ``armed``: Spark SQL (`while` in the file) that must have held for ``armed_for_s`` before the rule is
    raised; pauses of up to ``armed_pause_s`` do not begin that anew.
    ``escalate``: further limits with their severities, from the nearest on.
    """

    spec: Level | Slope | Baseline | Count | Geofence | Silence | Unchanged | Clone
    clear: str | None = None
    clear_level: float | None = None
    armed: OptionalText = None
    armed_for_s: Seconds = 0.0
    armed_pause_s: Seconds = 0.0
    learn: OptionalText = None
    names: OptionalText = None
    gap_s: Span = GAP_S
    escalate: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. ``condition``, ``value`` and ``limit`` are Spark SQL over the columns of ``source``.

    ``limit`` and ``beyond`` are None together: then the condition alone decides. ``clear_for_s`` None: the
    alert does not clear by itself.
    """

    id: Annotated[str, BeforeValidator(name_of(64))]
    version: Annotated[int, BeforeValidator(whole(1, 2**31 - 1))]
    severity: Severity
    source: Annotated[str, BeforeValidator(one_of(SOURCES))]
    condition: Text
    value: Text
    limit: str | None
    beyond: str | None
    clear_for_s: float | None
    message: Text
    query: Annotated[str, BeforeValidator(one_of(QUERIES))] = INSTANT
    stateful: Stateful | None = None

    def summary(self) -> dict[str, Any]:
        """The rule in short; ``kind`` is ``frame`` for instant rules."""
        kind = "frame" if self.stateful is None else type(self.stateful.spec).__name__.lower()
        return {
            "id": self.id, "version": self.version, "severity": self.severity, "query": self.query,
            "kind": kind, "source": self.source, "beyond": self.beyond, "limit": self.limit,
            "clear_for_s": self.clear_for_s, "message": self.message,
        }  # fmt: skip

    def expressions(self) -> list[tuple[str, str, Gives]]:
        """Each expression: its key in the file, its text, and what it must give."""
        more = self.stateful or Stateful(Level())
        found: list[tuple[str, str | None, Gives]] = [
            ("condition", self.condition, "BOOLEAN"), ("value", self.value, "DOUBLE"),
            ("limit", self.limit, "DOUBLE"), ("clear", more.clear, "BOOLEAN"),
            ("while", more.armed, "BOOLEAN"), ("learn", more.learn, "BOOLEAN"),
            ("names", more.names, "VARCHAR[]"), ("follows", self.follows(), "DOUBLE"),
        ]  # fmt: skip
        return [(key, sql, gives) for key, sql, gives in found if sql is not None]

    def follows(self) -> str | None:
        """What the value of kind unchanged has to follow, if the rule says."""
        spec = self.stateful and self.stateful.spec
        return spec.follows if isinstance(spec, Unchanged) else None

    def words(self) -> set[str]:
        """Every word of the expressions: the columns it reads are among them."""
        return {word for _, sql, _ in self.expressions() for word in _WORD.findall(sql)}


@dataclass(frozen=True, slots=True)
class Fleet:
    """So many vehicles whose alerts of a cause open within ``within_s`` are one incident of the fleet."""

    vehicles: Annotated[int, BeforeValidator(whole(2, 1_000_000))]
    within_s: Span


@dataclass(frozen=True, slots=True)
class Cause:
    """What an incident is of. ``codes``: parts of rules, as trouble codes, which go before the rule."""

    cause: Annotated[str, BeforeValidator(name_of(64))]
    rules: Annotated[tuple[str, ...], BeforeValidator(_names)]
    codes: Annotated[tuple[str, ...], BeforeValidator(_names)] = ()
    join_s: Span = JOIN_MS / 1000
    fleet: Fleet | None = None

    def terms(self) -> Terms:
        """How far apart what is one incident may be."""
        many = self.fleet or Fleet(0, 0)
        return Terms(round(1000 * self.join_s), many.vehicles or None, round(1000 * many.within_s))


@dataclass(frozen=True, slots=True)
class Entry:
    """Keys and values of one entry; an error names the ``file`` ("rules file PATH"), what it is ("rule"), its
    ``name`` and the key.
    """

    file: str
    kind: str
    name: str
    values: Mapping[str, Any]
    folder: Path = Path()

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def wrong(self, key: str, reason: str) -> ConfigError:
        """The error that says where something is wrong."""
        return ConfigError(f"{self.file}, {self.kind} {self.name}: `{key}` {reason}")

    def check_keys(self, required: Iterable[str], optional: Iterable[str]) -> None:
        """All of ``required`` are there, and nothing that is unknown."""
        known = dict.fromkeys((*required, *optional))
        for key in self.values:
            if key not in known:
                raise self.wrong(str(key), f"is unknown; known: {', '.join(known)}")
        for key in required:
            if key not in self:
                raise self.wrong(key, "is missing")

    def checked(self, key: str, check: Check) -> Any:
        """The value of ``key``, None where it is left out; raises ConfigError."""
        try:
            return check(self.values.get(key))
        except ValueError as error:
            raise self.wrong(key, str(error)) from error

    def read(self, form: type[Made], given: dict[str, Any]) -> Made:
        """A dataclass out of the keys that are its fields, checked by their types; ``given`` ones are not."""
        keys = _keys(form)
        own = {name: self.values[key] for name, key in keys.items() if key in self}
        try:
            made: Made = _adapter(form).validate_python(own | given)
            return made
        except ValidationError as failure:
            error = failure.errors()[0]
        key = keys[str(error["loc"][0])]
        if error["type"] == "missing":
            needs = f": kind {self.values['kind']} needs it" if "kind" in self else ""
            raise self.wrong(key, f"is missing{needs}")
        raise self.wrong(key, str(error.get("ctx", {}).get("error", error["msg"])))


_adapter: Final[Callable[[Any], TypeAdapter[Any]]] = cache(TypeAdapter)
_KEY_OF: Final = {
    "armed": "while", "armed_for_s": "while_for_s", "armed_pause_s": "while_pause_s", "per_s": "per",
}  # fmt: skip
"""Keys of the rules file that are not the fields' names."""


def _keys(form: Any) -> dict[str, str]:
    """The keys in a file by the names of a dataclass's fields."""
    return {each.name: _KEY_OF.get(each.name, each.name) for each in fields(form)}


def of_query(rules: Iterable[Rule], query: str) -> tuple[Rule, ...]:
    """The rules of one query."""
    return tuple(rule for rule in rules if rule.query == query)


def load_rules(path: Path | None = None) -> tuple[Rule, ...]:
    """The rules in ``path``, or those that ship; raises ConfigError naming file, rule and key."""
    return tuple(
        _rule(entry) for entry in read_entries(path or SHIPPED, "rules file", "rules", "id", ("causes",))
    )


def load_causes(path: Path | None, rules: Iterable[Rule], others: Iterable[str] = ()) -> Causes:
    """The causes in ``path``, or the shipped ones where it names none; a rule that has none is its own.

    ``others``: ids of rules that are in no rules file. Raises ConfigError naming file, cause and key.
    """
    file = path or SHIPPED
    if file != SHIPPED and "causes" not in (read_yaml(file, "rules file") or ()):
        file = SHIPPED
    clear_for_s = {rule.id: rule.clear_for_s or 0.0 for rule in rules} | dict.fromkeys(others, 0.0)
    by_rule, by_cause = dict[str, str](), dict[str, Terms]()
    for entry in read_entries(file, "rules file", "causes", "cause", ("rules",)):
        entry.check_keys(("cause", "rules"), ("codes", "join_s", "fleet"))
        given: dict[str, Any] = {}
        if "fleet" in entry:
            inner = replace(entry, values=entry.checked("fleet", _mapping), name=f"{entry.name}, fleet")
            inner.check_keys(("vehicles", "within_s"), ())
            given = {"fleet": inner.read(Fleet, {})}
        cause = entry.read(Cause, given)
        for name in (*cause.rules, *(f".{code}" for code in cause.codes)):
            if name in by_rule:
                raise entry.wrong("rules", f"{name} is of the cause {by_rule[name]} already")
            if not name.startswith(".") and name not in clear_for_s and file == path:
                raise entry.wrong("rules", f"{name} is the id of no rule")
            by_rule[name] = cause.cause
        # Findings of one alert are of one incident: it lasts as long without a finding.
        longest_s = max((clear_for_s.get(name, 0.0) for name in cause.rules), default=0.0)
        if "join_s" in entry and cause.join_s < longest_s:
            raise entry.wrong("join_s", f"is below {longest_s:g}, the `clear_for_s` of one of its rules")
        by_cause[cause.cause] = replace(cause, join_s=max(cause.join_s, longest_s)).terms()
    return Causes(by_rule, by_cause)


def wrong(path: Path, rule: str, key: str, reason: str) -> ConfigError:
    """The error that says where in the rules file something is wrong."""
    return Entry(f"rules file {path}", "rule", rule, {}).wrong(key, reason)


def read_entries(
    path: Path, what: str, plural: str, name_key: str, besides: tuple[str, ...] = ()
) -> list[Entry]:
    """The entries of a file under the key ``plural``; raises ConfigError naming file, entry and key.

    ``what`` the file is; ``name_key``: of the name of an entry, which none may share; ``besides``: keys that
    the file may have too.
    """
    document = read_yaml(path, what)
    only = isinstance(document, dict) and not document.keys() - {plural, *besides}
    found = document.get(plural) if only else None
    if not isinstance(found, list):
        raise ConfigError(f"{what} {path}: expected one key, `{plural}`, with a list of {plural}")
    kind, entries = plural.removesuffix("s"), dict[str, Entry]()
    for place, values in enumerate(found, start=1):
        if not isinstance(values, dict):
            raise ConfigError(f"{what} {path}, {kind} {place}: expected keys and values")
        keyed = {"on" if key is True else key: value for key, value in values.items()}  # a bare `on` in YAML
        name = str(keyed.get(name_key, f"number {place}"))
        entry = Entry(f"{what} {path}", kind, name, keyed, path.parent)
        if name in entries:
            raise entry.wrong(name_key, "is used twice")
        entries[name] = entry
    return [*entries.values()]


def _rule(entry: Entry) -> Rule:
    values, more = {"condition": "true", "query": INSTANT} | dict(entry.values), tuple[str, ...]()
    is_stateful = values["query"] == VEHICLES
    if is_stateful:
        kind = entry.checked("kind", one_of(KINDS))
        values = {"source": "frame"} | ({"value": NO_VALUE} if kind in MOMENTS else {}) | values
        more = ("kind", "while", "while_for_s", "while_pause_s", "gap_s", "names")
        more += (*_keys(KINDS[kind]).values(), *_MORE.get(kind, ()))
    entry = replace(entry, values=values)
    entry.check_keys(
        ("id", "version", "severity", "source", "value", "message"),
        ("query", "condition", "beyond", "limit", "clear_for_s", *more),
    )
    if is_stateful:
        entry.checked("source", one_of(SOURCES[:1]))
    limit: Any = values.get("limit")
    beyond = None
    if ("limit" in entry) != ("beyond" in entry):
        missing = "beyond" if "limit" in entry else "limit"
        raise entry.wrong(missing, "is missing: `limit` and `beyond` go together")
    if "limit" in entry:
        beyond = entry.checked("beyond", one_of(("above", "below")))
        limit = f"{float(limit)!r}D" if type(limit) in (int, float) else entry.checked("limit", text)
    given = {"limit": limit, "beyond": beyond, "clear_for_s": _clear_for(entry)}
    return entry.read(Rule, given | {"stateful": _stateful(entry) if is_stateful else None})


def _clear_for(entry: Entry) -> float | None:
    kind, endless = entry.values.get("kind"), entry.values["source"] == "crash"
    if endless or kind in UNTIMED:
        if "clear_for_s" in entry:
            what = "a crash: it does not clear by itself" if endless else f"kind {kind}: it says when it ends"
            raise entry.wrong("clear_for_s", f"has no meaning for {what}")
        return None
    seconds = entry.values.get("clear_for_s", CLEAR_FOR_S)
    if type(seconds) not in (int, float) or not 0 < seconds <= 86_400:
        raise entry.wrong("clear_for_s", f"{seconds!r} is not a number of seconds in 0..86400")
    return float(seconds)


def _stateful(entry: Entry) -> Stateful:
    kind, values = entry.values["kind"], entry.values
    spec: object = entry.read(KINDS[kind], _derived(entry))
    if isinstance(spec, Count) and spec.reversal is not None and values["value"] == NO_VALUE:
        raise entry.wrong("value", "is missing: `reversal` looks at its course")
    if {"while_for_s", "while_pause_s"} & set(values) and "while" not in entry:
        raise entry.wrong("while", "is missing: `while_for_s` and `while_pause_s` are about it")
    for key, kinds, why in (
        ("while", UNARMED, "say what must hold in `condition`"),
        ("limit", MOMENTS, "say what must hold in `condition`"),
        ("limit", ("unchanged",), "its value is compared with itself"),
    ):
        if kind in kinds and key in entry:
            raise entry.wrong(key, f"has no meaning for kind {kind}: {why}")
    if kind in MOMENTS and values.get("while_for_s"):
        raise entry.wrong("while_for_s", f"has no meaning for kind {kind}: what it finds need not last")
    clear, clear_level = None, None
    if "clear" in entry:
        if "limit" not in entry:
            raise entry.wrong("clear", "has no meaning without a `limit`")
        if type(values["clear"]) in (int, float):
            clear_level = entry.checked("clear", _LEVEL)
        elif isinstance(spec, Level) and spec.mean_s == 0:
            clear = entry.checked("clear", text)
        else:
            raise entry.wrong("clear", f"{values['clear']!r} is not a number, which this kind needs")
    own = {"spec": spec, "escalate": _escalate(entry), "clear": clear, "clear_level": clear_level}
    return entry.read(Stateful, own)


def _derived(entry: Entry) -> dict[str, Any]:
    """Fields of a kind that are not read as they stand: fences, and what the contract says of a value."""
    kind, signal = entry.values["kind"], BY_NAME.get(entry.values["value"])
    if kind == "geofence":
        return {"fences": _fences(entry)}
    if "resolution" in entry or (kind != "baseline" and "follows" not in entry):
        return {}
    if signal is None and "follows" in entry:
        raise entry.wrong("resolution", "is missing: the value is no signal, whose sensor's step is known")
    return {} if signal is None else {"resolution": max(signal.sensor_step, signal.resolution)}


def _escalate(entry: Entry) -> tuple[tuple[float, str], ...]:
    steps = entry.values.get("escalate", [])
    if not isinstance(steps, list):
        raise entry.wrong("escalate", "is not a list of {limit, severity}")
    if steps and "beyond" not in entry:
        raise entry.wrong("escalate", "has no meaning without a `limit`")
    found = []
    for step in steps:
        if not isinstance(step, dict) or sorted(step) != ["limit", "severity"]:
            raise entry.wrong("escalate", f"{step!r} is not {{limit, severity}}")
        inner = replace(entry, values=step)
        found.append((inner.checked("limit", _LEVEL), inner.checked("severity", one_of(SEVERITIES))))
    if found != sorted(found, key=itemgetter(0), reverse=entry.values.get("beyond") != "above"):
        raise entry.wrong("escalate", "is not in order, from the nearest limit on")
    return tuple(found)


def _fences(entry: Entry) -> tuple[Fence, ...]:
    if ("fences" in entry) == ("fences_file" in entry):
        raise entry.wrong("fences", "or `fences_file` is wanted, one of them")
    key = "fences" if "fences" in entry else "fences_file"
    listed = entry.values[key]
    if key == "fences_file":
        if not isinstance(listed, str):
            raise entry.wrong(key, f"{listed!r} is not a file's name")
        listed = read_yaml(entry.folder / listed, f"{entry.file}, rule {entry.name}: `fences_file`")
    if not isinstance(listed, list) or not 1 <= len(listed) <= FENCES_MAX:
        raise entry.wrong(key, f"is not a list of 1 to {FENCES_MAX} fences")
    try:
        fences = tuple(_fence(place, fence) for place, fence in enumerate(listed, start=1))
    except ValueError as error:
        raise entry.wrong(key, str(error)) from error
    if len({fence.name for fence in fences}) < len(fences):
        raise entry.wrong(key, "has a name twice")
    return fences


def _fence(place: int, fence: Any) -> Fence:
    if not isinstance(fence, dict) or not isinstance(fence.get("name"), str) or not fence["name"].strip():
        raise ValueError(f"fence {place} has no `name`")
    name, radius_m, points = fence["name"].strip(), None, fence.get("polygon")
    if set(fence) == {"name", "lat_deg", "lon_deg", "radius_m"}:
        radius_m, points = fence["radius_m"], [(fence["lat_deg"], fence["lon_deg"])]
        if type(radius_m) not in (int, float) or not 0 < radius_m <= RADIUS_MAX_M:
            raise ValueError(f"fence {name}: radius_m {radius_m!r} is not in 0..{RADIUS_MAX_M:g}")
    elif set(fence) != {"name", "polygon"} or not isinstance(points, list):
        raise ValueError(
            f"fence {name} is neither {{lat_deg, lon_deg, radius_m}} nor {{polygon}} of [lat, lon]"
        )
    for point in points:
        numbers = isinstance(point, list | tuple) and [type(x) in (int, float) for x in point] == [True, True]
        if not numbers or not (-90 <= point[0] <= 90 and -180 <= point[1] <= 180):
            raise ValueError(f"fence {name}: {point!r} is not [lat, lon] in degrees")
    if radius_m is None and not 3 <= len(points) <= POINTS_MAX:
        raise ValueError(f"fence {name}: a polygon has 3 to {POINTS_MAX} points")
    return Fence(name, tuple((float(lat), float(lon)) for lat, lon in points), radius_m and float(radius_m))
