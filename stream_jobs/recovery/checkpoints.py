"""Where a query keeps its checkpoint, and what becomes of one that other operators wrote.

State is worth nothing to operators that did not write it. A query with state therefore has a version of its
operators; it stands in its checkpoint. A checkpoint of an older version, or of a query that is no more, is
put aside: the query starts anew, from the earliest record that Kafka keeps, to equal windows. One of a newer
version is left to that: a standby that was not replaced yet must not undo an upgrade.
"""

import json
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import structlog

from infra.clients.leases import POLL_S, holder_of
from infra.clients.waiting import looks
from infra.contract.errors import ConfigError
from infra.settings.settings import Settings, endpoints
from infra.stack import processes
from infra.stack.query_offsets import Offsets, ends_in
from stream_jobs.recovery.files import Files

MARK: Final = "operators"  # file: the version of the operators that wrote the checkpoint, and their buckets
METADATA: Final = "state/0/_metadata/v2"
SCHEMA: Final = re.compile(r'"[^"]*(/state/[0-9]+/_stateSchema/[^"]+)"')
PARTITIONS: Final = "spark.sql.shuffle.partitions"
LOGS: Final = "logs"  # file: the identity of the log that its offsets are places in, by topic
ASIDE: Final = ".old"  # ends the name of the folder, beside the checkpoints', of those put aside

NEVER_RESET: Final = {
    "archive": "its files and its lines in the ledger hang on its checkpoint, and Kafka has dropped nothing "
    "that it had not read: see Reset and back-fill in stream_jobs/recovery/README.md"
}
ALL: Final = "all"  # in the place of a query's name
PROGRAM_OF: Final = {"instant": "instant", "instant-crash": "instant"}  # a query's program, if not jobs

log = structlog.get_logger("stream_jobs.recovery.checkpoints")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The checkpoint of a query below the root ``files``."""

    files: Files
    query: str

    @property
    def location(self) -> str:
        return self.files.at(self.query)

    def read(self, name: str) -> str | None:
        """The text of one of its files; None without one."""
        return self.files.read(f"{self.query}/{name}")

    def write(self, name: str, text: str) -> None:
        self.files.write(f"{self.query}/{name}", text)

    def batches(self, name: str) -> list[int]:
        """Numbers of the batches in ``offsets`` or ``commits``, in order: the newest twenty or so."""
        return sorted(int(each) for each in self.files.names(f"{self.query}/{name}") if each.isdecimal())

    def settle(self) -> None:
        """Make it readable where it lies: Spark notes the whole paths of its states' schemas."""
        for name in self.files.names(f"{self.query}/{METADATA}"):
            if name.isdecimal():
                text = self.read(f"{METADATA}/{name}") or ""
                here = SCHEMA.sub(lambda found: f'"{self.location}{found[1]}"', text)
                if here != text:
                    self.write(f"{METADATA}/{name}", here)

    def query_id(self) -> str | None:
        text = self.read("metadata")
        return None if text is None else str(json.loads(text)["id"])

    def partitions(self) -> int | None:
        """Partitions that its state lies in, whatever the settings say now; None before its first batch."""
        first = next(iter(self.batches("offsets")), None)
        text = None if first is None else self.read(f"offsets/{first}")
        return None if text is None else int(json.loads(text.splitlines()[1])["conf"][PARTITIONS])

    def ends_of(self, batch_id: int) -> Offsets | None:
        """Where a batch ends in its topics; None where that is forgotten, or before the first one."""
        text = self.read(f"offsets/{batch_id}")
        return None if text is None else ends_in(text)


def logs_of(checkpoint: Checkpoint) -> dict[str, str]:
    """By topic the log that its offsets are places in, as far as that was noted."""
    return dict(json.loads(checkpoint.read(LOGS) or "{}"))


def of_logs(checkpoint: Checkpoint, logs: Mapping[str, str]) -> None:
    """Note the log that a checkpoint's offsets are places in, each topic's id by Kafka, at its first start.

    Raises ConfigError where they are of another one: records would be left out, or read again.
    """
    known = logs_of(checkpoint)
    for topic, log in logs.items():
        if known.setdefault(topic, log) != log:
            raise ConfigError(
                f"the checkpoint of {checkpoint.query} ({checkpoint.location}) is of another log: {topic} "
                f"was made anew, or this is another cluster ({known[topic]}; now {log}). To begin anew with "
                f"all that this log keeps: odograph jobs reset {checkpoint.query}"
            )
    if known != logs_of(checkpoint):
        checkpoint.write(LOGS, json.dumps(known))


def checkpoint_of(
    files: Files, query: str, operators: int | str | None, replaces: Iterable[str] = (),
    buckets: int | None = None,
) -> Checkpoint:  # fmt: skip
    """The checkpoint of ``query``, fit for its ``operators``; None: without state, any checkpoint is.

    Of two numbers the higher one is the newer version, of texts none is. Raises ConfigError where its state
    lies in another number of ``buckets``, or a newer version wrote it.
    """
    checkpoint = Checkpoint(files, query)
    if operators is None:
        return checkpoint
    version, *held = (checkpoint.read(MARK) or "").split() or ("",)
    if isinstance(operators, int) and version.isdecimal() and int(version) > operators:
        raise ConfigError(
            f"the checkpoint of {query} ({checkpoint.location}) is of a newer version (operators {version}, "
            f"here {operators}), which is left as it is: upgrade this host too. To go back to this one, on "
            f"every host: odograph jobs reset {query}; it reads again what Kafka keeps"
        )
    if version != str(operators):
        for name in (query, *replaces):
            put_aside(files, name)
        checkpoint.write(MARK, f"{operators}\n" if buckets is None else f"{operators}\n{buckets}\n")
    elif buckets is not None and held != [str(buckets)]:
        raise ConfigError(
            f"ODOGRAPH_JOBS_VEHICLE_BUCKETS is {buckets}, and the state of {query} lies in {' '.join(held)} "
            f"buckets: set it back, or `odograph jobs rescale {buckets}` where that is a multiple, or "
            f"`odograph jobs reset {query}`: it reads again what Kafka keeps"
        )
    checkpoint.settle()
    return checkpoint


def is_of(checkpoint: Checkpoint, logs: Mapping[str, str]) -> bool:
    """Whether its offsets are places in one of these logs, as far as that is known."""
    noted = logs_of(checkpoint)
    return not logs or any(noted.get(topic, log) == log for topic, log in logs.items())


def reset(
    files: Files, settings: Settings, query: str, logs: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Put a query's checkpoint aside by request; where it is kept. Raises ConfigError, ServiceError.

    The query must not be running. It starts anew from the earliest record that Kafka keeps. One that is never
    reset is where its checkpoint is not of the ``logs`` at hand: it has nothing of those.
    """
    if query in NEVER_RESET and is_of(Checkpoint(files, query), logs):
        raise ConfigError(f"{query}: {NEVER_RESET[query]}")
    require_stopped(settings, query)
    kept = put_aside(files, query)
    if kept is None:
        known = ", ".join(sorted({*files.names("")}.difference(NEVER_RESET))) or "none"
        raise ConfigError(f"no checkpoint of {query} in {files.root}; there are: {known}")
    return kept


def require_stopped(settings: Settings, query: str) -> None:
    """Raises ConfigError where the program of a query runs, here or wherever the holder of its lease is.

    A lease that a killed one left is waited for, ``lease.ttl_s``. Raises ServiceError where the database,
    which knows, does not answer; where none is named and no stack was started, nobody has leases.
    """
    program = PROGRAM_OF.get(query, "jobs")
    if processes.find(settings.paths.home / "run", program) is not None:
        raise ConfigError(
            f"{program} runs and would write on: stop it first (odograph down, or its own Ctrl-C)"
        )
    url = endpoints(settings, ()).db_ingest_url
    for is_last in looks(settings.lease.ttl_s, POLL_S) if url else ():
        holder = holder_of(url, program, settings.region.name)
        if holder is None:
            return
        if is_last:
            raise ConfigError(
                f"{program} runs at {holder}, which has its lease, and would write on: stop it there first, "
                "and whoever stands by for it (odograph status)"
            )


def put_aside(files: Files, query: str) -> str | None:
    """Where the checkpoint is kept; None where there was none."""
    if query not in files.names(""):
        return None
    target = f"{files.root}{ASIDE}/{query}-{time.time_ns()}"
    files.move(query, target)
    log.warning("checkpoint put aside: the query reads again what Kafka keeps", kept=target)
    return target
