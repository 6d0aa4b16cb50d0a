"""The database's side of the vault."""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import psycopg
from psycopg.rows import class_row, dict_row

from infra.clients.db import asked, connected, sql_of, system_user
from infra.contract import policy
from infra.contract.downlink import Signer
from infra.contract.errors import ConfigError, ServiceError
from infra.contract.evidence import statement
from infra.contract.legal_basis import LegalBasis
from infra.settings.settings import Settings
from infra.stack.access import identity
from infra.stack.access.identity import Trust
from stream_jobs.crashes import anchor, bundle
from stream_jobs.crashes.bundle import Evidence
from stream_jobs.crashes.custody import Entry, Key, Vault, sha256_hex, shown, unsigned

SQL: Final = sql_of(__file__)

ANSWER_S: Final = 15.0  # for one record: a database that stands still keeps nobody waiting at the page
LIST_LIMIT: Final = 1000
AT_ONCE: Final = 100  # records in memory at a time: one may have 256 KiB

_connected = partial(connected, row_factory=dict_row)
_NAME: Final = re.compile(r"(?:(?P<vehicle>[^/]*)/(?:(?P<boot>[0-9]+)/)?)?(?P<crash>.*)", re.DOTALL)
_KEY: Final = "vehicle_id = %(vehicle_id)s AND boot_id = %(boot_id)s AND crash_id = %(crash_id)s"


def records(url: str, vehicle: str | None, verdict: str | None) -> list[dict[str, Any]]:
    """The newest records, at most LIST_LIMIT. Raises ServiceError."""
    values = {"vehicle": vehicle, "verdict": verdict, "limit": LIST_LIMIT}
    return asked(url, SQL["records"], values, row_factory=dict_row)


def named(url: str, name: str) -> Key:
    """The record meant by [VEHICLE/[BOOT/]]CRASH_ID; raises ConfigError unless there is one, ServiceError."""
    parts = _NAME.fullmatch(name)
    values = {} if parts is None else parts.groupdict()
    keys = [_key(row) for row in asked(url, SQL["named"], values, row_factory=dict_row)]
    if not keys:
        raise ConfigError(f"{name}: no such crash record; odograph crash list shows them")
    if len(keys) > 1:
        meant = ", ".join("/".join(map(str, key)) for key in keys[:5])
        raise ConfigError(f"{name}: {len(keys)} records have this name; give one of {meant}")
    return keys[0]


def evidence(url: str, key: Key) -> Evidence:
    """All that is known of a record, as of one moment. Raises ServiceError."""
    where = _where(key)
    with _connected(url, answer_s=ANSWER_S) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        query = f"SELECT * FROM serving.{{}} WHERE {_KEY}"  # noqa: S608  constants of this file
        record = connection.execute(query.format("crash_record").encode(), where).fetchone()
        if record is None:
            raise ServiceError(f"record {key[2]} of {key[0]} is gone")
        parts = [
            connection.execute(f"{query.format(view)} ORDER BY {by}".encode(), where).fetchall()
            for view, by in (("crash_delta_v", "sample"), ("crash_pre_crash", "sample"), ("custody", "entry"))
        ]
        return Evidence(record, parts[0], parts[1], [Entry(**row) for row in parts[2]])


def lock(url: str, key: Key, by: str, why: str, notary: Signer | None) -> bool:
    """Lock a record for good; False where it was locked before. Raises ServiceError."""
    return _done(url, "locked", key, f"{by}: {why}", notary, by=by, why=why)


def retire(url: str, key: Key, why: str, notary: Signer | None) -> bool:
    """Delete a record that is not locked; False where there is none. Raises ServiceError."""
    return _done(url, "deleted", key, why, notary, why=why)


def export(
    settings: Settings, urls: tuple[str, str], key: Key, by: str, basis: LegalBasis, actor: str | None = None
) -> tuple[str, bytes, str]:
    """A record's bundle: its file's name, its bytes and their SHA-256; noted before it can leave.

    ``urls``: of the reader and of who notes; ``actor``: who signed in. Raises ServiceError, ConfigError.
    """
    found = evidence(urls[0], key)
    if not basis.names_vehicle:
        found = bundle.unnamed(found, identity.pseudonym(settings, key[0]))
    body = bundle.made(found, basis)
    digest = sha256_hex(body)
    words, notary = {"by": by.strip(), "basis": str(basis), "digest": digest}, identity.notary(settings)
    _done(urls[1], "exported", key, f"{by.strip()}, {basis}", notary, actor, ANSWER_S, **words)
    return bundle.name_of(found.record), body, digest


def _done(
    url: str, action: str, key: Key, detail: str, notary: Signer | None, actor: str | None = None,
    answer_s: float | None = None, **words: str,
) -> bool:  # fmt: skip
    """An action with its entry in the custody log, which this session signs; whether it changed anything.

    The digest is that of what left (``words``), else the record's own.
    """
    with _connected(url, answer_s=answer_s, actor=actor or system_user()) as connection:
        signature = ""
        if notary is not None:
            found = words if "digest" in words else connection.execute(SQL["digest"], _where(key)).fetchone()
            digest = found["digest"] if found else ""
            signature = notary.sign(statement(connection.info.user, action, key, digest, detail))
        row = connection.execute(SQL[action], {**_where(key), **words, "signature": signature}).fetchone()
        return bool(row and row["done"])


def vault(url: str, devices: Trust | None) -> Vault:
    """The custody log and the records as readers see them. Raises ServiceError."""
    with _connected(url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        entries = [Entry(**row) for row in connection.execute(SQL["custody"], {"since": 0})]
        with connection.cursor("records") as cursor:
            cursor.itersize = AT_ONCE
            records = {_key(row): shown(row, devices) for row in cursor.execute(SQL["shown"])}
        places = connection.execute(SQL["read_to"]).fetchall()
        read_to = {row["partition"]: row["next_offset"] for row in places}
        logs = {row["log_generation"] for row in places} - {""}
        begins = {row["partition"]: row["begins_at"] for row in places}
        dead = {row["digest"] for row in connection.execute(SQL["dead"])}
        return Vault(entries, records, read_to, dead, logs, begins)


def anchor_log(settings: Settings, url: str) -> int:
    """Anchor the custody log's head, what came since the last anchor checked; as ``anchor.put``."""
    known, witness = anchor.read(settings, alone=True), identity.witness(settings)
    if witness is None:
        return 0
    entries = asked(url, SQL["custody"], {"since": known.last}, row_factory=class_row(Entry))
    return anchor.put(settings, known, entries, unsigned(entries, witness, known.last or len(entries)))


def stores(url: str) -> set[str]:
    """Who may store records: users with the event store's rights, but superusers. Raises ServiceError."""
    return {role for (role,) in asked(url, SQL["stores"], (policy.EVENTS,))}


def _where(key: Key) -> dict[str, Any]:
    return dict(zip(("vehicle_id", "boot_id", "crash_id"), key, strict=True))


def _key(row: Mapping[str, Any]) -> Key:
    return row["vehicle_id"], row["boot_id"], row["crash_id"]
