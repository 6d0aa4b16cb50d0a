"""A ledger as people and machines read it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from infra.clones import Clone
from infra.ledger import Ledger


def as_text(ledger: Ledger, clones: Sequence[Clone] = ()) -> str:
    """One line a figure, what it means beside it, the residual last; then a line for each cloned vehicle."""
    rows = [
        ("generated", ledger.generated, "distinct frames that the simulator wrote down before publishing"),
        ("poison", ledger.poison, "messages broken on purpose"),
        ("sent", ledger.sent, "frames published, copies included"),
        ("acked", ledger.acked, "of these, PUBACK received"),
        ("in Kafka", ledger.appended, "records appended to the telemetry topic"),
        ("archived", ledger.archived, "records in the Parquet archive"),
        ("counted", ledger.counted, "frames in windows by the stream"),
        ("late", ledger.late, f"records; {ledger.repaired} frames repaired, {ledger.late_open} open"),
        ("quarantined", ledger.quarantined, "records with an impossible clock"),
        ("duplicate", ledger.duplicate, "records seen before"),
        (
            "dead",
            ledger.dead,
            f"dead letters, {ledger.dead_distinct} of them distinct, {ledger.dead_archived} archived too",
        ),
        ("residual", ledger.residual, _verdict(ledger)),
    ]
    lines = [f"{name:>12} {figure:>12,}   {meaning}" for name, figure, meaning in rows]
    cloned = [
        f"{'cloned':>12} {c.vehicle_id}: boots {c.boot_id} and {c.other_boot_id}"
        f" report at once for {c.overlap_ms / 1000:.0f} s"
        for c in clones
    ]
    return "\n".join([*lines, *cloned])


def _verdict(ledger: Ledger) -> str:
    if ledger.residual == 0:
        return "everything is accounted for"
    return (
        f"missing on the way {ledger.missing_on_the_way}, in the archive {ledger.missing_in_archive},"
        f" in the windows {ledger.missing_in_windows}"
    )


def as_json(ledger: Ledger, clones: Sequence[Clone] = ()) -> str:
    """Every figure, the residual, and the vehicles whose identity two devices use."""
    cloned = [asdict(clone) for clone in clones]
    return json.dumps({**asdict(ledger), "residual": ledger.residual, "cloned": cloned}, indent=1)
