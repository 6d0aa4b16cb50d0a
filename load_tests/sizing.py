"""What fleets need, part by part, from the cost of a frame on a capacity card.

Run: python -m load_tests.sizing CARD.json [--vehicles 1000,10000,100000,1000000] [--busy 0.6] [--replicas 3]

``CARD.json`` is what ``odograph bench`` keeps in ``<home>/bench``. Vehicles send as on the card. Cost grows
with frames: every part but PostgreSQL's primary is divided by vehicle (bridges, brokers, buckets),
so more machines of the same kind carry more. Another kind of machine needs a card of its own. What waits for
what is not in it: queues.py.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from infra.clients.tables import aligned
from infra.contract.topics import DAY_MS, KAFKA_TOPICS

FLEETS: Final = (1_000, 10_000, 100_000, 1_000_000)
DAY_S: Final = 86_400
LOG_READERS: Final = 3
"""Of the topic telemetry: the queries telemetry and archive, and instant."""
ONE_CORE: Final = ("mosquitto", "bridge")
"""A process of these uses one core: more of them are started."""
WRITER: Final = "postgres"
"""The one part with a single writer: its machine has to have the cores."""
NOT_SERVED: Final = ("simulate", "bench")
"""They stand for the vehicles and for who measures."""


@dataclass(frozen=True, slots=True)
class Need:
    """Of a fleet: ``cores`` by part, of which the share asked for is busy; ``processes`` of parts that use
    one core; the log on all its brokers, archive and database, GB; network, MB/s.
    """

    vehicles: int
    frames_per_s: float
    cores: dict[str, float]
    processes: dict[str, int]
    log_gb: float
    archive_gb_a_day: float
    database_gb_a_day: float
    wal_mb_per_s: float
    log_in_mb_per_s: float
    log_out_mb_per_s: float


def need(card: Mapping[str, Any], vehicles: int, busy: float, replicas: int, log_days: float) -> Need:
    """What ``vehicles`` need by ``card``, on which a rate held.

    ``busy``: share of a core that is used; ``log_days``: retention.
    """
    held, costs = card["sustained"], card["costs"]
    rate = vehicles * held["frames_per_s"] / held["vehicles"]
    cores = {
        part: rate * us / 1e6 / busy for part, us in held["us_a_frame"].items() if part not in NOT_SERVED
    }
    log_mb_per_s = rate * costs["log"] / 1e6
    return Need(
        vehicles=vehicles,
        frames_per_s=rate,
        cores=cores,
        processes={part: math.ceil(cores[part]) for part in ONE_CORE},
        log_gb=log_mb_per_s * DAY_S * log_days * replicas / 1e3,
        archive_gb_a_day=rate * costs["archive"] * DAY_S / 1e9,
        database_gb_a_day=rate * costs["database"] * DAY_S / 1e9,
        wal_mb_per_s=rate * costs["wal"] / 1e6,
        log_in_mb_per_s=log_mb_per_s * replicas,
        log_out_mb_per_s=log_mb_per_s * (LOG_READERS + replicas - 1),
    )


def report(needs: Sequence[Need]) -> str:
    """A column a fleet."""
    parts = sorted(needs[0].cores, key=lambda part: -needs[0].cores[part])
    rows: list[tuple[object, ...]] = [("frames/s", *(round(n.frames_per_s) for n in needs))]
    rows += [(f"cores: {part}", *(n.cores[part] for n in needs)) for part in parts]
    rows.append(("cores in all", *(sum(n.cores.values()) for n in needs)))
    rows += [(f"processes: {part}", *(n.processes[part] for n in needs)) for part in ONE_CORE]
    for label, name in (
        ("Kafka, GB on disk, with replicas", "log_gb"),
        ("archive, GB a day", "archive_gb_a_day"),
        ("database, GB a day before retention", "database_gb_a_day"),
        ("write-ahead log, MB/s", "wal_mb_per_s"),
        ("Kafka in, MB/s, with replicas", "log_in_mb_per_s"),
        ("Kafka out, MB/s", "log_out_mb_per_s"),
    ):
        rows.append((label, *(getattr(n, name) for n in needs)))
    return aligned(rows, ["vehicles", *(f"{n.vehicles:,}" for n in needs)])


def first_limit(needs: Sequence[Need], writer_cores: float) -> str:
    """Which fleet is the first that one database writer does not carry."""
    beyond = [n for n in needs if n.cores[WRITER] > writer_cores]
    most = max((n for n in needs), key=lambda n: n.cores[WRITER])
    frames = most.frames_per_s * writer_cores / most.cores[WRITER]
    told = f"one PostgreSQL primary of {writer_cores:g} cores carries {frames:,.0f} frames/s"
    return told + (f": {beyond[0].vehicles:,} vehicles need several databases" if beyond else "")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("card", type=Path)
    parser.add_argument("--vehicles", default=",".join(map(str, FLEETS)), help="fleets, comma between them")
    parser.add_argument("--busy", type=float, default=0.6, help="share of each core that is used [0.6]")
    parser.add_argument("--replicas", type=int, default=3, help="copies of Kafka's log [3]")
    parser.add_argument("--writer-cores", type=float, default=32, help="cores of the database's machine [32]")
    given = parser.parse_args()
    card = json.loads(given.card.read_text())
    if card["sustained"] is None:
        parser.error(f"{given.card}: no rate held, so the card does not say what a frame costs")
    (retention_ms,) = (topic.retention_ms for topic in KAFKA_TOPICS if topic.name == "telemetry")
    fleets = [int(text) for text in given.vehicles.split(",")]
    needs = [need(card, vehicles, given.busy, given.replicas, retention_ms / DAY_MS) for vehicles in fleets]
    print(report(needs))
    print(first_limit(needs, given.writer_cores))


if __name__ == "__main__":
    main()
