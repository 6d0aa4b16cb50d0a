"""What is odd about a recorded drive: repeated positions, speeds that disagree, gaps; and the report."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from edge_simulator.geo import Floats, Ints
from edge_simulator.recordings.drives import GAP, Row, iso, read, signal_of, spacing_ms
from edge_simulator.recordings.frames import Prepared, prepare
from edge_simulator.recordings.mapping import Meaning
from infra.clients.tables import rendered, table
from infra.contract.errors import ConfigError

MOVING_KMH = 3.0
LONGEST_LAG_S = 30.0
DISAGREE_KMH = 10.0
DISAGREE_S = 3.0
LEAST_PAIRS = 30
MOST_LAG_STEPS = 100


@dataclass(frozen=True, slots=True)
class SpeedCheck:
    """Two sources of speed side by side. ``lag_s``: the second one shows the same so much later."""

    lag_s: float
    correlation: float | None
    spells: Sequence[str]  # of more than DISAGREE_S that differ by more than DISAGREE_KMH, by line and time
    seconds: float


def gaps(t_ms: Sequence[int]) -> tuple[int, float]:
    """Pauses of more than GAP usual spacings: how many, and their seconds."""
    steps = np.diff(t_ms)
    wide = steps[steps > GAP * spacing_ms(t_ms)]
    return len(wide), float(wide.sum()) / 1000


def repeats(rows: Sequence[Row]) -> tuple[int, int]:
    """Rows with the position of the row before although the vehicle moves, and the longest run of them."""
    lat, lon, speed = (signal_of(rows, name) for name in ("lat_deg", "lon_deg", "speed_kmh"))
    same = (np.diff(lat) == 0) & (np.diff(lon) == 0) & (speed[1:] > MOVING_KMH)
    lengths = np.diff(np.flatnonzero(np.diff(same, prepend=False, append=False)))[::2]
    return int(lengths.sum()), int(lengths.max(initial=0))


def compare_speeds(rows: Sequence[Row]) -> SpeedCheck | None:
    """The speed against its second source; None where there is none."""
    first = signal_of(rows, "speed_kmh")
    second = np.array([row.check_kmh for row in rows], dtype=np.float64)
    if np.isnan(second).all() or np.isnan(first).all():
        return None
    t = np.array([row.t_ms for row in rows], dtype=np.int64)
    step = spacing_ms(t.tolist())
    lag, correlation = _lag(first, second, t, step)
    k, shifted = _pairs(t, lag, step)
    differ = np.zeros(len(rows))
    differ[k] = np.nan_to_num(np.abs(first[k] - second[shifted]))
    bad = np.flatnonzero(differ > DISAGREE_KMH)
    breaks = np.flatnonzero((np.diff(bad) > 1) | (np.diff(t[bad]) > GAP * step)) + 1  # a gap ends a spell
    named, total_ms = [], 0
    for spell in np.split(bad, breaks) if len(bad) else ():
        lasts_ms = int(t[spell[-1]] - t[spell[0]]) + step
        if lasts_ms > 1000 * DISAGREE_S:
            row = rows[int(spell[0])]
            at = datetime.fromtimestamp(row.t_ms / 1000, UTC)
            most = f"up to {differ[spell].max():.0f} km/h"
            named.append(f"{row.line}: from {at:%Y-%m-%d %H:%M:%S} UTC for {lasts_ms / 1000:g} s, {most}")
            total_ms += lasts_ms
    return SpeedCheck(lag * step / 1000, correlation, named, total_ms / 1000)


def _pairs(t: Ints, lag: int, step: int) -> tuple[Ints, Ints]:
    """Indices of rows and of those ``lag`` spacings later, where both are there."""
    k = np.arange(max(0, -lag), min(len(t), len(t) - lag))
    near = np.abs(t[k + lag] - t[k] - lag * step) * 2 <= step
    return k[near], k[near] + lag


def _lag(first: Floats, second: Floats, t: Ints, step: int) -> tuple[int, float | None]:
    """The shift by which the two go together best, and their correlation there."""
    most = min(int(LONGEST_LAG_S * 1000 / step), MOST_LAG_STEPS, len(t) - 1)
    best: tuple[int, float | None] = (0, None)
    for lag in sorted(range(-most, most + 1), key=abs):
        k, shifted = _pairs(t, lag, step)
        a, b = first[k], second[shifted]
        both = ~np.isnan(a + b)
        a, b = a[both], b[both]
        if len(a) >= LEAST_PAIRS and a.std() > 0 and b.std() > 0:
            found = float(np.corrcoef(a, b)[0, 1])
            if best[1] is None or found > best[1] + 1e-9:
                best = (lag, found)
    return best


NAMED = 5  # bad rows, values and disagreements that are named; all are counted


@dataclass(frozen=True, slots=True)
class DriveReport:
    """Figures of one drive; ``named`` has the first few of what is bad, ``reasons`` counts all of it."""

    name: str
    vehicle_id: str
    good_rows: int
    bad_rows: int
    bad_values: int
    jumps: int
    reasons: Mapping[str, int]
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
    ignored: Sequence[str] = ()
    lacking: Sequence[str] = ()
    error: str = ""


def report(path: Path, meaning: Meaning) -> FileReport:
    """Read a file and look at its drives; a file that cannot be used is reported, not raised."""
    try:
        found = read(path, meaning)
    except ConfigError as error:
        return FileReport(path.name, error=str(error))
    drives = [drive_report(prepare(drive)) for drive in found.drives]
    return FileReport(path.name, found.lines, drives, found.ignored, found.lacking)


def drive_report(ready: Prepared) -> DriveReport:
    """What a drive holds and what is wrong with it."""
    drive = ready.drive
    return DriveReport(
        drive.name, drive.vehicle_id, len(drive.rows), len(drive.bad_rows), len(drive.bad_values),
        len(ready.jumps), _reasons([*drive.bad_rows, *drive.bad_values, *ready.jumps]),
        [*drive.bad_rows[:NAMED], *drive.bad_values[:NAMED], *ready.jumps[:NAMED]],
        iso(ready.t_ms[0], "seconds"), iso(ready.t_ms[-1], "seconds"), ready.dt_ms, *gaps(ready.t_ms),
        *repeats(drive.rows), ready.speed_distance_m, ready.trace_m, compare_speeds(drive.rows),
    )  # fmt: skip


def _reasons(named: Iterable[str]) -> dict[str, int]:
    """How often each reason, without its line and what was found there."""
    texts = (re.sub(r"'.*?'|[\d.]+ km", "", text.partition(": ")[2]) for text in named)
    return dict(Counter(" ".join(text.split()) for text in texts))


def told(drives: Iterable[Mapping[str, Any]]) -> str:
    """A table of drives that were replayed, by their reports (replay.Convoy); what is not known is ``-``."""
    heads = ("drive", "vehicle", "good rows", "bad", "km by speed", "by trace", "trips", "alerts", "left out")
    rows = [
        (
            one["name"], one["vehicle_id"], one["rows"] - one["bad_rows"], one["bad_rows"],
            one["distance_by_speed_m"] / 1000, one["distance_by_trace_m"] / 1000, one.get("trips"),
            one.get("alerts"), "; ".join(f"{n} {why}" for why, n in one["reasons"].items()),
        )
        for one in drives
    ]  # fmt: skip
    return rendered(table(*heads, rows=rows))


def lines(one: FileReport) -> list[str]:
    """The report for people."""
    if one.error:
        return [f"{one.name}  cannot be used: {one.error}"]
    found = [f"{one.name}  rows {one.rows}"]
    if one.ignored:
        found.append(f"  columns without a meaning: {', '.join(one.ignored)}")
    if one.lacking:
        found.append(f"  optional columns that are not there: {', '.join(one.lacking)}")
    for drive in one.drives:
        found += [
            f"  {drive.name} ({drive.vehicle_id})  {drive.from_utc} to {drive.to_utc}",
            f"    good {drive.good_rows}  bad {drive.bad_rows}  bad values {drive.bad_values}  "
            f"jumps of the position {drive.jumps}  every {drive.spacing_ms} ms",
            *(f"      row {what}" for what in drive.named),
            f"    gaps {drive.gaps} ({drive.gap_s:g} s)  repeated positions {drive.repeated_positions} "
            f"(at most {drive.longest_repeat} in a row)",
            f"    distance {drive.distance_by_speed_m / 1000:.2f} km by speed, "
            f"{drive.distance_by_trace_m / 1000:.2f} km by trace",
        ]
        if drive.speed is not None:
            speed = drive.speed
            r = "unknown" if speed.correlation is None else f"{speed.correlation:.3f}"
            found += [
                f"    speed sources: the second lags {speed.lag_s:g} s, correlation {r}; "
                f"disagree {len(speed.spells)} times, {speed.seconds:g} s",
                *(f"      row {what}" for what in speed.spells[:NAMED]),
            ]
    return found
