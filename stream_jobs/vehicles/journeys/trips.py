"""Trips and the stops between them, by the times and distances of the settings; numpy, pure, a step a round.

A trip begins with the first move after standing, and is one when it has come ``radius_m`` away from there. It
ends when the vehicle stands for ``end_s`` (or for ``ignition_off_s`` with the ignition off); its end is dated
back to when it first stood within the radius of that place. So what is driven within a car park, and what
a queue creeps, is no trip of its own and ends none. Where no frame tells, a vehicle within the radius has
stood, one beyond it has moved. Moves below ``least_move_m`` do not count.

How far a vehicle went is told by its speed first, then the odometer, then positions. A position is one
complex number, latitude and longitude in degrees, which is NaN where half of it is not known.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from infra.settings.sections import Journeys
from stream_jobs.frames.arrays import Flags, Floats, Ints
from stream_jobs.vehicles import rows
from stream_jobs.vehicles.features import PLACE, Features

BACK_MS = 60_000  # a clock set back by more begins anew
DRIVEN_SHARE = 0.8  # a position so far away is believed where this share of the distance was driven
EARTH_M: Final = 6_371_008.8
SEEN_MS: Final = 1000  # frames so far apart still tell all of the time between them
POSITION: Final = [PLACE["lat_deg"], PLACE["lon_deg"]]

_TOTALS: Final = np.dtype([(name, np.float64) for name in rows.TOTALS])
FIELDS: Final[list[Any]] = [
    # the last frame: its end, its receipt, the last known position and odometer
    ("end_ms", "f8"), ("received_ms", "f8"), ("where", "c16"), ("odometer_m", "f8"),
    # the last position that a way was measured from, the end of the last move that counted
    ("fixed", "c16"), ("moved_ms", "f8"),
    # since when it stands with the ignition off
    ("off_from_ms", "f8"),
    # what it does since it stood; ``counted`` once that is long enough
    ("move_from_ms", "f8"), ("move_m", "f8"), ("counted", "?"),
    # a trip, or what may become one (not ``confirmed``); ``told_ms``: when it was last told
    ("trip_from_ms", "f8"), ("start", "c16"), ("totals", _TOTALS), ("told_ms", "f8"),
    ("confirmed", "?"), ("provisional", "?"),
    # where and since when it stands or creeps, and what the trip was up to then
    ("stay_from_ms", "f8"), ("stay", "c16"), ("stay_totals", _TOTALS),
    # the stop that it makes
    ("stop_from_ms", "f8"), ("stop", "c16"),
]  # fmt: skip
"""What is remembered of a vehicle's trips; what has begun at NaN is not there."""

_NONE: Final = np.array(tuple(np.nan if name in rows.TOLD else 0.0 for name in rows.TOTALS), _TOTALS)
Memory = npt.NDArray[np.void]
Rows = list[rows.TripRow | rows.StopRow]
Positions = npt.NDArray[np.complex128]
Harsh = Sequence[tuple[int, int]]  # events that began: the vehicle's index and the kind's place in KINDS
Number = TypeVar("Number", np.float64, np.complex128)


def or_zero(values: Floats) -> Floats:
    """0 where not known."""
    return np.where(np.isnan(values), 0.0, values)


def first_known(values: npt.NDArray[Number], others: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """``values``, and ``others`` where those are not known."""
    return np.where(np.isnan(values), others, values)


def _apart_m(a: Positions, b: Positions) -> Floats:
    """Distances as the crow flies, [k]; NaN where a position is not known."""
    mean = np.radians((a.real + b.real) / 2)
    east = np.radians((b.imag - a.imag + 540) % 360 - 180) * _each(math.cos, mean)
    north = np.radians(b.real - a.real)
    return EARTH_M * _each(math.hypot, east, north)


def _each(function: Callable[..., float], *columns: Floats) -> Floats:
    """By Python: numpy's own are not the same to the last bit on every processor, and what the stream and the
    batch layer say is compared.
    """
    found = map(function, *(column.tolist() for column in columns))
    return np.fromiter(found, np.float64, len(columns[0]))


class Ways(NamedTuple):
    """The way of each frame; ``from_ms`` and ``to_ms`` are of its moving part, if it ``moves``."""

    moves: Flags
    from_ms: Floats
    to_ms: Floats
    distance_m: Floats


def _ways_of(fixed: Positions, frames: Features, here: Positions, limits: Journeys) -> Ways:
    """By the speed; where no sample tells it, by how far the position is from ``fixed``, noise apart."""
    from_ms, to_ms = frames["moving_from_ms"], frames["moving_to_ms"]
    ways = Ways(~np.isnan(from_ms + to_ms), from_ms, to_ms, or_zero(frames["distance_m"]))
    at = np.flatnonzero(np.isnan(frames["moving_ms"]))
    if not len(at):
        return ways
    t0_ms, end_ms = frames["t0_ms"][at], frames["end_ms"][at]
    away_m = or_zero(_apart_m(fixed[at], here[at]))
    moves = (away_m > limits.noise_m) & _possible(away_m, end_ms - t0_ms + limits.end_s * 1000, limits)
    ways = ways._replace(from_ms=from_ms.copy(), to_ms=to_ms.copy())
    ways.moves[at], ways.from_ms[at], ways.to_ms[at] = moves, t0_ms, end_ms
    ways.distance_m[at] = np.where(moves, away_m, 0.0)
    return ways


def _unseen_m(away_m: Floats, counted_m: Floats, own_m: Floats, gap_ms: Floats, limits: Journeys) -> Floats:
    """The way in a time without frames: what the odometer counted (``counted_m``, NaN where not known)
    besides the frame after it (``own_m``), else the displacement.

    What no vehicle can drive in that time is a jump of the position, or another odometer: 0.
    """
    counted_m, away_m = counted_m - own_m, away_m - own_m
    counts = (counted_m >= 0) & _possible(counted_m, gap_ms, limits)
    displaced = (away_m > limits.noise_m) & _possible(away_m, gap_ms, limits)
    return np.where(counts, counted_m, np.where(displaced, away_m, 0.0))


def _possible(distance_m: Floats, time_ms: Floats, limits: Journeys) -> Flags:
    possible: Flags = distance_m <= limits.top_kmh * 1000 * time_ms / 3_600_000
    return possible


def due(memory: Memory) -> Flags:
    """Whether a trip that nothing more is heard of is to be told as over, provisionally; [k]."""
    found: Flags = memory["confirmed"] & ~memory["provisional"]
    return found


class Machine:
    """A machine for k vehicles; ``memory``: [k], what it remembers; ``vehicle``: an id by index.

    Arguments ``at`` are indices of vehicles, of [k].
    """

    def __init__(self, limits: Journeys, memory: Memory, vehicle: Callable[[int], str]) -> None:
        self._limits, self._memory, self._vehicle = limits, memory, vehicle
        self._rows: list[Any] = []


class Trips(Machine):
    """Trips and stops, by the definitions above."""

    def step(self, frames: Features, here: Positions, harsh: Harsh) -> Rows:
        """Rows that follow from the next frame of each; ``here``: where it is; ``harsh``: those in it."""
        m, limits = self._memory, self._limits
        gap_ms = frames["t0_ms"] - m["end_ms"]
        cut = (gap_ms > limits.split_s * rows.MS_PER_S) | (gap_ms < -BACK_MS)
        self._cut(np.flatnonzero(cut))
        unseen = self._across(np.flatnonzero((gap_ms > SEEN_MS) & ~cut), frames, here, gap_ms)
        self._advance(frames, here, unseen, harsh)
        m["end_ms"] = frames["end_ms"]
        is_old = m["end_ms"] - m["told_ms"] >= limits.report_s * rows.MS_PER_S
        under_way = np.flatnonzero(m["confirmed"] & is_old)
        m["told_ms"][under_way] = m["end_ms"][under_way]
        self._tell(under_way, rows.OPEN)
        m["odometer_m"] = first_known(frames["odometer_m"], m["odometer_m"])
        return self._rows

    def expire(self, at: Ints) -> Rows:
        """Trips as they seem to have ended; what comes later goes on with them."""
        self._tell(at, rows.PROVISIONAL)
        self._memory["provisional"][at] = True
        return self._rows

    def _cut(self, at: Ints) -> None:
        """Nothing ties what comes to what was."""
        if not len(at):
            return
        m = self._memory
        under_way = at[~np.isnan(m["trip_from_ms"][at])]
        self._settle(under_way)
        self._end(under_way)
        for name in ("move_from_ms", "off_from_ms", "where", "fixed", "odometer_m"):
            m[name][at] = np.nan

    def _across(self, at: Ints, frames: Features, here: Positions, gap_ms: Floats) -> Floats:
        """The time without frames before them: moved where it is elsewhere now, stood where it is not.

        The way unseen, [k].
        """
        m, found = self._memory, np.zeros(len(gap_ms))
        if not len(at):
            return found
        away_m = or_zero(_apart_m(m["where"][at], here[at]))
        counted_m = frames["odometer_m"][at] - m["odometer_m"][at]
        own_m = or_zero(frames["distance_m"][at])
        found[at] = unseen = _unseen_m(away_m, counted_m, own_m, gap_ms[at], self._limits)
        m["move_from_ms"][at] = np.nan
        moved = (np.maximum(away_m, unseen) > self._limits.radius_m) & (unseen > 0)
        gone = at[moved]
        m["moved_ms"][gone] = frames["t0_ms"][gone]
        m["stay_from_ms"][gone] = m["off_from_ms"][gone] = np.nan
        m["where"][gone[np.isnan(m["trip_from_ms"][gone])]] = np.nan
        self._stand(at[~moved], frames["t0_ms"])
        return found

    def _advance(self, frames: Features, here: Positions, unseen: Floats, harsh: Harsh) -> None:
        m = self._memory
        ways = _ways_of(m["fixed"], frames, here, self._limits)
        fixed = first_known(here, m["fixed"])
        measured = ~np.isnan(frames["moving_ms"]) | ways.moves | np.isnan(m["fixed"])
        m["fixed"] = np.where(measured, fixed, m["fixed"])
        moving = np.flatnonzero(ways.moves)
        standing = np.flatnonzero(~ways.moves | (ways.to_ms < frames["end_ms"]))
        unseen[np.isnan(m["trip_from_ms"])] = 0.0
        self._begin(moving, ways, here)
        self._add(frames, ways.distance_m, unseen, harsh)
        self._move(moving, ways, here)
        m["where"] = first_known(here, m["where"])
        short = standing[(m["move_from_ms"] == m["trip_from_ms"])[standing] & ~m["counted"][standing]]
        self._drop(short)  # a move too short to count was none
        m["move_from_ms"][standing] = np.nan
        off_from_ms = first_known(m["off_from_ms"][standing], frames["t0_ms"][standing])
        is_off = frames["ignition_on"][standing] == 0
        m["off_from_ms"][standing] = np.where(is_off, off_from_ms, np.nan)
        self._stand(standing, frames["end_ms"])

    def _begin(self, at: Ints, ways: Ways, here: Positions) -> None:
        m = self._memory
        new = at[np.isnan(m["move_from_ms"][at])]
        m["move_from_ms"][new] = ways.from_ms[new]
        m["move_m"][new] = 0.0
        m["counted"][new] = False
        new = at[np.isnan(m["trip_from_ms"][at])]
        m["trip_from_ms"][new] = ways.from_ms[new]
        m["start"][new] = first_known(m["where"][new], here[new])
        m["totals"][new] = _NONE
        m["told_ms"][new] = 0.0
        m["confirmed"][new] = m["provisional"][new] = False

    def _add(self, frames: Features, moved_m: Floats, unseen: Floats, harsh: Harsh) -> None:
        """The frames count in the trips; what is summed up without one goes when one begins."""
        t, moving_ms, odometer_m = self._memory["totals"], frames["moving_ms"], frames["odometer_m"]
        standing_ms = or_zero(frames["end_ms"] - frames["t0_ms"] - moving_ms)
        t["frames"] += 1
        t["distance_m"] += moved_m
        t["distance_m"] += unseen
        t["unseen_m"] += unseen
        t["known_m"] += np.where(np.isnan(frames["distance_m"]), moved_m, or_zero(frames["placed_m"]))
        t["moving_ms"] += or_zero(moving_ms)
        t["idle_ms"] += np.where(frames["ignition_on"] == 1, standing_ms, 0.0)
        for name in ("speeding_ms", "fuel_l", "energy_kwh"):
            total, more = t[name], frames[name]
            t[name] = first_known(total + more, first_known(total, more))
        t["speed_max_kmh"] = np.fmax(t["speed_max_kmh"], frames["speed_max_kmh"])
        t["odometer_from_m"] = first_known(t["odometer_from_m"], odometer_m)
        t["odometer_to_m"] = first_known(odometer_m, t["odometer_to_m"])
        t["powertrain"] = first_known(frames["powertrain"], t["powertrain"])
        self._memory["provisional"][:] = False
        for i, kind in harsh:
            t[rows.HARSH[kind]][i] += 1

    def _move(self, at: Ints, ways: Ways, here: Positions) -> None:
        """A move goes on: it counts from ``least_move_m`` on, leaves a stay, makes a trip."""
        m = self._memory
        m["move_m"][at] += ways.distance_m[at]
        at = at[m["move_m"][at] >= self._limits.least_move_m]
        new = at[~m["counted"][at]]  # standing before them, within a trip, was a halt
        m["counted"][new] = True
        moved_ms = m["moved_ms"][new]
        stood_ms = m["move_from_ms"][new] - moved_ms
        halts = (moved_ms >= m["trip_from_ms"][new]) & (stood_ms >= self._limits.halt_s * rows.MS_PER_S)
        m["totals"]["halts"][new[halts]] += 1
        m["moved_ms"][at] = ways.to_ms[at]
        stays, driven_m = at[~np.isnan(m["stay_from_ms"][at])], m["totals"]["distance_m"]
        away_m = driven_m[stays] - m["stay_totals"]["distance_m"][stays]
        m["stay_from_ms"][stays[self._left(m["stay"][stays], here[stays], away_m)]] = np.nan
        new = at[~m["confirmed"][at]]
        new = new[self._left(m["start"][new], here[new], driven_m[new])]
        m["confirmed"][new] = True
        for i in new[~np.isnan(m["stop_from_ms"][new])].tolist():
            until_ms = int(m["trip_from_ms"][i])
            self._rows.append(rows.stop_row(self._vehicle(i), m["stop_from_ms"][i], until_ms, m["stop"][i]))
        m["stop_from_ms"][new] = np.nan

    def _left(self, start: Positions, now: Positions, driven_m: Floats) -> Flags:
        """Whether vehicles that drove so far are out of the radius: a position that jumps is not believed."""
        radius_m = self._limits.radius_m
        left = driven_m > DRIVEN_SHARE * radius_m
        at = np.flatnonzero(left)
        away_m = _apart_m(start[at], now[at])
        left[at] = np.where(np.isnan(away_m), driven_m[at], away_m) > radius_m
        return left

    def _stand(self, at: Ints, until_ms: Floats) -> None:
        """They stand until ``until_ms`` ([k]); the end of a trip, where that is long enough."""
        m, limits = self._memory, self._limits
        at = at[~np.isnan(m["trip_from_ms"][at])]
        if not len(at):
            return
        self._settle(at)
        until_ms, moved_ms = until_ms[at], m["moved_ms"][at]
        off_ms = or_zero(until_ms - np.maximum(m["off_from_ms"][at], moved_ms))
        stood = until_ms - moved_ms >= limits.end_s * rows.MS_PER_S
        self._end(at[stood | (off_ms >= limits.ignition_off_s * rows.MS_PER_S)])

    def _settle(self, at: Ints) -> None:
        """Vehicles on a trip stay where they are from their last move on, unless they stay already."""
        m = self._memory
        new = at[np.isnan(m["stay_from_ms"][at])]
        m["stay_from_ms"][new] = np.maximum(m["moved_ms"][new], m["trip_from_ms"][new])
        m["stay"][new] = m["where"][new]
        m["stay_totals"][new] = m["totals"][new]

    def _end(self, at: Ints) -> None:
        """The trips ended where the stay began."""
        if not len(at):
            return
        m = self._memory
        real = at[m["confirmed"][at]]
        m["stop_from_ms"][real], m["stop"][real] = m["stay_from_ms"][real], m["stay"][real]
        for i in real.tolist():
            stop = rows.stop_row(self._vehicle(i), m["stop_from_ms"][i], None, m["stop"][i])
            self._rows += [self._row(i, rows.FINAL), stop]
        self._drop(at)
        m["stay_from_ms"][at] = np.nan

    def _drop(self, at: Ints) -> None:
        self._memory["trip_from_ms"][at] = np.nan
        self._memory["confirmed"][at] = False

    def _tell(self, at: Ints, phase: str) -> None:
        """The trips, as if they stayed where they are; they go on all the same."""
        if not len(at):
            return
        m = self._memory
        stay_from_ms = m["stay_from_ms"][at]
        self._settle(at)
        self._rows += [self._row(i, phase) for i in at.tolist()]
        m["stay_from_ms"][at] = stay_from_ms

    def _row(self, i: int, phase: str) -> rows.TripRow:
        """The trip up to the stay."""
        m = self._memory
        start, end = (m["trip_from_ms"][i], m["start"][i]), (m["stay_from_ms"][i], m["stay"][i])
        told = dict(zip(rows.TOTALS, m["stay_totals"][i].item(), strict=True))
        return rows.trip_row(self._vehicle(i), phase, start, end, told, self._limits)
