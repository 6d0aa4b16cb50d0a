"""What ``odograph drives check`` says about a file of recorded drives. A file in, figures and lines out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from edge_simulator.recordings.drive_checks import SpeedCheck, compare_speeds, gaps, repeats
from edge_simulator.recordings.drive_frames import prepare
from edge_simulator.recordings.drive_mapping import Meaning
from edge_simulator.recordings.drives import Drive, read
from infra.contract.errors import ConfigError

NAMED = 5
"""Bad rows, values and disagreements that are named; all are counted."""


@dataclass(frozen=True, slots=True)
class DriveReport:
    """Figures of one drive; the lists name the first few."""

    name: str
    vehicle_id: str
    good_rows: int
    bad_rows: int
    bad_values: int
    named: Sequence[str]
    from_utc: str
    to_utc: str
    spacing_ms: int
    gaps: int
    gap_s: float
    repeated_positions: int
    longest_repeat: int
    distance_by_speed_m: float
    distance_by_trace_m: float
    speed: SpeedCheck | None


@dataclass(frozen=True, slots=True)
class FileReport:
    """Figures of one file; ``error`` says why nothing can be made of it."""

    name: str
    rows: int = 0
    drives: Sequence[DriveReport] = ()
    ignored: Sequence[str] = field(default_factory=tuple)
    lacking: Sequence[str] = field(default_factory=tuple)
    error: str = ""


def report(path: Path, meaning: Meaning) -> FileReport:
    """Read a file and look at its drives; a file that cannot be used is told, not raised."""
    try:
        found = read(path, meaning)
    except ConfigError as error:
        return FileReport(path.name, error=str(error))
    drives = [_drive(drive) for drive in found.drives]
    return FileReport(path.name, found.lines, drives, found.ignored, found.lacking)


def _drive(drive: Drive) -> DriveReport:
    ready = prepare(drive)
    pauses, still = gaps(ready.t_ms), repeats(drive.rows)
    return DriveReport(
        name=drive.name,
        vehicle_id=drive.vehicle_id,
        good_rows=len(drive.rows),
        bad_rows=len(drive.bad_rows),
        bad_values=len(drive.bad_values),
        named=[*drive.bad_rows[:NAMED], *drive.bad_values[:NAMED]],
        from_utc=_utc(ready.t_ms[0]),
        to_utc=_utc(ready.t_ms[-1]),
        spacing_ms=ready.dt_ms,
        gaps=pauses.count,
        gap_s=pauses.seconds,
        repeated_positions=still.rows,
        longest_repeat=still.longest,
        distance_by_speed_m=ready.speed_distance_m,
        distance_by_trace_m=ready.trace_m,
        speed=compare_speeds(drive.rows),
    )


def lines(one: FileReport) -> list[str]:
    """The report for people."""
    if one.error:
        return [f"{one.name}  cannot be used: {one.error}"]
    told = [f"{one.name}  rows {one.rows}"]
    if one.ignored:
        told.append(f"  columns without a meaning: {', '.join(one.ignored)}")
    if one.lacking:
        told.append(f"  optional columns that are not there: {', '.join(one.lacking)}")
    for drive in one.drives:
        told += _drive_lines(drive)
    return told


def _drive_lines(drive: DriveReport) -> list[str]:
    told = [
        f"  {drive.name} ({drive.vehicle_id})  {drive.from_utc} to {drive.to_utc}",
        f"    good {drive.good_rows}  bad {drive.bad_rows}  bad values {drive.bad_values}  "
        f"every {drive.spacing_ms} ms",
        *(f"      row {what}" for what in drive.named),
        f"    gaps {drive.gaps} ({drive.gap_s:g} s)  repeated positions {drive.repeated_positions} "
        f"(at most {drive.longest_repeat} in a row)",
        f"    distance {drive.distance_by_speed_m / 1000:.2f} km by speed, "
        f"{drive.distance_by_trace_m / 1000:.2f} km by trace",
    ]
    if drive.speed is not None:
        told += _speed_lines(drive.speed)
    return told


def _speed_lines(speed: SpeedCheck) -> list[str]:
    how = "unknown" if speed.correlation is None else f"{speed.correlation:.3f}"
    return [
        f"    speed sources: the second lags {speed.lag_s:g} s, correlation {how}; "
        f"disagree {len(speed.spells)} times, {speed.seconds:g} s",
        *(f"      row {what}" for what in speed.spells[:NAMED]),
    ]


def _utc(t_ms: int) -> str:
    return datetime.fromtimestamp(t_ms / 1000, UTC).isoformat(timespec="seconds")
