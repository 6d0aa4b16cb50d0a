"""Runs and where they lie: ``<home>/replays/<run>/``, run.json and all that the run's jobs write."""

import hashlib
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from infra.clients import locks
from infra.contract.errors import ConfigError
from infra.settings.files import read_json, write_private
from infra.settings.settings import ENDPOINTS_FILE, Endpoints, Settings
from infra.settings.settings import load as settings_in_force
from infra.stack import processes
from stream_jobs.replay.records import INPUT, Span

FILE: Final = "run.json"
LOCK: Final = "lock"
DASHBOARD: Final = "dashboard"
RUN_ID: Final = re.compile(r"[a-z][a-z0-9_]{0,30}")


@dataclass(frozen=True, slots=True)
class Run:
    """A replay. ``settings`` are variables of its jobs that differ from the live ones; ``code`` digests what
    its jobs are made of: another one may not go on with its checkpoints. Late frames received up to
    ``late_until_ms`` belong to it: the archive of a day may grow while it runs.

    ``state``: begun (records go in), fed (all are in Kafka), done (all are in tables), then what --verify
    found: verified or different.
    """

    run_id: str
    source: str
    since_ms: int
    until_ms: int
    received_since_ms: int
    received_until_ms: int
    late_until_ms: int
    vehicles: tuple[str, ...]
    speed: float | None
    jobs: tuple[str, ...]
    settings: Mapping[str, str]
    code: str
    state: str = "begun"
    records: int = 0
    begun_at: str = ""
    feed_s: float = 0.0
    total_s: float = 0.0

    @property
    def span(self) -> Span:
        return Span(self.since_ms, self.until_ms)

    @property
    def received(self) -> Span:
        """Receive times of its records, late ones that came after apart."""
        return Span(self.received_since_ms, self.received_until_ms)

    @property
    def database(self) -> str:
        return f"odograph_run_{self.run_id}"

    @property
    def schema(self) -> str:
        """Where its tables are copied to, in the live database."""
        return f"run_{self.run_id}"

    def parameters(self) -> dict[str, Any]:
        """Values of databases.within."""
        return {"since": self.span.since, "until": self.span.until, "vehicles": [*self.vehicles] or None}

    def changed(self) -> str:
        return ", ".join(f"{k}={v}" for k, v in sorted(self.settings.items())) or "nothing"


def folder_of(home: Path, run_id: str) -> Path:
    """Where a run lies."""
    return home.absolute() / "replays" / run_id


def drives_of(folder: Path) -> dict[str, Any]:
    """What is known of a run's recorded drives: the vehicles' model, a report a drive; {}: it has none."""
    return dict(read_json(folder / INPUT / FILE))


def watched(settings: Settings) -> dict[str, str]:
    """Runs under way that have a dashboard of their own, and its address."""
    found, host = dict[str, str](), settings.dashboard.address
    for path in (settings.paths.home / "replays").glob(f"*/{ENDPOINTS_FILE}"):
        if processes.find(path.parent / "run", DASHBOARD) is not None:
            place = Endpoints(**json.loads(path.read_text()))
            found[path.parent.name] = f"{place.dashboard_scheme}://{host}:{place.http_ports[DASHBOARD]}"
    return found


def check_id(run_id: str) -> str:
    """``run_id`` if it can be a run's; raises ConfigError."""
    if RUN_ID.fullmatch(run_id) is None:
        raise ConfigError(
            f"run {run_id!r}: a letter, then up to 30 letters, digits and _ (all small): it names a schema"
        )
    return run_id


def save(home: Path, run: Run) -> Run:
    """Write the run's file, whole or not at all."""
    write_private(folder_of(home, run.run_id) / FILE, json.dumps(asdict(run), indent=1))
    return run


def load(home: Path, run_id: str, *, done: bool = False) -> Run:
    """The run; raises ConfigError naming those there are, or where it is to be ``done`` and is not."""
    try:
        run = _read(folder_of(home, run_id) / FILE)
    except FileNotFoundError as error:
        there = ", ".join(run.run_id for run in all_runs(home)) or "none"
        raise ConfigError(f"no run {run_id!r}; there are: {there}") from error
    if done and run.state not in ("done", "verified", "different"):
        raise ConfigError(
            f"run {run_id} is not done ({run.state}): its command with --run {run_id} again goes on with it"
        )
    return run


def all_runs(home: Path) -> list[Run]:
    """All runs of a home, the oldest first."""
    found = map(_read, (home / "replays").glob(f"*/{FILE}"))
    return sorted(found, key=lambda run: (run.begun_at, run.run_id))


def not_begun(home: Path) -> list[str]:
    """Names of folders into which records are taken, or were when that was killed: there is no more of it."""
    return sorted(p.name for p in (home / "replays").glob("*/") if not (p / FILE).exists())


def _read(path: Path) -> Run:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Run)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path} is of no run that this version knows ({error}): move it away") from error


@contextmanager
def held(home: Path, run_id: str) -> Iterator[None]:
    """Keep others off a run while the block runs; raises ConfigError where another process has it.

    Where the run has not begun by its end, nothing of it stays.
    """
    folder = folder_of(home, run_id)
    busy = ConfigError(f"run {run_id} is under way in another process: stop that one first")
    with locks.locked(folder / LOCK, busy=busy):
        try:
            yield
        finally:
            if not (folder / FILE).exists():
                shutil.rmtree(folder, ignore_errors=True)


def with_settings(given: Mapping[str, str]) -> Settings:
    """The settings of a run's jobs: those in force, with ``given``; raises ConfigError."""
    sections: dict[str, Any] = {}
    for variable, value in given.items():
        section, _, key = variable.lower().partition("_")
        sections[section] = {**sections.get(section, {}), key: value} if key else value
    return settings_in_force(**sections)


def code_digest(root: Path, settings: Settings) -> str:
    """What a run's results follow from: a digest of the jobs' sources, their settings and rules."""
    digest = hashlib.sha256()
    for package in ("stream_jobs", "infra/contract", "infra/settings", "infra/clients", "infra/sql"):
        for path in sorted((root / package).rglob("*")):
            if path.suffix in (".py", ".sql", ".yaml", ".txt", ".conf"):  # measures; what a checkpoint keeps
                digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    kept = settings.model_dump(mode="json", include={"tz", "jobs", "journeys", "roads", "crash", "cohort"})
    digest.update(json.dumps(kept, sort_keys=True).encode())
    for rules in (settings.jobs.rules, settings.cohort.metrics):
        if rules is not None and rules.exists():
            digest.update(rules.read_bytes())
    return digest.hexdigest()[:16]


def same_jobs(kept: Run, **now: Any) -> None:
    """Raises ConfigError with what is different where jobs of ``now`` may not go on with what was begun."""
    different = [name for name, value in now.items() if getattr(kept, name) != value]
    if len(different) > 1 and "code" in different:
        different.remove("code")  # settings are in its digest
    if different:
        what = {"code": "another version of the jobs", "settings": "other settings"}
        reasons = ", ".join(what.get(name, f"another {name}") for name in different)
        raise ConfigError(
            f"run {kept.run_id} was begun with {reasons}: its checkpoints and tables do not fit. "
            f"Drop it (odograph replay drop {kept.run_id}) or give another --run"
        )
