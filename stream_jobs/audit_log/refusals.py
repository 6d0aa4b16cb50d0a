"""What brokers and our own programs refused, from their logs into the audit log: counted by minute, so no
flood fills it.
"""

import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from psycopg.types.json import Jsonb

from infra.clients.locks import locked
from infra.clients.tables import plain
from infra.contract.topics import VEHICLE_ID
from stream_jobs.app.database import Database, fetch

MINUTE_S: Final = 60
SETTLED_S: Final = 5.0  # a line is in the log by then
MOST: Final = 20  # entries of a log's minute; what there is beyond them is one more
READ_BYTES: Final = 1 << 20  # at a time
NAME_CHARS: Final = 200
NOBODY: Final = "nobody known"
_NOTE: Final = "SELECT odograph.note_refusals(%(service)s, to_timestamp(%(minute_s)s), %(found)s)"
_NOTED: Final = "SELECT service, extract(epoch FROM minute)::bigint FROM odograph.refusal_noted"

_KAFKA: Final = re.compile(
    r"(?P<at>\S+) .*?(?:"
    r"Principal = \w+:(?P<who>.*?) is Denied operation = (?P<operation>\w+) from host = \S+"
    r" on resource = (?P<kind>\w+):\w+:(?P<name>.*) for request = "
    r"|Failed authentication with /(?P<host>\S+) \(.*\((?P<why>[^()]*)\))"
)
_MOSQUITTO: Final = re.compile(
    r"(?P<at>\d{1,12}): (?:"
    r"(?:OpenSSL Error\[0\]|Client connection from \S+ failed): .*:(?!unexpected eof)(?P<tls>[^:]+?)\.?$"
    r"|Client (?P<who>.+?) disconnected(?:, | due to )(?!out of memory|protocol error)(?P<why>.*?)\.?$"
    r"|Denied PUBLISH from (?P<sender>.+?) \(d\d, q\d, r\d, m\d+, '(?P<topic>.*)', \.\.\. \(\d+ bytes\)\)$)"
)
"""A connection that breaks is an end of file or an error of the protocol, too: neither is a refusal. A
handshake that fails as the broker takes the connection has the second line, a later one the first."""


class Refusal(NamedTuple):
    """Of whom, by the word of who refused, and what."""

    principal: str
    what: str


def of_kafka(line: str) -> tuple[float, Refusal] | None:
    """When [s since 1970] and what a line of Kafka's log tells was refused; None: nothing."""
    if ("is Denied" not in line and "Failed authentication" not in line) or not (found := _KAFKA.match(line)):
        return None
    try:
        at_s = datetime.fromisoformat(found["at"]).timestamp()
    except ValueError:  # a name with a line break begins a line
        return None
    if found["who"] is None:
        return at_s, Refusal(NOBODY, f"connect from {found['host']}: {found['why']}")
    operation, kind = found["operation"].lower(), found["kind"].lower()
    return at_s, Refusal(found["who"], f"{operation} {kind} {found['name']}")


def of_mosquitto(line: str) -> tuple[float, Refusal] | None:
    """As ``of_kafka``. What a client may not publish stands in the log with ``mqtt.log_refused`` only."""
    found = _MOSQUITTO.match(line)
    if found is None:
        return None
    if (sender := found["sender"]) is not None:  # of vehicles in the topic no more than whether it is one
        topic = VEHICLE_ID.sub(lambda name: "{me}" if name[0] == sender else "{other}", found["topic"])
        return float(found["at"]), Refusal(sender, f"publish {topic}")
    who, why = (NOBODY, found["tls"]) if found["who"] is None else (found["who"], found["why"])
    return float(found["at"]), Refusal(who, f"connection: {why}")


def of_program(line: str) -> tuple[float, Refusal] | None:
    """As ``of_kafka``, of a program of ours (``infra.clients.log.refused``)."""
    if '"event": "refused"' not in line:
        return None
    try:
        told = json.loads(line)
        at_s = datetime.fromisoformat(told["at"]).timestamp()
        return at_s, Refusal(str(told["who"]) or NOBODY, str(told["what"]))
    except (ValueError, KeyError, TypeError):
        return None


PARSERS: Final = {"kafka": of_kafka, "mosquitto": of_mosquitto}
"""By the first word of the log's name; all others are programs'."""


class _Log:
    """A log that grows, and begins anew when it is full (``put_full_log_aside``); lines whole, each once."""

    def __init__(self, path: Path) -> None:
        self._path, self._at = path, 0
        self._aside = 0  # the number of the file put aside that was read; 0: none

    def lines(self) -> Iterator[str]:
        """What has come since; the rest of what was put aside first, all of it at the beginning."""
        aside = self._path.with_suffix(".log.1")
        with locked(self._path, shared=True):
            number = aside.stat().st_ino if aside.exists() else 0
            if number not in (self._aside, 0):
                yield from self._rest(aside)
                self._at = 0
            self._aside = number
            if self._path.stat().st_size < self._at:
                self._at = 0
            yield from self._rest(self._path)

    def _rest(self, path: Path) -> Iterator[str]:
        with path.open("rb") as file:
            part = b"x" * READ_BYTES
            while len(part) == READ_BYTES:
                file.seek(self._at)
                part = file.read(READ_BYTES)
                whole = part[: part.rfind(b"\n") + 1] or (part if len(part) == READ_BYTES else b"")
                self._at += len(whole)
                yield from whole.decode(errors="replace").split("\n")


class Refusals:
    """Notes the refusals of each minute that has ended; called again and again."""

    def __init__(self, database: Database, home: Path, now: Callable[[], float] = time.time) -> None:
        self._database, self._folder, self._now = database, home / "logs", now
        self._logs: dict[str, _Log] = {}
        self._open = defaultdict[str, defaultdict[int, Counter[Refusal]]](lambda: defaultdict(Counter))
        self._noted: dict[str, int] | None = None

    def __call__(self) -> int:
        """How many entries the audit log got."""
        if self._noted is None:
            self._noted = dict(map(tuple, self._database.run(lambda connection: fetch(connection, _NOTED))))
        ended_s, noted = (self._now() - SETTLED_S) // MINUTE_S * MINUTE_S, 0
        for path in self._folder.glob("*.log"):
            self._read(path, self._noted.get(path.stem, 0))
        for service, minutes in self._open.items():
            for minute_s in sorted(minute_s for minute_s in minutes if minute_s < ended_s):
                noted += self._note(service, minute_s, minutes[minute_s])
                del minutes[minute_s]
        return noted

    def _read(self, path: Path, noted_s: int) -> None:
        service = path.stem
        parse = PARSERS.get(service.partition("-")[0], of_program)
        minutes = self._open[service]
        for line in self._logs.setdefault(service, _Log(path)).lines():
            if told := parse(line):
                minute_s = int(told[0] // MINUTE_S * MINUTE_S)
                if minute_s > noted_s:
                    counts, one = minutes[minute_s], Refusal(*(plain(text)[:NAME_CHARS] for text in told[1]))
                    counts[one if one in counts or len(counts) < MOST else Refusal(NOBODY, "others")] += 1

    def _note(self, service: str, minute_s: int, counts: Counter[Refusal]) -> int:
        found = [
            {"principal": who, "vehicle": VEHICLE_ID.fullmatch(who) and who, "what": what, "times": times}
            for (who, what), times in counts.most_common()
        ]
        values: dict[str, Any] = {"service": service, "minute_s": minute_s, "found": Jsonb(found)}
        noted: int = self._database.run(lambda connection: fetch(connection, _NOTE, values))[0][0]
        assert self._noted is not None
        self._noted[service] = minute_s
        return noted
