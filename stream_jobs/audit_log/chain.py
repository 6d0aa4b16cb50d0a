"""Was the audit log changed? Its chain, computed without the database, against anchored heads."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from psycopg.rows import class_row

from infra.clients.db import asked
from infra.settings.settings import Settings
from stream_jobs.crashes import anchor
from stream_jobs.crashes.custody import START, LogEntry, broken, otherwise_anchored, sha256_hex

LOG: Final = anchor.Log("anchors/audit", "audit anchor", "the audit log", "odograph audit-log --verify")
_ENTRIES: Final = "SELECT * FROM odograph.audit_log WHERE entry >= %s ORDER BY entry"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry(LogEntry):
    """One entry as the table has it; see the comments of odograph.audit_log."""

    role: str
    vehicle_id: str | None

    def hashed(self) -> str:
        """As odograph.audit_hash: of a jsonb array's text."""
        seconds, micros = divmod(self.at_us, 1_000_000)
        of = (self.role, self.actor, self.action, self.vehicle_id, self.detail)
        line = [self.previous, self.entry, f"{seconds}.{micros:06d}", *of]
        return sha256_hex(json.dumps(line, ensure_ascii=False).encode())


def read(url: str, since: int = 0) -> list[AuditEntry]:
    """The log from an entry on, with vehicles by their pseudonyms. Raises ServiceError."""
    return asked(url, _ENTRIES, (since,), row_factory=class_row(AuditEntry))


def verified(
    settings: Settings, entries: Sequence[AuditEntry], head: str | None
) -> tuple[list[str], list[str]]:
    """The chain, the anchors and an earlier head: what there is, and what is wrong, in lines of words.

    Raises ConfigError.
    """
    anchors = anchor.read(settings, LOG)
    wrong = [*broken(entries), *otherwise_anchored(entries, anchors, head)]
    last = entries[-1].sha256 if entries else START
    return [f"{len(entries)} entries", f"anchored: {anchors.words}", f"head {last}"], wrong


def anchored(settings: Settings, url: str) -> int:
    """Sign and stamp the log's head; its entry, 0: nothing to anchor. Raises ServiceError, ConfigError."""
    known = anchor.read(settings, LOG, alone=True)
    return anchor.put(settings, known, read(url, known.last), log=LOG)
