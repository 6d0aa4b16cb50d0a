"""A ledger as people read it."""

from __future__ import annotations

from stream_jobs.audit.ledger import Ledger


def as_text(ledger: Ledger) -> str:
    """One line a figure, what it means beside it, the residual last."""
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
    return "\n".join(lines)


def _verdict(ledger: Ledger) -> str:
    if ledger.residual == 0:
        return "everything is accounted for"
    return (
        f"missing on the way {ledger.missing_on_the_way}, in the archive {ledger.missing_in_archive},"
        f" in the windows {ledger.missing_in_windows}"
    )
