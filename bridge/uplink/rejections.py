"""Dead letters that a lane writes: which messages are kept whole, and what it reports of itself. Pure.

A letter takes a token for each 4 KiB of its message, of all letters' and of its vehicle's. Where none is left
the message is counted instead, by reason and vehicle, and the counts become letters without a message.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Final

import orjson

from bridge.uplink.mqtt_source import SessionLoss
from bridge.uplink.translate import SCHEMA_HEADER, Record, Rejection, VehicleLimit, receipt, why_headers
from infra.contract import topics

TOKEN_BYTES: Final = 4096
SHARE: Final = 5  # one vehicle may take a fifth of all letters; so may those that name none
VEHICLES_KEPT: Final = 10_000
COUNTED_APART: Final = 50
"""Pairs of reason and vehicle that are counted apart until they are reported; more are counted by reason."""
SESSION_LOST: Final = "session_lost"


class Letters:
    """``counted`` messages since the last ``counts`` are not kept; ``per_minute`` 0: all are."""

    def __init__(self, topic: str, per_minute: int) -> None:
        self._topic = topic
        self._all = VehicleLimit(per_minute / 60, max(1, per_minute))
        self._each = VehicleLimit(per_minute / SHARE / 60, max(1, per_minute // SHARE))
        self._all_due_ms = 0.0
        self._due_ms: dict[bytes | None, float] = {}
        self._counts: Counter[tuple[str, bytes | None]] = Counter()

    @property
    def counted(self) -> int:
        """Messages that ``counts`` has not reported yet."""
        return self._counts.total()

    def keep(self, rejection: Rejection, size: int, now_ms: int) -> bool:
        """Whether a rejected message of ``size`` bytes becomes a letter; else it is counted."""
        tokens = 1 + size // TOKEN_BYTES
        all_due_ms = self._all.spend(self._all_due_ms, now_ms, tokens)
        due_ms = self._each.spend(self._due_ms.get(rejection.key, 0.0), now_ms, tokens)
        if all_due_ms is None or due_ms is None:
            name = (rejection.reason, rejection.key)
            if name not in self._counts and len(self._counts) >= COUNTED_APART:
                name = (rejection.reason, None)
            self._counts[name] += 1
            return False
        self._all_due_ms = all_due_ms
        if len(self._due_ms) >= VEHICLES_KEPT:
            due = {key: due for key, due in self._due_ms.items() if due > now_ms}
            self._due_ms = due if len(due) < VEHICLES_KEPT else {}  # the limit for all of them still holds
        self._due_ms[rejection.key] = due_ms
        return True

    def counts(self, now_ms: int) -> list[Record]:
        """Letters that say how many messages were not kept; the counts begin anew."""
        found, self._counts = self._counts, Counter()
        return [
            self._letter(
                reason, key, f"{count} messages that are not kept", {"messages": count}, now_ms, count
            )
            for (reason, key), count in found.items()
        ]

    def forget(self) -> None:
        """What was counted comes again."""
        self._counts.clear()

    def lost(self, loss: SessionLoss) -> Record:
        """The letter for whatever the broker held for a session that went."""
        detail = f"{loss.client_id}: {loss.why}"
        letter = self._letter(SESSION_LOST, None, detail, asdict(loss), loss.at_ms, 0)
        letter.headers.append((topics.HEADER_SINCE_MS, b"%d" % loss.from_ms))
        return letter

    def _letter(
        self, reason: str, key: bytes | None, detail: str, body: dict[str, object], now_ms: int, messages: int
    ) -> Record:
        number = (topics.HEADER_MESSAGES, b"%d" % messages)
        why = why_headers(reason, detail[: topics.DETAIL_CHARS])
        headers = [*why, number, receipt(now_ms), SCHEMA_HEADER]
        return Record(self._topic, key, orjson.dumps(body), headers, now_ms)
