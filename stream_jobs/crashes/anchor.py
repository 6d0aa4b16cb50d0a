"""A log's head outside the database: signed, and time-stamped by RFC 3161 (openssl ts).

A log's folder (``<home>/anchors``: the custody log) holds a file a head: how many entries, the last one's
hash, the SHA-256 of the file before, signed with the evidence key; and beside it its time stamp.
"""

import hashlib
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path
from typing import Final, NamedTuple

import orjson

from infra.contract.errors import ServiceError
from infra.contract.frame import Frame
from infra.settings.files import write_whole
from infra.settings.settings import Settings
from infra.stack.access import identity
from stream_jobs.crashes.custody import Anchors, LogEntry, broken, otherwise_anchored


class Log(NamedTuple):
    """A log whose heads are anchored: the folder of the home, the kind that is signed, how it is called."""

    folder: str
    kind: str
    name: str
    command: str


CUSTODY: Final = Log("anchors", "anchor", "the custody log", "odograph crash verify")
ANSWER_S: Final = 15.0
MOST_BYTES: Final = 1 << 16  # of a time stamp
TSA: Final = """
[tsa]
serial = {folder}/serial
default_policy = 1.3.6.1.4.1.13762.3
digests = sha256
signer_digest = sha256
ess_cert_id_alg = sha256
"""
"""What openssl ts wants to be told of an authority; the policy is that of RFC 3161's free services."""


def read(settings: Settings, log: Log = CUSTODY, *, alone: bool = False) -> Anchors:
    """The anchors of this home: each held against its signature and the one before, the newest its stamp.

    ``alone``: the newest only; with what the log says from its entry on, the next one can be made.
    """
    witness = identity.witness(settings)
    files = sorted((settings.paths.home / log.folder).glob("*.json"))[-1 if alone else 0 :]
    if witness is None or not files:
        return Anchors(words="NOT checked: no evidence key here" if witness is None else "NOT anchored")
    heads, wrong, before = dict[int, str](), [], ""
    for path in files:
        raw = path.read_bytes()
        opened = witness.opened(log.kind, raw)
        told: Frame = orjson.loads(opened) if opened is not None else {"previous": None}
        if opened is None or (told["previous"] != before and not alone):
            wrong.append(f"{path}: is not signed by this service, or does not follow the anchor before")
        else:
            heads[told["entry"]] = told["sha256"]
        before = hashlib.sha256(raw).hexdigest()
    words, newest = f"{len(heads)} heads, the last one at entry {max(heads, default=0)}", files[-1]
    if not (stamp := newest.with_suffix(".tsr")).exists():
        return Anchors(heads, wrong, f"{words}, NOT time-stamped", newest)
    try:
        return Anchors(heads, wrong, f"{words}, time-stamped {_stamped_at(settings, newest, stamp)}", newest)
    except ServiceError as error:
        return Anchors(heads, [*wrong, f"{newest}: its time stamp does not hold: {error}"], words, newest)


def put(
    settings: Settings, known: Anchors, entries: Sequence[LogEntry], wrong: Iterable[str] = (),
    log: Log = CUSTODY,
) -> int:  # fmt: skip
    """Sign and stamp a log at the last of ``entries``; its number, 0 where there is nothing to anchor.

    ``known``: the newest anchor, alone; ``entries``: from its entry on. Again at the same head it only gets
    the stamp that is missing. Raises ServiceError where the log is not what was anchored before or something
    is ``wrong``, or no time-stamp authority answers; ConfigError.
    """
    signer = identity.notary(settings)
    if signer is None:
        return 0
    found = [*broken(entries, known.last), *otherwise_anchored(entries, known), *wrong]
    if found:
        raise ServiceError(f"{log.name} is not anchored: {found[0]}; see: {log.command}")
    if not entries:
        return 0
    last, path = entries[-1], known.newest
    if path is None or last.entry not in known.heads:
        before = "" if path is None else hashlib.sha256(path.read_bytes()).hexdigest()
        told = {"entry": last.entry, "sha256": last.sha256, "previous": before}
        path = settings.paths.home / log.folder / f"{last.entry:012d}.json"
        write_whole(path, signer.sealed(log.kind, orjson.dumps(told | {"at": f"{datetime.now(UTC):%FT%TZ}"})))
    if not path.with_suffix(".tsr").exists():
        _stamp(settings, path)
    return last.entry


def _stamp(settings: Settings, path: Path) -> None:
    """Put the time stamp of a file beside it, from the authority in force."""
    home, url = settings.paths.home.absolute(), settings.crash.tsa_url
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        query, answer = Path(folder) / "query", Path(folder) / "answer"
        _openssl("-query", "-data", path, "-sha256", "-cert", "-out", query)
        if url:
            kind = {"Content-Type": "application/timestamp-query"}
            request = urllib.request.Request(url, query.read_bytes(), kind)  # noqa: S310  http or https
            try:
                with urllib.request.urlopen(request, timeout=ANSWER_S) as response:  # noqa: S310
                    answer.write_bytes(response.read(MOST_BYTES))
            except (OSError, HTTPException) as error:
                raise ServiceError(f"time-stamp authority {url}: {error}") from error
        else:
            (config := Path(folder) / "tsa.cnf").write_text(TSA.format(folder=path.parent))
            ours = identity.time_stamper(home)
            keys = ("-inkey", ours.key, "-signer", ours.certificate)
            section = ("-config", config, "-section", "tsa")
            _openssl("-reply", *section, "-queryfile", query, *keys, "-out", answer)
        _stamped_at(settings, path, answer)  # a refusal is an answer too, and is asked for again
        answer.replace(path.with_suffix(".tsr"))


def _stamped_at(settings: Settings, path: Path, stamp: Path) -> str:
    """When a file was stamped, as its time stamp says; raises ServiceError where that does not hold."""
    own = settings.paths.home / identity.FOLDER / identity.EVIDENCE / "ca.pem"
    _openssl("-verify", "-data", path, "-in", stamp, "-CAfile", settings.crash.tsa_ca_file or own)
    lines = _openssl("-reply", "-in", stamp, "-text").splitlines()
    return next((line.partition(": ")[2] for line in lines if line.startswith("Time stamp: ")), "")


def _openssl(*words: str | Path) -> str:
    try:
        line = ("openssl", "ts", *map(str, words))
        done = subprocess.run(line, capture_output=True, text=True, timeout=ANSWER_S, check=True)
    except subprocess.CalledProcessError as error:
        raise ServiceError(f"openssl ts {words[0]}: {' '.join(error.stderr.split())[-300:]}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServiceError(f"openssl ts: {error}") from error
    return done.stdout
