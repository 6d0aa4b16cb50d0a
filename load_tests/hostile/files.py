"""Hostile files given to the loaders in process: recorded drives, rules, scenarios, mappings.

A file must be taken, or refused by an OdographError that names it in a few words, within ``LIMIT_S`` and
``MEMORY_MB``. What is taken must work: drives give frames of the contract, scenarios a run's set-up.
"""

from __future__ import annotations

import multiprocessing
import random
import resource
import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

import yaml

from edge_simulator import scenario
from edge_simulator.recordings import checks, replay
from edge_simulator.recordings.mapping import load_mapping
from infra.contract import frame
from infra.contract.errors import OdographError
from infra.settings import settings
from load_tests.hostile import grammar
from load_tests.hostile.grammar import Raw
from stream_jobs.rules import model as rules

LIMIT_S: Final = 10.0
"""Of CPU time: a slow machine is no hang."""
MEMORY_MB: Final = 6144
"""More address space than the process had when it began."""
ERROR_CHARS: Final = 2000
SHOWN: Final = 5
SHARE: Final = 500
"""Files that one call of a worker tries."""

_LAYER: Final = b",".join(b"&%c [%s]" % (98 + k, b",".join([b"*%c" % (97 + k)] * 9)) for k in range(9))
TOKENS: Final = tuple(
    Raw(token)
    for token in (
        b"[&a [x, x, x, x, x, x, x, x, x]," + _LAYER + b"]", b"&a [*a]", b"&a {b: *a}", b"*nosuch",
        b"2026-02-30",
        b"2026-13-45T99:99:99Z", b"1:99:99", b"0b2", b"0o9", b"0x", b".inf", b"-.inf", b".nan", b"~",
        b"!!int x",
        b"!!float x", b"!!binary x", b"!!set {a, b}", b"!!python/object/apply:os.system ['true']", b"{<<: 1}",
        b"{? [1, 2] : 3}", b"{<<: [1]}", b"'unclosed", b'"\\UFFFFFFFF"', b"!<tag:x> y", b"|\n  x",
        b"2026-11-20",
        b"- - - a", b"1_000", b"0777", b"yes", b"12e03", b"1" * 5000, b"!!timestamp x", b"07:30", b"{1: 2}",
    )
)  # fmt: skip
_LEAVES: Final = (
    *(grammar.leaf(values) for values in (grammar.NUMBERS, grammar.TEXTS, grammar.OTHERS, TOKENS, TOKENS)),
    grammar.shape,
    grammar.twice,
)

_ZONES: Final = ("Europe/Berlin", "../../etc/passwd", "x" * 5000, "Europe", "", "/etc/passwd", "UTC\x00")
_ENCODINGS: Final = (
    "cp1252",
    "utf-16",
    "nosuch",
    "base64",
    "rot13",
    "idna",
    "unicode_escape",
    "hex",
    "\x00",
    "",
)
_FORMATS: Final = ("%Y-%m-%d", "iso", "epoch_s", "%", "%Q", "%s", "%Y%Y", "%z", "x" * 5000, "%c", "(", "[%d")


def _mapping(rng: random.Random) -> dict[str, Any]:
    stamp: dict[str, Any] = {
        "timestamp": {"column": "t", "format": rng.choice(("iso", "epoch_s", "epoch_ms"))}
    }
    if rng.random() < 0.4:
        stamp["timestamp"]["format"] = rng.choice(_FORMATS)
    body = {
        "model": "m", "powertrain": "petrol", "vehicle_class": "car", "time_zone": "Europe/Berlin", **stamp,
        "signals": {
            "speed_kmh": {"column": "v", "unit": "km/h", "check": {"column": "w", "optional": True}},
            "lat_deg": {"column": "lat"}, "lon_deg": {"column": "lon"},
            "gear": {"column": "g", "values": {"N": 0, "D": 1}}, "odometer_m": {"column": "o",
            "factor": 1000},
        },
        "missing": ["n/a"], "vehicle": "id", "decimal": ".",
    }  # fmt: skip
    odd = {
        "time_zone": _ZONES,
        "encoding": _ENCODINGS,
        "delimiter": (",", ";", "x", ""),
        "decimal": (",", "x"),
    }
    key = rng.choice((*odd, ""))
    return body | ({key: rng.choice(odd[key])} if key else {})


def _scenario(rng: random.Random) -> dict[str, Any]:
    return {
        "title": "t", "seed": 1, "vehicles": 5, "interval": "1s", "duration": "30m", "profile": "day",
        "parked_every": "2m", "ambient_c": -8, "clock": {"begins": "06:45", "weekday": "mon"},
        "faults": rng.choice((["weak_battery=0.04"], ["crash@5"], [{"name": "crash", "count": 1,
        "onset_s": [1, 2]}])),
        "link": {"late": 0.01, "outage_share": 0.1, "store_full": "newest", "dead_zone_radius_m": 10},
        "gnss": {}, "place": {"lat": 48.1, "lon": 11.5}, "recorders": {"keep_pulse": True,
        "chunk_bytes": 4096},
        "stages": [{"for": "60s", "rate": 3}, {"for": "60s", "ramp_to": 5}], "step": "100ms",
    }  # fmt: skip


def _rules(rng: random.Random) -> dict[str, Any]:
    shipped = rng.sample(_shipped(), 2)
    fences = [
        {"name": "f", "lat_deg": 1, "lon_deg": 2, "radius_m": 3},
        {"name": "g", "polygon": [[0, 0], [0, 1], [1, 1]]},
    ]
    kinds: dict[str, dict[str, Any]] = {
        "geofence": {"fences": fences, "on": "enter", "margin_m": 1},
        "count": {"times": 2, "span_s": 10, "condition": "true"},
        "slope": {"span_s": 60, "per": "minute", "value": "soc_pct", "limit": 1, "beyond": "above"},
        "level": {
            "value": "soc_pct",
            "limit": 1,
            "beyond": "above",
            "escalate": [{"limit": 2, "severity": "MAJOR"}],
        },
    }
    kind = rng.choice(list(kinds))
    own = {"id": "r", "version": 1, "severity": "MAJOR", "message": "m", "query": "vehicles", "kind": kind}
    return {"rules": [own | kinds[kind], *shipped]}


def _shipped() -> list[dict[str, Any]]:
    if not _SHIPPED:
        _SHIPPED.extend(yaml.safe_load(rules.SHIPPED.read_text())["rules"])
    return [dict(rule) for rule in _SHIPPED]


_SHIPPED: Final[list[dict[str, Any]]] = []


def _document(make: Callable[[random.Random], dict[str, Any]], rng: random.Random) -> bytes:
    """A YAML document changed in a few places (JSON is YAML), and sometimes as a text."""
    body = grammar.copied(make(rng))
    for _ in range(rng.choice((0, 1, 1, 1, 2))):
        body = rng.choice(_LEAVES)(body, rng) if body else body
    raw = grammar.text(body)
    return grammar.spoilt(raw, rng) if rng.random() < 0.2 else raw


_CELLS: Final = (
    "", " ", "0", "-1", "1e308", "1e999", "nan", "inf", "-inf", "1,5", "1.234,5", "0x10", "1_000", "n/a",
    "N", "D",
    "\x00", "\u0661\u0662", '"', '""', '"a', "a\tb", "x" * 9000, "=cmd|' /C calc'!A0", "\ufeff", "\ud7ff",
    "9" * 5000,
    "90.0001", "-181", "4e9", "2026-11-20T08:00:00", "2026-11-20T08:00:00+99:00", "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59-23:59", "2026-10-25T02:30:00", "1e18", "-62135596800000", "99999999999999999999",
)  # fmt: skip


def _drive(rng: random.Random) -> bytes:
    """A CSV of a few seconds in the columns of ``_mapping``, with odd cells, lines and texts."""
    header = ["id", "t", "v", "w", "lat", "lon", "g", "o"]
    rows = [
        [
            "A",
            f"2026-11-20T08:00:{k:02d}+00:00",
            f"{30 + k}",
            f"{31 + k}",
            f"{48.1 + k / 1e4}",
            f"{11.5 + k / 1e4}",
            "D",
            "1",
        ]
        for k in range(rng.choice((1, 3, 12)))
    ]
    for _ in range(rng.choice((0, 1, 1, 2, 6))):
        row = rng.choice([header, *rows, *rows, *rows])
        at = rng.randrange(len(row) or 1)
        change = rng.randrange(6)
        if change < 4 and row:
            row[at] = rng.choice(_CELLS)
        elif change == 4:
            row[at:] = row[at:] * rng.choice((0, 2, 500))
        else:
            rows = rng.sample(rows, len(rows)) * rng.choice((0, 1, 2))
    end, mark = (
        rng.choice(("\n", "\n", "\r\n", "\r", "\n\n", "\x0b")),
        rng.choice((",", ",", ",", ";", "\t", "|", "x")),
    )
    raw = end.join(mark.join(row) for row in [header, *rows]).encode(errors="surrogatepass")
    return grammar.spoilt(raw, rng) if rng.random() < 0.2 else raw


def _try_drive(path: Path) -> None:
    convoy = replay.convoy(path.parent, None, 60.0, "now")
    for outgoing in convoy.frames():
        frame.decode(outgoing.payload)
    checks.lines(checks.report(path, convoy.meaning))


def _try_mapping(path: Path) -> None:
    meaning = load_mapping(path)
    example = path.parent / "drive.csv"
    checks.lines(checks.report(example, meaning))


def _try_scenario(path: Path) -> None:
    scenario.read(str(path), settings.Settings(), {}, start_ms=1_763_800_000_000)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of file: its name, how one is made, and what it is given to."""

    file: str
    make: Callable[[random.Random], bytes]
    judge: Callable[[Path], object]


KINDS: Final = {
    "drives": Kind("drive.csv", _drive, _try_drive),
    "mappings": Kind("mapping.yaml", lambda rng: _document(_mapping, rng), _try_mapping),
    "rules": Kind("rules.yaml", lambda rng: _document(_rules, rng), rules.load_rules),
    "scenarios": Kind("run.yaml", lambda rng: _document(_scenario, rng), _try_scenario),
}


@dataclass(slots=True)
class Outcome:
    """What became of the files of a kind; ``bad`` describes those that did neither of what is allowed."""

    tried: int = 0
    taken: int = 0
    refused: int = 0
    slowest_s: float = 0.0
    bad: Counter[str] = field(default_factory=Counter)
    examples: dict[str, int] = field(default_factory=dict)
    """By description, the number of a file that shows it."""

    def add(self, other: Outcome) -> None:
        """Take over another's counts."""
        self.tried, self.taken = self.tried + other.tried, self.taken + other.taken
        self.refused += other.refused
        self.slowest_s = max(self.slowest_s, other.slowest_s)
        self.bad += other.bad
        self.examples = other.examples | self.examples


class HangsError(BaseException):
    """A loader took too long; no loader catches it."""


def _alarm(_number: int, _frame: FrameType | None) -> None:
    raise HangsError(f"not done after {LIMIT_S:g} s of CPU")


@contextmanager
def _bounded() -> Iterator[None]:
    """What runs in the block is interrupted after ``LIMIT_S``."""
    before = signal.signal(signal.SIGPROF, _alarm)
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def judged(kind: str, number: int, seed: int, folder: Path) -> tuple[str, bool]:
    """What is wrong with the treatment of a file (empty: nothing), and whether it was taken."""
    one, path = KINDS[kind], folder / KINDS[kind].file
    path.write_bytes(one.make(random.Random(f"{kind} {seed} {number}")))
    try:
        with _bounded():
            one.judge(path)
    except OdographError as error:
        return _unclear(str(error), path), False
    except (Exception, HangsError) as error:  # noqa: BLE001  whatever else comes out is what is looked for
        at = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} at {Path(at.filename).name}:{at.lineno} {str(error)[:120]}", False
    return "", True


def _unclear(told: str, path: Path) -> str:
    if path.name not in told and str(path.parent) not in told:
        return f"does not name the file: {told[:160]}"
    if len(told) > ERROR_CHARS:
        return f"too long: {told.replace(str(path), '')[:160]}"
    if not told.isprintable() and not all(c.isprintable() or c in "\n\t" for c in told):
        return f"control characters: {ascii(told.replace(str(path), ''))[:160]}"
    return ""


def share(kind: str, seed: int, first: int, count: int) -> Outcome:
    """Some files one after the other, in a worker."""
    warnings.simplefilter("ignore")
    found = Outcome()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        example = random.Random(0)
        (folder / "drive.csv").write_bytes(_drive(example))
        if kind == "drives":
            (folder / "mapping.yaml").write_bytes(grammar.text(_drive_mapping()))
        for number in range(first, first + count):
            begun = time.monotonic()
            wrong, taken = judged(kind, number, seed, folder)
            found.slowest_s = max(found.slowest_s, time.monotonic() - begun)
            found.tried += 1
            found.taken += taken
            found.refused += not taken and not wrong
            if wrong:
                found.bad[wrong] += 1
                found.examples.setdefault(wrong, number)
    return found


def _drive_mapping() -> dict[str, Any]:
    mapping = _mapping(random.Random(0))
    plain = {key: value for key, value in mapping.items() if key not in ("encoding", "delimiter")}
    return plain | {
        "timestamp": {"column": "t", "format": "iso"},
        "time_zone": "Europe/Berlin",
        "decimal": ".",
    }


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + (MEMORY_MB << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def tried(count: int, seed: int, say: Callable[[str], None], workers: int = 2) -> dict[str, Outcome]:
    """``count`` files of each kind; the outcome by kind."""
    found = {kind: Outcome() for kind in KINDS}
    method = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=method, initializer=_limit_memory) as pool:
        pending = [
            (kind, pool.submit(share, kind, seed, first, min(SHARE, count - first)))
            for kind in KINDS
            for first in range(0, count, SHARE)
        ]
        for kind, done in pending:
            found[kind].add(done.result())
    for kind, outcome in found.items():
        say(f"{kind}: {outcome.tried} files, {outcome.taken} taken, {outcome.refused} refused, "
            f"{outcome.bad.total()} neither; slowest {outcome.slowest_s:.2f} s")  # fmt: skip
    return found
