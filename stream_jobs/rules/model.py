"""Alert rules: data with Spark SQL expressions, read from a YAML file; needs no Spark.

Instant rules see one frame or crash record. Stateful rules (query ``vehicles``) have a kind, which remembers
a bounded amount of each vehicle. Seconds are event time unless said.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, ValidationError
from pydantic.types import AllowInfNan, Strict, StringConstraints

from infra.contract.errors import ConfigError
from infra.contract.incidents import JOIN_MS, Causes, Terms
from infra.contract.messages import Severity
from infra.contract.signals import BY_NAME
from infra.settings.files import read_yaml, wanted

SHIPPED: Final = Path(__file__).with_name("rules.yaml")
INSTANT: Final = "instant"
VEHICLES: Final = "vehicles"
CLEAR_FOR_S: Final = 60.0  # without a finding for so long an alert is over whose rule does not say
GAP_S: Final = 120.0  # two frames further apart than this say nothing of the time between them
DAYS_MAX_S: Final = 90 * 86_400
PER_S: Final = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86_400.0}
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
Made = TypeVar("Made")
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
Flag = Annotated[bool, Strict()]
Whole = Annotated[int, Strict()]
Number = Annotated[float, Strict(), AllowInfNan(allow_inf_nan=False)]
Limit = Annotated[Number, Field(ge=-1e9, le=1e9)]
Seconds = Annotated[Number, Field(ge=0, le=DAYS_MAX_S)]
Span = Annotated[Number, Field(ge=1, le=DAYS_MAX_S)]
Above0 = Annotated[Number, Field(ge=1e-9, le=1e9)]


@dataclass(frozen=True, slots=True)
class Level:
    """Beyond the limit for ``raise_for_s``; each frame's value, or with ``mean_s`` the mean of so long."""

    raise_for_s: Seconds = 0.0
    mean_s: Seconds = 0.0


@dataclass(frozen=True, slots=True)
class Slope:
    """The value's change over ``span_s`` by unit of time, beyond the limit by ``sure`` standard errors."""

    span_s: Span
    per: Literal["second", "minute", "hour", "day"]
    sure: Annotated[Number, Field(ge=0, le=10)] = 0.0


@dataclass(frozen=True, slots=True)
class Baseline:
    """The value against the vehicle's own history, by name where the rule has names.

    ``by``: ``z`` in standard deviations, ``share`` of it, ``difference``. ``against``: ``mean`` (moving, with
    the time constant ``memory_s``) or a quantile ``p01`` to ``p99`` of all that was learned. Pauses
    up to ``pause_s``, in which the condition lets no frame be judged, do not begin ``raise_for_s`` anew.
    ``resolution``: what the value is rounded to, a signal's by the contract, adds to the deviation of ``z``.
    """

    raise_for_s: Seconds = 0.0
    by: Literal["z", "share", "difference"] = "z"
    against: Literal["mean", "p01", "p05", "median", "p95", "p99"] = "mean"
    warm_up: Annotated[Whole, Field(ge=5, le=10_000_000)] = 300
    memory_s: Span = 604_800.0
    steady_s: Seconds = 0.0
    mean_s: Seconds = 0.0
    pause_s: Seconds = 0.0
    resolution: Annotated[Number, Field(ge=0, le=1e9)] = 0.0


@dataclass(frozen=True, slots=True)
class Count:
    """At least ``times`` beginnings within ``span_s``; absent for ``absent_s``, it begins anew.

    ``reversal``: each rise of the value by so much counts, after a fall by so much, if the condition holds.
    """

    times: Annotated[Whole, Field(ge=1, le=32)] = 1
    span_s: Span = 86_400.0
    absent_s: Seconds = 5.0
    reversal: Above0 | None = None


@dataclass(frozen=True, slots=True)
class Fence:
    """A circle (``radius_m`` around its one point) or a polygon of at least 3 points (lat, lon), degrees."""

    name: Text
    points: Annotated[
        tuple[tuple[Annotated[Number, Field(ge=-90, le=90)], Annotated[Number, Field(ge=-180, le=180)]], ...],
        Field(max_length=1000),
    ]
    radius_m: Annotated[Number, Field(gt=0, le=500_000)] | None = None


def _fence(value: Any) -> Any:
    match value:
        case {"name": name, "lat_deg": lat, "lon_deg": lon, "radius_m": radius_m, **more} if not more:
            return {"name": name, "points": [(lat, lon)], "radius_m": radius_m or 0}  # null is no radius
        case {"name": name, "polygon": [_, _, _, *_] as points, **more} if not more:
            return {"name": name, "points": points}
    raise ValueError("is neither {name, lat_deg, lon_deg, radius_m} nor {name, polygon} of 3 [lat, lon]")


def _told_apart(fences: tuple[Fence, ...]) -> tuple[Fence, ...]:
    if len({fence.name for fence in fences}) < len(fences):
        raise ValueError("has a name twice")
    return fences


@dataclass(frozen=True, slots=True)
class Geofence:
    """In (``enter``) or out of (``exit``) a fence; a border is crossed ``margin_m`` beyond it."""

    fences: Annotated[
        tuple[Annotated[Fence, BeforeValidator(_fence)], ...],
        Field(min_length=1, max_length=200),
        AfterValidator(_told_apart),
    ]
    on: Literal["enter", "exit"] = "enter"
    margin_m: Annotated[Number, Field(ge=0, le=10_000)] = 50.0


@dataclass(frozen=True, slots=True)
class Silence:
    """Nothing received for ``silent_for_s`` of the receive clock after a frame where the condition held."""

    silent_for_s: Span


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The very same value for ``raise_for_s`` and in at least ``frames`` frames.

    ``follows``: Spark SQL above 0 that moves the value, by ``per_fold`` where its mean over ``lag_s`` grows
    e-fold. A value stands still only once that should have moved it ``swings`` times by MOVES of its sensor's
    steps: the least that it was seen to make, before that ``resolution``, the signal's in the contract where
    it is left out. Where ``follows`` is 0 the value drifts by itself, by as much in ``rest_s``. What
    ``condition`` does not let count may change the value. A value that was seen to make finer steps than
    ``resolution`` need not stand still for longer than ``fine_for_s``.
    """

    raise_for_s: Span
    frames: Annotated[Whole, Field(ge=2, le=100_000)] = 30
    follows: Text | None = None
    per_fold: Above0 = 1.0
    lag_s: Span = 20.0
    swings: Annotated[Whole, Field(ge=1, le=100)] = 3
    rest_s: Span = 120.0
    resolution: Above0 | None = None
    fine_for_s: Span | None = None


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


class Step(NamedTuple):
    """A further limit with its severity."""

    limit: Limit
    severity: Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. ``condition``, ``value`` and ``limit`` are Spark SQL over the columns of ``source``.

    ``limit`` and ``beyond`` are None together: then the condition alone decides. ``clear_for_s`` None: the
    alert does not clear by itself. ``names``: Spark SQL for what it is about; ``apart``: each of these is an
    alert of its own, ``id.name``.

    Those of the query ``vehicles`` have a kind, ``spec``, and what follows it. ``clear``: Spark SQL (plain
    level) that ends it; ``clear_level``: a number for kinds with a value of their own. ``armed``: Spark SQL
    (`while` in the file) that must have held for ``armed_for_s`` before the rule is raised; pauses of up to
    ``armed_pause_s`` do not begin that anew. ``escalate``: further limits with their severities, from the
    nearest on.
    """

    id: Name
    version: Annotated[Whole, Field(ge=1, le=2**31 - 1)]
    severity: Severity
    source: Literal["frame", "crash"] = "frame"
    condition: Text = "true"
    value: Text = NO_VALUE
    limit: Text | None = None
    beyond: Literal["above", "below"] | None = None
    clear_for_s: Annotated[Number, Field(gt=0, le=86_400)] | None = CLEAR_FOR_S
    message: Text
    query: Literal["instant", "vehicles"] = INSTANT
    names: Text | None = None
    apart: Flag = False
    spec: Level | Slope | Baseline | Count | Geofence | Silence | Unchanged | Clone | None = None
    clear: Text | None = None
    clear_level: Limit | None = None
    armed: Text | None = None
    armed_for_s: Seconds = 0.0
    armed_pause_s: Seconds = 0.0
    learn: Text | None = None
    gap_s: Span = GAP_S
    escalate: tuple[Step, ...] = ()

    def summary(self) -> dict[str, Any]:
        """The rule in short; ``kind`` is ``frame`` for instant rules."""
        kind = "frame" if self.spec is None else type(self.spec).__name__.lower()
        return {
            "id": self.id, "version": self.version, "severity": self.severity, "query": self.query,
            "kind": kind, "source": self.source, "beyond": self.beyond, "limit": self.limit,
            "clear_for_s": self.clear_for_s, "message": self.message,
        }  # fmt: skip

    def expressions(self) -> list[tuple[str, str, Gives]]:
        """Each expression: its key in the file, its text, and what it must give."""
        found: list[tuple[str, str | None, Gives]] = [
            ("condition", self.condition, "BOOLEAN"), ("value", self.value, "DOUBLE"),
            ("limit", self.limit, "DOUBLE"), ("clear", self.clear, "BOOLEAN"),
            ("while", self.armed, "BOOLEAN"), ("learn", self.learn, "BOOLEAN"),
            ("names", self.names, "VARCHAR[]"), ("follows", self.follows(), "DOUBLE"),
        ]  # fmt: skip
        return [(key, sql, gives) for key, sql, gives in found if sql is not None]

    def follows(self) -> str | None:
        """What the value of kind unchanged has to follow, if the rule says."""
        return self.spec.follows if isinstance(self.spec, Unchanged) else None

    def words(self) -> set[str]:
        """Every word of the expressions, in small letters: the columns it reads are among them."""
        return {word.lower() for _, sql, _ in self.expressions() for word in _WORD.findall(sql)}


class Fleet(NamedTuple):
    """So many vehicles whose alerts of a cause open within ``within_s`` are one incident of the fleet."""

    vehicles: Annotated[Whole, Field(ge=2, le=1_000_000)]
    within_s: Span


@dataclass(frozen=True, slots=True)
class Cause:
    """What an incident is of. ``codes``: parts of rules, as trouble codes, which go before the rule.

    ``apart``: each part of its rules is a cause of its own, ``cause part`` (`tyre front left`).
    """

    cause: Name
    rules: tuple[Text, ...]
    codes: tuple[Text, ...] = ()
    apart: Flag = False
    join_s: Span = JOIN_MS / 1000
    fleet: Fleet | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """Keys and values of an entry; errors name ``file`` ("rules file PATH"), ``kind`` ("rule"), name, key."""

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

    def check_keys(self, known: Collection[str]) -> None:
        for key in self.values:
            if key not in known:
                raise self.wrong(str(key), f"is unknown; known: {', '.join(known)}")

    def read(self, form: type[Made], given: dict[str, Any]) -> Made:
        """A dataclass out of the keys that are its fields, and ``given`` ones, checked by their types."""
        keys = keys_of(form)
        own = {name: self.values[key] for name, key in keys.items() if key in self}
        try:
            made: Made = _adapter(form).validate_python(own | given)
            return made
        except ValidationError as failure:
            error = failure.errors()[0]
        key, place = keys[str(error["loc"][0])], ".".join(map(str, error["loc"][1:]))
        if error["type"] == "missing" and not place:
            needs = f": kind {self.values['kind']} needs it" if form in _SPECS else ""
            raise self.wrong(key, f"is missing{needs}")
        raise self.wrong(key, f"{place} {error['input']!r:.100}: {wanted(error)}".lstrip())


_adapter: Final[Any] = cache(TypeAdapter)
_KEY_OF: Final = {
    "armed": "while", "armed_for_s": "while_for_s", "armed_pause_s": "while_pause_s",
    "clear_level": "clear",
}  # fmt: skip
"""Keys of the rules file that are not the fields' names."""


def keys_of(form: Any) -> dict[str, str]:
    """By field of a dataclass its key in the file."""
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
    by_rule, by_cause, apart = dict[str, str](), dict[str, Terms](), list[str]()
    for entry in read_entries(file, "rules file", "causes", "cause", ("rules",)):
        entry.check_keys(keys_of(Cause).values())
        cause = entry.read(Cause, {})
        if cause.apart and cause.fleet:
            raise entry.wrong("fleet", "has no meaning where each part is `apart`")
        apart += [cause.cause] * cause.apart
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
        join_ms, fleet = round(1000 * max(cause.join_s, longest_s)), cause.fleet
        many = () if fleet is None else (fleet.vehicles, round(1000 * fleet.within_s))
        by_cause[cause.cause] = Terms(join_ms, *many)
    return Causes(by_rule, by_cause, tuple(apart))


def wrong(path: Path, rule: str, key: str, reason: str) -> ConfigError:
    """The error that says where in the rules file something is wrong."""
    return Entry(f"rules file {path}", "rule", rule, {}).wrong(key, reason)


def read_entries(
    path: Path, what: str, plural: str, name_key: str, besides: tuple[str, ...] = ()
) -> list[Entry]:
    """The entries of a file under the key ``plural``; raises ConfigError naming file, entry and key.

    ``what`` the file is; ``name_key``: of an entry's name, which none may share; ``besides``: other keys.
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
    kind, source = entry.values.get("kind"), entry.values.get("source")
    limit: Any = entry.values.get("limit")
    of_kind: tuple[str, ...] = ()
    if entry.values.get("query") == VEHICLES:
        if kind not in [*KINDS]:
            raise entry.wrong("kind", f"{kind!r} is none of {', '.join(KINDS)}")
        of_kind = ("kind", "while", "while_for_s", "while_pause_s", "gap_s")
        of_kind += (*keys_of(KINDS[kind]).values(), *_MORE.get(kind, ()))
    entry.check_keys((
        "id", "version", "severity", "source", "value", "message", "query", "condition", "beyond", "limit",
        "clear_for_s", "names", "apart", *of_kind,
    ))  # fmt: skip
    _check_together(entry)
    given: dict[str, Any] = {}
    if kind:
        spec: object = entry.read(KINDS[kind], _derived(entry))
        clear = entry.values.get("clear")
        is_sql = isinstance(clear, str) and isinstance(spec, Level) and not spec.mean_s
        given = {"spec": spec, "clear": clear if is_sql else None, "clear_level": None if is_sql else clear}
    if type(limit) in (int, float) and abs(limit) < 1e300:  # else it is refused, as no text
        given["limit"] = f"{float(limit)!r}D"
    if source == "crash" or kind in UNTIMED:
        given["clear_for_s"] = None
    rule = entry.read(Rule, given)
    in_order = sorted(rule.escalate, key=attrgetter("limit"), reverse=rule.beyond != "above")
    if [*rule.escalate] != in_order:
        raise entry.wrong("escalate", "is not in order, from the nearest limit on")
    return rule


def _check_together(entry: Entry) -> None:
    """Raises ConfigError for a key that others need and that is missing, or that says nothing beside them."""
    values, no_limit = entry.values, "limit" not in entry
    kind, source = values.get("kind"), values.get("source")
    compared = values.get("mean_s") or kind in ("slope", "baseline")
    for key, is_needed, why in (
        ("source", kind is None, "`frame` or `crash`"),
        ("value", kind not in MOMENTS, "the alert shows it"),
        ("value", values.get("reversal") is not None, "`reversal` looks at its course"),
        ("limit", compared, "a mean, a slope and a baseline are compared with it"),
        ("limit", "beyond" in entry, "`limit` and `beyond` go together"),
        ("beyond", not no_limit, "`limit` and `beyond` go together"),
        ("while", "while_for_s" in entry, "`while_for_s` is about it"),
        ("while", "while_pause_s" in entry, "`while_pause_s` is about it"),
    ):
        if is_needed and key not in entry:
            raise entry.wrong(key, f"is missing: {why}")
    if kind and source not in (None, "frame"):
        raise entry.wrong("source", f"{source!r}: rules of the query {VEHICLES} are about frames")
    lasts = kind in MOMENTS and values.get("while_for_s")
    for key, is_so, why in (
        ("apart", "names" not in entry, "without `names`"),
        ("clear_for_s", source == "crash", "for a crash: it does not clear by itself"),
        ("clear_for_s", kind in UNTIMED, f"for kind {kind}: it says when it ends"),
        ("while", kind in UNARMED, f"for kind {kind}: say what must hold in `condition`"),
        ("limit", kind in MOMENTS, f"for kind {kind}: say what must hold in `condition`"),
        ("limit", kind == "unchanged", f"for kind {kind}: its value is compared with itself"),
        ("while_for_s", lasts, f"for kind {kind}: what it finds need not last"),
        ("clear", no_limit, "without a `limit`"),
        ("escalate", no_limit, "without a `limit`"),
    ):
        if is_so and key in entry:
            raise entry.wrong(key, f"has no meaning {why}")


def _derived(entry: Entry) -> dict[str, Any]:
    """Fields of a kind that are not read as they stand: fences, and what the contract says of a value."""
    kind, signal = entry.values["kind"], BY_NAME.get(str(entry.values.get("value")))
    if kind == "geofence":
        if ("fences" in entry) == ("fences_file" in entry):
            raise entry.wrong("fences", "or `fences_file` is wanted, one of them")
        if "fences" in entry:
            return {}
        file, what = entry.folder / str(entry.values["fences_file"]), f"rule {entry.name}: `fences_file`"
        return {"fences": read_yaml(file, f"{entry.file}, {what}")}
    by_steps = "follows" in entry or "fine_for_s" in entry
    if "resolution" in entry or not (kind == "baseline" or by_steps):
        return {}
    if signal is None and by_steps:
        raise entry.wrong("resolution", "is missing: the value is no signal, whose sensor's step is known")
    return {} if signal is None else {"resolution": max(signal.sensor_step, signal.resolution)}
