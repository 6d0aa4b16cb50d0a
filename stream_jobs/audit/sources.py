"""Where the witnesses of an audit are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.contract.seq_ranges import Ranges
from infra.contract.topics import kafka_topic
from infra.contract.verdict import clock_limits
from infra.settings.settings import Endpoints, Settings
from stream_jobs.audit.edge import Device

TELEMETRY: Final = "telemetry"


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the witnesses are, and while data flows what none of them can say yet."""

    home: Path
    db_url: str
    window_ms: int
    ahead_ms: int
    topic: str
    taken: Mapping[int, int] | None = None
    """Next offset of the live topic by partition up to which the archive has all, as far as that is known."""
    waiting: Callable[[], Mapping[Device, Ranges]] = dict
    """Frames that lie in the log and in no consumer's results yet."""
    broker_dropped: int | None = None


def sources(settings: Settings, addresses: Endpoints) -> Sources:
    """Where the witnesses are, without those that only a whole audit asks."""
    return Sources(
        home=settings.paths.home.resolve(),
        db_url=addresses.db_ingest_url,
        window_ms=settings.jobs.window_s * 1000,
        ahead_ms=clock_limits(settings).ahead_ms,
        topic=kafka_topic(settings.kafka.prefix, TELEMETRY),
    )
