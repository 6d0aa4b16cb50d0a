"""Reading what nobody took: ``odograph undelivered``."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import orjson

from bridge.downlink.feed import HEADER_DESTINATION, everything
from infra.contract.errors import ContractError
from infra.contract.messages import decode_alert
from infra.contract.topics import HEADER_DETAIL, kafka_topic
from infra.settings.settings import Endpoints, Settings

Row = dict[str, Any]


def newest(settings: Settings, endpoints: Endpoints, limit: int) -> list[Row]:
    """The last ``limit`` records, oldest first. Raises ServiceError."""
    topic = kafka_topic(settings.kafka.prefix, "dead-delivery")
    kept: deque[Row] = deque(maxlen=limit)
    for found, headers in everything(endpoints.kafka_bootstrap, topic):
        at = datetime.fromtimestamp(found.at_ms / 1000, UTC).isoformat(timespec="milliseconds")
        kept.append(
            {
                "at": at,
                "offset": found.offset,
                "destination": headers.get(HEADER_DESTINATION, b"").decode(errors="replace"),
                "why": headers.get(HEADER_DETAIL, b"").decode(errors="replace"),
                **_told(found.value),
            }
        )
    return list(kept)


def _told(value: bytes) -> Row:
    try:
        alert = decode_alert(value)
    except ContractError as error:
        return {"alert_id": None, "vehicle_id": None, "rule": None, "severity": None, "broken": str(error)}
    return {key: alert[key] for key in ("alert_id", "vehicle_id", "rule", "severity")}


def lines(rows: Iterable[Row], json: bool) -> Iterator[str]:
    """For people or machines; nothing where there is nothing."""
    for row in rows:
        if json:
            yield orjson.dumps(row).decode()
        else:
            yield "  ".join(
                str(row[key])
                for key in ("at", "destination", "severity", "vehicle_id", "rule", "alert_id", "why")
            )
