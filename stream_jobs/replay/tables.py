"""The tables that a run has of its own: what identifies a row, which span it belongs to, what is compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

WRITER: Final = ("batch_id", "revision", "restated_at")
"""Which layer wrote a row last: no part of its content."""


@dataclass(frozen=True, slots=True)
class Table:
    """One table of odograph.

    ``time`` is the column that decides whether a row belongs to a span, ``length`` how long the row reaches
    from there (an interval's text): a row that does not end within the span is not the run's. ``fleet``: a
    row is made of many vehicles, so a run of some of them says nothing of it. ``windows``: what ``--verify``
    proves. ``apart``: columns that are not compared; ``only``: rows that are.
    ``with_alerts``: rows belong to alerts, not to a time.
    """

    name: str
    keys: tuple[str, ...]
    time: str
    length: str = ""
    fleet: bool = False
    windows: bool = False
    compared: bool = True
    apart: tuple[str, ...] = WRITER
    with_alerts: bool = False
    only: str = "true"

    @property
    def slice_key(self) -> str:
        """The column by which rows are hashed together, beside the hour."""
        return self.keys[0]


_ALERT_APART: Final = (
    "alert_no", "first_alert_id", "acknowledged_at", "acknowledged_by", "note", "silence_no", "cleared_by",
    "evidence_at", "evidence_frames", "revision", "restated_at", "withdrawn_at",
)  # fmt: skip

TABLES: Final = (
    Table("vehicle_window", ("vehicle_id", "window_start"), "window_start", windows=True),
    Table(
        "road_cell_window", ("cell", "heading_sector", "window_start"), "window_start",
        fleet=True, windows=True,
    ),
    Table(
        "road_edge_window", ("edge_id", "network_no", "window_start"), "window_start",
        fleet=True, windows=True,
    ),
    Table("vehicle_minute", ("vehicle_id", "bucket"), "bucket", windows=True),
    Table("vehicle_hour", ("vehicle_id", "bucket"), "bucket", "1 hour", windows=True),
    Table("vehicle_day", ("vehicle_id", "bucket"), "bucket", "1 day", windows=True),
    Table("fleet_minute", ("minute",), "minute", fleet=True, windows=True),
    Table("trip", ("vehicle_id", "started_at"), "started_at"),
    Table("trip_stop", ("vehicle_id", "began_at"), "began_at"),
    Table("idle_episode", ("vehicle_id", "began_at"), "began_at"),
    Table("harsh_event", ("vehicle_id", "began_at", "kind"), "began_at"),
    Table(
        "alert", ("vehicle_id", "rule", "opened_at"), "opened_at", apart=_ALERT_APART,
        only="withdrawn_at IS NULL",
    ),
    Table("alert_event", ("vehicle_id", "rule", "event_time"), "event_time", compared=False),
    Table("alert_change", ("alert_no", "change_no"), "event_time", compared=False, with_alerts=True),
    Table("alert_evidence", ("alert_no", "boot_id", "seq"), "t0", compared=False, with_alerts=True),
)  # fmt: skip
"""In the order in which they are compared."""

REFERENCES: Final = (
    "vehicle", "road_network", "road_edge", "road_rule", "road_cell_baseline", "road_edge_baseline",
    "road_cell_profile", "road_edge_profile", "vehicle_baseline",
)  # fmt: skip
"""What the jobs look up: a run begins with a copy of what the live database knows now."""


def of_run(whole_fleet: bool) -> tuple[Table, ...]:
    """The tables that a run of all vehicles, or of some, can speak for."""
    return tuple(table for table in TABLES if whole_fleet or not table.fleet)


def within(table: Table, alias: str = "") -> str:
    """SQL: whether a row belongs to a run; parameters ``since``, ``until`` and ``vehicles`` (null: all)."""
    at = f"{alias}{table.time}"
    words = [f"{at} >= %(since)s", f"{at} < %(until)s"]
    if table.length:
        words.append(f"{at} + interval '{table.length}' <= %(until)s")
    if not table.fleet:
        words.append(f"(%(vehicles)s::text[] IS NULL OR {alias}vehicle_id = ANY(%(vehicles)s::text[]))")
    return " AND ".join(words)
