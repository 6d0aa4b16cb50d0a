"""Which of two regions acts: one change from one to the other, and what the copy of the log lacked then.

One row of the database says it. Programs of the region that does not act take no lease, its broker does not
run, and its mirror copies the other one's log. A log that was written to is never written to as a copy: it
begins anew.
"""

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import psycopg

from infra.clients.db import Connection, asked, connected, session, sql_of
from infra.clients.waiting import looks
from infra.contract.errors import ConfigError, ServiceError
from infra.contract.topics import COPIED
from infra.settings.sections import Region
from infra.settings.settings import Settings, endpoints
from infra.stack import processes
from infra.stack.hosts import mirror
from infra.stack.hosts.mirror import Place, Span
from infra.stack.kafka import create_topics, delete_topics
from infra.stack.query_offsets import all_committed
from infra.stack.supervisor import odograph

SQL: Final = sql_of(__file__)
PASSIVE_FILE: Final = "passive"  # in a home in which nothing but the mirror may run
BEGUN: Final = "its log is begun anew"
"""In that file, where the log here has nothing of its own and is no copy yet."""
POLL_S: Final = 0.5
MIRROR_ENDS_S: Final = 60.0
RESET_S: Final = 300.0
Say = Callable[[str], None]


class Role(NamedTuple):
    """The region that acts, and the one whose log is the copy of the other's; empty: none is."""

    active: str
    copies_to: str

    def __str__(self) -> str:
        return f"{self.active} acts, the mirror of {self.copies_to or 'neither'} copies"


class Uncopied(NamedTuple):
    """Records that a copy lacked at a failover; ``came``: it has them by now."""

    region: str
    topic: str
    partition: int
    from_offset: int
    known_to: int
    came: bool

    def __str__(self) -> str:
        came, span = "came" if self.came else "not here yet", f"{self.from_offset} to {self.known_to - 1}"
        return f"{self.topic} {self.partition}: {span} of {self.region}, {came}"


def role(url: str) -> Role | None:
    """None where there is one region only. Raises ServiceError."""
    try:
        with session(url) as database:
            row = database.execute(SQL["role"]).fetchone()
    except psycopg.errors.UndefinedTable:  # before the first migration
        return None
    except psycopg.Error as error:
        raise ServiceError(f"database: {str(error).strip()}; after a failure promote the standby") from error
    return None if row is None else Role(*row)


def found(region: Region, url: str) -> None:
    """The first region that is brought up acts, the other one follows. Idempotent; raises ServiceError."""
    if region.other:
        with connected(url) as database:
            database.execute(SQL["found"], (region.name, region.other_name))


def uncopied(url: str) -> list[Uncopied]:
    """Of the last failover. Raises ServiceError."""
    return [Uncopied(*row) for row in asked(url, SQL["uncopied"])]


def judged_to_ms(url: str) -> int | None:
    """The last sign of life of what judged records in the region before, ms; None where there is none."""
    return next((int(at_ms) for (at_ms,) in asked(url, SQL["judged_to"])), None)


def fail_over(settings: Settings, to: str, catch_up_s: float, say: Say) -> None:
    """This home's region acts from now on, in one transaction; what its log lacks is named. Idempotent.

    Where the other region's Kafka answers, the copy is waited for. Raises ConfigError, ServiceError.
    """
    region, prefix = settings.region, settings.kafka.prefix
    if to != region.name:
        here = f"this home is of region {region.name or '(no name)'}"
        raise ConfigError(f"--to {to}: {here}; give the command where {to} is")
    where = endpoints(settings, ("kafka_bootstrap", "db_owner_url"))
    now = _known_role(where.db_owner_url)
    if now.active == to:
        say(f"region {to} acts already")
        return
    if now.copies_to != to:
        raise ConfigError(f"this log is no copy of {now.active}'s: first, here: odograph failover --follow")
    kafka = where.kafka_bootstrap
    lacking: dict[Place, Span] | None = None
    with suppress(ServiceError):  # it is away
        lacking = _lacking(region.other_kafka, kafka, region.other_name, prefix, catch_up_s)
    least = "at least " if lacking is None else ""
    copied = mirror.copied(kafka, region.other_name, prefix)
    with connected(where.db_owner_url) as database:
        if lacking is None:
            lacking = mirror.behind(known_spans(database, prefix), copied)
        rows = [(now.active, *place, *span) for place, span in sorted(lacking.items())]
        if not database.execute(SQL["act"], {"region": to, "ttl_s": settings.lease.ttl_s}).rowcount:
            raise ServiceError("another command has changed the regions: see odograph status, then again")
        database.cursor().executemany(SQL["lacks"], rows)
        database.execute(SQL["hold"])
        database.execute(SQL["fence"])
        database.execute(SQL["anew"])
    say(f"region {to} acts")
    count = sum(end - begin for begin, end in lacking.values())
    say(f"{least}{count:,} records of {now.active} were not copied")
    for each in uncopied(where.db_owner_url):
        say(str(each))


def follow(settings: Settings, wait_s: float, say: Say) -> None:
    """This region's log begins anew as the copy of the active one's, once that has all that is in it.

    Raises ConfigError; ServiceError where that is not so within ``wait_s``. Killed, it can be done again.
    """
    region, prefix, passive = settings.region, settings.kafka.prefix, settings.paths.home / PASSIVE_FILE
    where = endpoints(settings, ("kafka_bootstrap", "db_owner_url"))
    now = _known_role(where.db_owner_url)
    if now.active == region.name:
        raise ConfigError(f"region {region.name} acts: the other one follows")
    if not passive.exists():
        raise ConfigError("programs here may still write to the log; first, here: odograph up")
    if now.copies_to != region.name and passive.read_text() != BEGUN:  # a copy has nothing of its own
        _require_whole(settings, where.kafka_bootstrap, wait_s)
    passive.write_text(BEGUN)
    _copy_to("", where.db_owner_url, region.name)
    _until_mirror_ended(where.db_owner_url)
    delete_topics(where.kafka_bootstrap, prefix)
    mirror.forget(where.kafka_bootstrap, region.other_name)
    create_topics(where.kafka_bootstrap, prefix, settings.kafka)
    say(_put_aside(settings.paths.place("checkpoints")))
    passive.write_text("")
    _copy_to(region.name, where.db_owner_url, region.name)
    say(f"region {region.name} follows {now.active}: its log is copied from the beginning")


def known_spans(database: Connection, prefix: str) -> dict[Place, Span]:
    """What the active region's log holds at least: what its programs and its watch have read of it."""
    ends = database.execute(SQL["ends"]).fetchall()
    for done in all_committed(database).values():
        ends += ((topic, p, end) for topic, of in done.ends.items() for p, end in of.items())
    told = sorted((topic.removeprefix(prefix), p, end) for topic, p, end in ends)
    return {(topic, p): (0, end) for topic, p, end in told if topic in COPIED}  # the furthest is the last one


def _known_role(url: str) -> Role:
    now = role(url)
    if now is None:
        raise ConfigError("the database knows one region only: ODOGRAPH_REGION_OTHER, odograph up, in both")
    return now


def _lacking(log: str, copy: str, source: str, prefix: str, wait_s: float) -> dict[Place, Span]:
    """What the copy in another Kafka lacks of the log of region ``source``, at the latest after this time."""
    lacking: dict[Place, Span] = {}
    for _ in looks(wait_s, POLL_S):
        if not (lacking := mirror.behind(mirror.spans_of(log, prefix), mirror.copied(copy, source, prefix))):
            break
    return lacking


def _require_whole(settings: Settings, bootstrap: str, wait_s: float) -> None:
    """Raises ServiceError unless the other region's log has all of this one's."""
    region = settings.region
    if lacking := _lacking(bootstrap, region.other_kafka, region.name, settings.kafka.prefix, wait_s):
        spans = ", ".join(f"{t} {p}: {a} to {b - 1}" for (t, p), (a, b) in sorted(lacking.items()))
        raise ServiceError(f"{region.other_name} has not got all of this log, its mirror brings it: {spans}")


def _until_mirror_ended(url: str) -> None:
    for _ in looks(MIRROR_ENDS_S, POLL_S):
        if not asked(url, SQL["mirrors"]):
            return
    raise ServiceError(f"the other region's mirror has not ended within {MIRROR_ENDS_S:g} s")


def _copy_to(to: str, url: str, region: str) -> None:
    """Whose mirror copies from now on; raises ConfigError where this region has come to act meanwhile."""
    with connected(url) as database:
        if not database.execute(SQL["copies_to"], (to, region)).rowcount:
            raise ConfigError(f"region {region} acts by now: the other one follows")


def _put_aside(place: str) -> str:
    """Checkpoints of the old log, out of the way of the queries, which begin anew; raises ServiceError."""
    if "://" in place:
        command = odograph("jobs", "reset", "all")  # Spark's Java knows how to get there
        processes.finished(f"{place}: checkpoints are of the old log", command, RESET_S)
        return f"checkpoints of the old log were put aside: {place}.old"
    aside = Path(f"{place}.old")
    for one in Path(place).glob("*"):
        aside.mkdir(parents=True, exist_ok=True)
        shutil.move(one, aside / f"{one.name}-{time.time_ns()}")  # which may be another disk
    return f"checkpoints of the old log were put aside: {aside}"
