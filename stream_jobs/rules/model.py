"""Alert rules: data with Spark SQL expressions, read from a YAML file; needs no Spark.

Instant rules see one frame or crash record. Stateful rules (query ``vehicles``) have a kind, which remembers
a bounded amount of each vehicle. Seconds are event time unless said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BeforeValidator, TypeAdapter, ValidationError

from infra.contract.errors import ConfigError
from infra.contract.messages import SEVERITIES
from infra.settings.files import read_yaml

SHIPPED: Final = Path(__file__).with_name("rules.yaml")
SOURCES: Final = ("frame", "crash")
QUERIES: Final = ("instant", "vehicles")
INSTANT, VEHICLES = QUERIES
CLEAR_FOR_S: Final = 60.0
"""Seconds of event time without a finding that clear an alert whose rule does not say."""
GAP_S: Final = 120.0
"""Two frames further apart than this say nothing of the time between them."""
DAYS_MAX_S: Final = 90 * 86_400
LEVEL_MAX: Final = 1e9
PER_S: Final = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86_400.0}
POINTS_MAX: Final = 1000
FENCES_MAX: Final = 200
RADIUS_MAX_M: Final = 500_000.0
NO_VALUE: Final = "CAST(NULL AS DOUBLE)"
"""The value of rules whose kind makes one itself."""
VALUELESS: Final = ("count", "geofence", "silence", "clone")
"""Kinds that make their own value: the rules file need not give one."""
UNTIMED: Final = ("silence", "geofence")
"""Kinds whose alerts end when their detector says so, not by a time without findings."""
_WORD: Final = re.compile(r"[a-z_][a-z0-9_]*", re.IGNORECASE)
Gives = Literal["BOOLEAN", "DOUBLE", "VARCHAR[]"]
"""What an expression must give, as DuckDB calls it."""
Check = Callable[[Any], Any]
"""Gives the value as the program has it; raises ValueError saying what is allowed."""
Made = TypeVar("Made")


def number(least: float, most: float) -> Check:
    """A number in a range."""

    def check(value: Any) -> float:
        if type(value) not in (int, float) or not least <= value <= most:  # NaN is in no range
            raise ValueError(f"{value!r} is not a number in {least:.10g}..{most:.10g}")
        return float(value)

    return check


def whole(least: int, most: int) -> Check:
    """A whole number in a range."""

    def check(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"{value!r} is not a whole number in {least}..{most}")
        return value

    return check


def one_of(words: Iterable[str]) -> Check:
    """One of a few words."""
    known = tuple(words)

    def check(value: Any) -> str:
        if value not in known:
            raise ValueError(f"{value!r} is none of {', '.join(known)}")
        return str(value)

    return check


def name_of(length: int) -> Check:
    """A name of at most ``length`` letters."""
    pattern = re.compile(rf"[a-z][a-z0-9_]{{0,{length - 1}}}")

    def check(value: Any) -> str:
        if not isinstance(value, str) or pattern.fullmatch(value) is None:
            raise ValueError("is not a name of a-z, 0-9 and _ that starts with a letter")
        return value

    return check


def text(value: Any) -> str:
    """A text that is not empty, without the space around it."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{value!r} is not a text")
    return value.strip()


def flag(value: Any) -> bool:
    """True or false."""
    if type(value) is not bool:
        raise ValueError(f"{value!r} is neither true nor false")
    return value


Text = Annotated[str, BeforeValidator(text)]
Flag = Annotated[bool, BeforeValidator(flag)]
Severity = Annotated[str, BeforeValidator(one_of(SEVERITIES))]
Seconds = Annotated[float, BeforeValidator(number(0, DAYS_MAX_S))]
Span = Annotated[float, BeforeValidator(number(1, DAYS_MAX_S))]


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
    """

    raise_for_s: Seconds = 0.0
    by: Annotated[str, BeforeValidator(one_of(("z", "share", "difference")))] = "z"
    against: Annotated[str, BeforeValidator(one_of(("mean", "p01", "p05", "median", "p95", "p99")))] = "mean"
    warm_up: Annotated[int, BeforeValidator(whole(5, 10_000_000))] = 300
    memory_s: Span = 604_800.0
    steady_s: Seconds = 0.0
    mean_s: Seconds = 0.0
    pause_s: Seconds = 0.0


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
    """The very same value for ``raise_for_s`` and in at least ``frames`` frames."""

    raise_for_s: Span
    frames: Annotated[int, BeforeValidator(whole(2, 100_000))] = 30


@dataclass(frozen=True, slots=True)
class Clone:
    """Two boots whose sample times and receive times both overlap by more than ``overlap_s``."""

    overlap_s: Span = 30.0


KINDS: Final[dict[str, type]] = {
    "level": Level, "slope": Slope, "baseline": Baseline, "count": Count, "geofence": Geofence,
    "silence": Silence, "unchanged": Unchanged, "clone": Clone,
}  # fmt: skip
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
    armed: Annotated[str | None, BeforeValidator(text)] = None
    armed_for_s: Seconds = 0.0
    armed_pause_s: Seconds = 0.0
    learn: Annotated[str | None, BeforeValidator(text)] = None
    names: Annotated[str | None, BeforeValidator(text)] = None
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
            ("names", more.names, "VARCHAR[]"),
        ]  # fmt: skip
        return [(key, sql, gives) for key, sql, gives in found if sql is not None]

    def words(self) -> set[str]:
        """Every word of the expressions: the columns it reads are among them."""
        return {word for _, sql, _ in self.expressions() for word in _WORD.findall(sql)}


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
        kind: Any = form
        keys = {each.name: _KEY_OF.get(each.name, each.name) for each in fields(kind)}
        own = {name: self.values[key] for name, key in keys.items() if key in self}
        try:
            made: Made = _adapter(kind).validate_python(own | given)
            return made
        except ValidationError as failure:
            error = failure.errors()[0]
        key = keys[str(error["loc"][0])]
        if error["type"] == "missing":
            needs = f": kind {self.values['kind']} needs it" if "kind" in self else ""
            raise self.wrong(key, f"is missing{needs}")
        raise self.wrong(key, str(error.get("ctx", {}).get("error", error["msg"])))


@cache
def _adapter(form: Any) -> TypeAdapter[Any]:
    return TypeAdapter(form)


_KEY_OF: Final = {
    "armed": "while", "armed_for_s": "while_for_s", "armed_pause_s": "while_pause_s", "per_s": "per",
}  # fmt: skip
"""Keys of the rules file that are not the fields' names."""


def of_query(rules: Iterable[Rule], query: str) -> tuple[Rule, ...]:
    """The rules of one query."""
    return tuple(rule for rule in rules if rule.query == query)


def load_rules(path: Path | None = None) -> tuple[Rule, ...]:
    """The rules in ``path``, or those that ship; raises ConfigError naming file, rule and key."""
    return tuple(_rule(entry) for entry in read_entries(path or SHIPPED, "rules file", "rules", "id"))


def wrong(path: Path, rule: str, key: str, reason: str) -> ConfigError:
    """The error that says where in the rules file something is wrong."""
    return Entry(f"rules file {path}", "rule", rule, {}).wrong(key, reason)


def read_entries(path: Path, what: str, plural: str, name_key: str) -> list[Entry]:
    """The entries of a file with one key, ``plural``; raises ConfigError naming file, entry and key.

    ``what`` the file is; ``name_key``: of the name of an entry, which none may share.
    """
    document = read_yaml(path, what)
    found = document.get(plural) if isinstance(document, dict) and len(document) == 1 else None
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
        value = {"value": NO_VALUE} if kind in VALUELESS else {}
        values = {"source": "frame"} | value | values
        own = [_KEY_OF.get(each.name, each.name) for each in fields(KINDS[kind])]
        more = ("kind", "while", "while_for_s", "while_pause_s", "gap_s", "names", *own, *_MORE.get(kind, ()))
    entry = replace(entry, values=values)
    entry.check_keys(
        ("id", "version", "severity", "source", "value", "message"),
        ("query", "condition", "beyond", "limit", "clear_for_s", *more),
    )
    if is_stateful:
        entry.checked("source", one_of(SOURCES[:1]))
    limit, beyond = _limit(entry)
    given = {"limit": limit, "beyond": beyond, "clear_for_s": _clear_for(entry)}
    return entry.read(Rule, given | {"stateful": _stateful(entry) if is_stateful else None})


def _limit(entry: Entry) -> tuple[str | None, str | None]:
    if ("limit" in entry) != ("beyond" in entry):
        missing = "beyond" if "limit" in entry else "limit"
        raise entry.wrong(missing, "is missing: `limit` and `beyond` go together")
    if "limit" not in entry:
        return None, None
    limit, beyond = entry.values["limit"], entry.checked("beyond", one_of(("above", "below")))
    return repr(float(limit)) + "D" if type(limit) in (int, float) else entry.checked("limit", text), beyond


def _clear_for(entry: Entry) -> float | None:
    endless = "a crash: it does not clear by itself" if entry.values["source"] == "crash" else None
    if entry.values.get("kind") in UNTIMED:
        endless = f"kind {entry.values['kind']}: it says when it ends"
    if endless is not None:
        if "clear_for_s" in entry:
            raise entry.wrong("clear_for_s", f"has no meaning for {endless}")
        return None
    seconds = entry.values.get("clear_for_s", CLEAR_FOR_S)
    if type(seconds) not in (int, float) or not 0 < seconds <= 86_400:
        raise entry.wrong("clear_for_s", f"{seconds!r} is not a number of seconds in 0..86400")
    return float(seconds)


def _stateful(entry: Entry) -> Stateful:
    kind = entry.values["kind"]
    given = {"fences": _fences(entry)} if kind == "geofence" else {}
    spec: object = entry.read(KINDS[kind], given)
    if isinstance(spec, Count) and spec.reversal is not None and entry.values["value"] == NO_VALUE:
        raise entry.wrong("value", "is missing: `reversal` looks at its course")
    if {"while_for_s", "while_pause_s"} & set(entry.values) and "while" not in entry:
        raise entry.wrong("while", "is missing: `while_for_s` and `while_pause_s` are about it")
    clear, clear_level = _clear(entry, spec)
    own = {"spec": spec, "escalate": _escalate(entry), "clear": clear, "clear_level": clear_level}
    return entry.read(Stateful, own)


def _clear(entry: Entry, spec: object) -> tuple[str | None, float | None]:
    if "clear" not in entry:
        return None, None
    if "limit" not in entry:
        raise entry.wrong("clear", "has no meaning without a `limit`")
    clear = entry.values["clear"]
    if type(clear) in (int, float):
        return None, entry.checked("clear", number(-LEVEL_MAX, LEVEL_MAX))
    if not isinstance(spec, Level) or spec.mean_s > 0:
        raise entry.wrong("clear", f"{clear!r} is not a number, which this kind needs")
    return entry.checked("clear", text), None


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
        limit = inner.checked("limit", number(-LEVEL_MAX, LEVEL_MAX))
        found.append((limit, inner.checked("severity", one_of(SEVERITIES))))
    sign = 1 if entry.values.get("beyond") == "above" else -1
    if found != sorted(found, key=lambda step: sign * step[0]):
        raise entry.wrong("escalate", "is not in order, from the nearest limit on")
    return tuple(found)


def _fences(entry: Entry) -> tuple[Fence, ...]:
    """The fences of a rule: under `fences`, or in `fences_file` beside the rules file."""
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


def _fence(place: int, fence: object) -> Fence:
    if not isinstance(fence, dict) or not isinstance(fence.get("name"), str) or not fence["name"].strip():
        raise ValueError(f"fence {place} has no `name`")
    name = fence["name"].strip()
    shape = set(fence) - {"name"}
    if shape == {"lat_deg", "lon_deg", "radius_m"}:
        radius_m = fence["radius_m"]
        if type(radius_m) not in (int, float) or not 0 < radius_m <= RADIUS_MAX_M:
            raise ValueError(f"fence {name}: radius_m {radius_m!r} is not in 0..{RADIUS_MAX_M:g}")
        return Fence(name, (_point(name, (fence["lat_deg"], fence["lon_deg"])),), float(radius_m))
    if shape == {"polygon"} and isinstance(fence["polygon"], list):
        points = tuple(_point(name, point) for point in fence["polygon"])
        if not 3 <= len(points) <= POINTS_MAX:
            raise ValueError(f"fence {name}: a polygon has 3 to {POINTS_MAX} points")
        return Fence(name, points)
    raise ValueError(f"fence {name} is neither {{lat_deg, lon_deg, radius_m}} nor {{polygon}} of [lat, lon]")


def _point(name: str, point: Any) -> tuple[float, float]:
    numbers = isinstance(point, list | tuple) and [type(x) in (int, float) for x in point] == [True, True]
    if not numbers or not (-90 <= point[0] <= 90 and -180 <= point[1] <= 180):
        raise ValueError(f"fence {name}: {point!r} is not [lat, lon] in degrees")
    return float(point[0]), float(point[1])
