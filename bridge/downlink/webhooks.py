"""Webhooks: the file that names them, signed POSTs (README) with a deadline, retries, delivery to one.

No header holds a line feed, so the signed parts cannot be cut differently.
"""

import hashlib
import hmac
import itertools
import math
import random
import re
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar
from urllib.parse import SplitResult, urlsplit

import orjson
import structlog
from psycopg.rows import dict_row
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from bridge.downlink import feed as alerts
from bridge.downlink.feed import Destination, Feed, Process, Repeats, Skip
from infra.clients.db import Connection, connected, socket_deadline, sql_of
from infra.clients.kafka import LOST, Record
from infra.contract.errors import ConfigError, ServiceError
from infra.contract.frame import Frame
from infra.contract.messages import Severity
from infra.settings.files import read_secret, wanted

SQL: Final = sql_of(__file__)
SECRET_BYTES: Final = 16  # a shorter secret can be guessed
HEADER_TIMESTAMP: Final = "Odograph-Timestamp"
HEADER_SIGNATURE: Final = "Odograph-Signature"
HEADER_ID: Final = "Idempotency-Key"
TOLERANCE_S: Final = 300

FIRST_S: Final = 0.5
MOST_S: Final = 60.0
ASKED_MOST_S: Final = 86_400.0  # the longest wait that a receiver may ask for, and a webhook's ``give_up_s``
AGAIN: Final = frozenset({408, 425, 429})  # of the 4xx only these may be better next time
ANSWER_BYTES: Final = 64 * 1024
TROUBLE_CHARS: Final = 200  # a status line of 64 KB goes neither into a log nor into a record

BATCH: Final = 50
READ_S: Final = 0.25

AWAY_S: Final = 5.0
ANSWER_S: Final = 5.0  # a database that stands still holds up no alert for longer
FORGET_S: Final = 86_400.0
COLUMNS: Final = ("alert_id", "vehicle_id", "rule", "incident_id", "fleet", "severity", "received_ms")
MARK: Final = dict.fromkeys(COLUMNS, "") | {"fleet": False, "received_ms": 0}
"""In the place of an alert: this webhook has been served."""

T = TypeVar("T")
_PLAIN: Final = re.compile(r"[!-~]+")

Outcome = Literal["accepted", "again", "refused"]


class Webhook(BaseModel):
    """A webhook. Neither address nor secret is ever shown: many a URL is a secret itself."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")]
    url: str = Field(repr=False)
    secret_file: Path
    min_severity: Severity = "MAJOR"
    fleet: str = ""  # of whose vehicles it is told; empty: of all
    notify: Literal["incident", "alert"] = "incident"
    timeout_s: float = Field(10.0, gt=0, le=120)
    give_up_s: float = Field(300.0, gt=0, le=86_400)
    repeat_s: float = Field(300.0, ge=0)
    _secret: bytes = PrivateAttr()

    def model_post_init(self, file: Any) -> None:
        """Check the address and read the secret; raises ConfigError."""
        option = f"downlink.webhooks {file}: {self.name}"
        try:
            url = urlsplit(self.url)
            right = url.scheme in ("http", "https") and url.hostname and url.port != 0
        except ValueError:  # a port that is no number, half an IPv6 address
            right = False
        if not right or url.username is not None or url.fragment or _PLAIN.fullmatch(self.url) is None:
            raise ConfigError(
                f"{option}: url: http(s)://host[:port]/path?query without user, fragment, spaces and "
                "non-ASCII characters is wanted"
            )
        secret_file = file.parent / self.secret_file
        self._secret = read_secret(secret_file, f"{option}: secret_file").strip().encode()
        if len(self._secret) < SECRET_BYTES:
            raise ConfigError(
                f"{option}: secret_file {secret_file}: at least {SECRET_BYTES} bytes are wanted"
            )

    @property
    def secret(self) -> bytes:
        """What its receiver shares with us."""
        return self._secret


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    webhook: tuple[Webhook, ...] = ()


def load(path: Path | None) -> tuple[Webhook, ...]:
    """The webhooks in a TOML file, none where there is no file. Raises ConfigError."""
    if path is None:
        return ()
    try:
        hooks = _File.model_validate(tomllib.loads(path.read_text()), context=path).webhook
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"downlink.webhooks {path}: {error}") from error
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ConfigError(f"downlink.webhooks {path}: {place}: {wanted(first)}") from error
    names = [hook.name for hook in hooks]
    if len(set(names)) < len(names) or "vehicles" in names:
        raise ConfigError(f"downlink.webhooks {path}: each webhook needs a name of its own, not `vehicles`")
    return hooks


def sign(secret: bytes, key: str, timestamp_s: int, body: bytes) -> str:
    """The signature header's value."""
    signed = b"%d\n%s\n" % (timestamp_s, key.encode()) + body
    return "v2=" + hmac.new(secret, signed, hashlib.sha256).hexdigest()


def signed_headers(secret: bytes, alert_id: str, timestamp_s: int, body: bytes) -> dict[str, str]:
    """The headers of one attempt."""
    return {
        "Content-Type": "application/json", "User-Agent": "odograph", HEADER_ID: alert_id,
        HEADER_TIMESTAMP: str(timestamp_s), HEADER_SIGNATURE: sign(secret, alert_id, timestamp_s, body),
    }  # fmt: skip


def genuine(secret: bytes, found: Mapping[str, str], body: bytes, now_s: float) -> bool:
    """What a receiver does: whether headers and body are signed with ``secret`` and of now."""
    stamp = found.get(HEADER_TIMESTAMP, "")
    if not (stamp.isascii() and stamp.isdigit()) or abs(now_s - int(stamp)) > TOLERANCE_S:
        return False
    expected = sign(secret, found.get(HEADER_ID, ""), int(stamp), body)
    return hmac.compare_digest(expected.encode(), found.get(HEADER_SIGNATURE, "").encode())


@dataclass(frozen=True, slots=True)
class Answer:
    """What an attempt gave: an HTTP ``status``, or 0 and the ``trouble`` where there was none."""

    status: int
    retry_after: str | None = None
    trouble: str = ""

    @property
    def outcome(self) -> Outcome:
        """Accepted (2xx), to be tried again, or refused for good (other 4xx; redirects are not followed)."""
        if 200 <= self.status < 300:
            return "accepted"
        return "again" if self.status == 0 or self.status >= 500 or self.status in AGAIN else "refused"

    def __str__(self) -> str:
        return f"HTTP {self.status}" if self.status else self.trouble


def pause_s(attempt: int, answer: Answer, now: datetime, chance: random.Random) -> float:
    """The pause after attempt ``attempt`` (from 1), s: 0.5 to 60, half drawn; Retry-After to a day.

    Retry-After (RFC 9110, 10.2.3) is seconds or a date; what is neither counts as 0.
    """
    whole = min(MOST_S, FIRST_S * 2.0 ** min(attempt - 1, 20))
    asked, asked_s = (answer.retry_after or "").strip(), 0.0
    if asked.isascii() and asked.isdigit():
        asked_s = float(asked)
    else:
        with suppress(ValueError, OverflowError):  # no date, or a zone or year beyond what can be reckoned
            then = parsedate_to_datetime(asked)
            asked_s = (then.replace(tzinfo=then.tzinfo or UTC) - now).total_seconds()
    return max(whole * chance.uniform(0.5, 1.0), min(asked_s, ASKED_MOST_S))


def post(url: SplitResult, headers: Mapping[str, str], body: bytes, timeout_s: float) -> Answer:
    """The answer; where there is none within ``timeout_s``, status 0 with what went wrong. Never raises."""
    kind = HTTPSConnection if url.scheme == "https" else HTTPConnection
    connection = kind(url.hostname or "", url.port, timeout=timeout_s)
    deadline_s = time.monotonic() + timeout_s
    try:
        connection.connect()
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:  # a name of many addresses: each has the whole time
            raise TimeoutError
        # a server that drips a byte now and then keeps every single read within its time-out
        with socket_deadline(connection.sock.fileno(), left_s) as wait:
            target = (url.path or "/") + (f"?{url.query}" if url.query else "")
            connection.request("POST", target, body, dict(headers))
            reply = connection.getresponse()
            reply.read(ANSWER_BYTES)
        if wait.over:  # what was cut off can look like a whole answer
            raise TimeoutError
        return Answer(reply.status, reply.getheader("Retry-After"))
    except (OSError, HTTPException, ValueError) as error:
        late = time.monotonic() >= deadline_s
        why = f"no answer within {timeout_s:g} s" if late else f"{type(error).__name__}: {error}"
        return Answer(0, trouble=why[:TROUBLE_CHARS])
    finally:
        connection.close()


class Settled:
    """Which alerts a webhook was told, or were not for it, by their ids: in the database.

    A committed offset is a place in a log, and does not know an alert that comes again behind it: a query
    without its checkpoint finds those of a week anew, and after a failover the other region's log is read
    from its beginning. While the database is away deliveries go on, and what is told meanwhile may be told
    again; of two ``regions`` only those of what is new. For one thread.
    """

    def __init__(self, url: str, destination: str, regions: bool) -> None:
        self._url, self._destination, self._regions = url, destination, regions
        self._not_before_s = self._forget_s = 0.0
        self._begun_ms = 0
        self._log = structlog.get_logger().bind(destination=destination)

    def begin(self) -> tuple[bool, list[Frame]]:
        """Whether this webhook was served before, in whichever region, and what it was told, oldest first.

        Raises ServiceError where the database is away and there are two regions: all might be told again.
        """

        def ask(database: Connection) -> tuple[bool, list[Frame]]:
            known = bool(database.execute(SQL["known"], (self._destination, [""])).fetchall())
            told = database.cursor(row_factory=dict_row).execute(SQL["told"], (self._destination,)).fetchall()
            return known, told[::-1]

        nothing: tuple[bool, list[Frame]] = False, []
        before = self._try(ask, nothing, required=self._regions)
        self._begun_ms = time.time_ns() // 1_000_000
        self.note([(MARK, False)])
        return before

    def of(self, alerts: Sequence[Frame]) -> set[str]:
        """The ids of those of these alerts that are settled.

        Raises ServiceError where the database is away, there are two regions and one is older than ``begin``:
        the other region may have told it.
        """
        ids = [alert["alert_id"] for alert in alerts]

        def ask(database: Connection) -> set[str]:
            return {alert_id for (alert_id,) in database.execute(SQL["known"], (self._destination, ids))}

        old = any(alert["received_ms"] < self._begun_ms for alert in alerts)
        return self._try(ask, set(), required=self._regions and old) if ids else set()

    def note(self, settled: Sequence[tuple[Frame, bool]]) -> None:
        """Alerts, each with whether it was told; returns when they are stored."""
        rows = [
            {name: alert[name] for name in COLUMNS} | {"destination": self._destination, "told": told}
            for alert, told in settled
        ]

        def store(database: Connection) -> None:
            database.cursor().executemany(SQL["note"], rows)
            if time.monotonic() >= self._forget_s:
                database.execute(SQL["forget"], (self._destination,))
                self._forget_s = time.monotonic() + FORGET_S

        if rows:
            self._try(store, None)

    def _try(self, work: Callable[[Any], T], otherwise: T, required: bool = False) -> T:
        if not required and (not self._url or time.monotonic() < self._not_before_s):
            return otherwise
        try:
            with connected(self._url, answer_s=ANSWER_S) as database:
                return work(database)
        except ServiceError as error:
            if required:
                raise
            self._not_before_s = time.monotonic() + AWAY_S
            self._log.warning("what is told now may be told again later", reason=str(error))
            return otherwise


class HookDelivery(Destination):
    """One alert after the other, in the log's order; each until 2xx, refusal, or ``give_up_s``."""

    def __init__(self, hook: Webhook, process: Process) -> None:
        super().__init__(hook.name, process)
        self._hook = hook
        self._again: Skip = "incident" if hook.notify == "incident" else "repeat"
        self._repeats = Repeats(1000 * hook.repeat_s, ("vehicle_id", "rule"))
        if hook.notify == "incident":
            self._repeats = Repeats(math.inf, ("incident_id", "fleet"))
        self._chance = random.Random()  # noqa: S311  jitter
        self._settled = Settled(process.endpoints.db_ingest_url, hook.name, self.regions)
        self._passed: list[tuple[Frame, bool]] = []
        self._behind: Callable[[], int] = lambda: 0

    def serve(self) -> None:
        """Deliver until trouble with Kafka (KafkaException, ServiceError) or ``stop``."""
        served, told = self._settled.begin()
        self._passed.clear()
        for alert in told:
            self._repeats.delivered(alert)
        whole = served and self.regions
        with self.feed(f"hook.{self.name}", whole=whole) as feed, self.incidents() as known:
            self.ready()
            self._behind = feed.lag
            moved: dict[int, int] = {}
            while not self.stop.is_set():
                batch = self.read(feed, known, BATCH, READ_S)
                before = self._settled.of([alert for _, alert in batch if alert])
                for found, alert in batch:
                    if alert and alert["alert_id"] in before:
                        self.skip("settled")
                    elif alert and not self._settle(found, alert):
                        return
                    if alert:
                        before.add(alert["alert_id"])
                    moved[found.partition] = found.offset + 1
                    if not self._passed:  # their rows come first
                        self._commit(feed, moved)
                self._settled.note(self._passed)
                self._passed.clear()
                self._commit(feed, moved)

    def _commit(self, feed: Feed, moved: dict[int, int]) -> None:
        feed.commit(moved)
        moved.clear()
        self._tell_lag()

    def _tell_lag(self) -> None:
        self.metrics.lag.labels(self.name).set(self._behind())

    def _settle(self, found: Record, alert: Frame) -> bool:
        """Deliver it, skip it, or give it up into a record; False when ``stop`` came first."""
        reason = alerts.suppressed(alert, self.silences, time.time_ns() // 1_000_000)
        if self._hook.fleet and self.fleets.of(alert["vehicle_id"]) != self._hook.fleet:
            reason = "fleet"
        elif alerts.late(alert):
            reason = "late"
        elif not alerts.severe(alert, self._hook.min_severity):
            reason = "severity"
        elif self._repeats.is_one(alert):
            reason = reason or self._again
        if reason is not None:
            self.skip(reason)
            self._passed.append((alert, False))
            return True
        try:
            if not self._deliver(alert, found):
                return False
        except LOST:
            raise
        except Exception as error:
            self.log.error("defect", exc_info=True)
            self._undelivered(alert, found, f"{type(error).__name__}: {error}")
        self._repeats.delivered(alert)
        self._settled.note([*self._passed, (alert, True)])
        self._passed.clear()
        return True

    def _deliver(self, alert: Frame, found: Record) -> bool:
        hook, begun_s, body = self._hook, time.monotonic(), orjson.dumps(alert)
        for attempt in itertools.count(1):
            if self.stop.is_set():
                break
            self.stop.require()
            headers = signed_headers(hook.secret, alert["alert_id"], int(time.time()), body)
            answer = post(urlsplit(hook.url), headers, body, hook.timeout_s)
            self.metrics.attempts.labels(self.name, answer.outcome).inc()
            if answer.outcome == "accepted":
                self.delivered(found)
                return True
            wait_s = pause_s(attempt, answer, datetime.now(UTC), self._chance)
            over = time.monotonic() + wait_s - begun_s > hook.give_up_s
            if answer.outcome == "refused" or over:
                self._undelivered(alert, found, f"given up after {attempt} attempts, the last: {answer}")
                return True
            self._tell_lag()  # one alert may be tried for a day
            self.stop.wait(wait_s)
        return False

    def _undelivered(self, alert: Frame, found: Record, why: str) -> None:
        self.give_up(found, why)
        self.log.warning("undelivered", alert_id=alert["alert_id"], why=why)
