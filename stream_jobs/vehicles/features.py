"""What frames say, a row of numbers a frame: what memories of vehicles are fed with; no Spark.

A feature is a double, NaN where not known: a frame's features travel as one array, because a column costs
more on its way to Python and back than what it carries. Whole numbers of the contract stay exact, below 2^53.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from infra.contract.signals import BY_NAME, SIGNALS
from infra.contract.verdict import ClockLimits, clock_limits
from infra.settings.sections import Journeys
from infra.settings.settings import Settings
from stream_jobs.app.schema import HEAD
from stream_jobs.frames.arrays import Floats, Frames, Ints, Known
from stream_jobs.frames.batch import frame_batch
from stream_jobs.frames.lookup_files import Place, place_of
from stream_jobs.frames.plausibility import plausible_columns
from stream_jobs.rules.inputs import RuleInputs, concatenated, unknown_inputs
from stream_jobs.rules.model import Rule
from stream_jobs.vehicles import lookups
from stream_jobs.windows.vehicle import MS_PER_HOUR, moving, quantity, steps

if TYPE_CHECKING:  # 40 MB, of which a process that evaluates no rules needs none
    from stream_jobs.rules.evaluation import Evaluator
    from stream_jobs.rules.rule_set import RuleSet

FRAME_FEATURES: Final = (
    # of every readable frame; the others are known of believed ones only
    "boot_id", "seq", "t0_ms", "end_ms", "received_ms", "believed",
    # of its samples
    "ignition_on", "lat_deg", "lon_deg", "heading_deg", "speed_kmh", "speed_max_kmh", "distance_m",
    "placed_m", "fuel_l", "energy_kwh", "odometer_m", "moving_ms", "moving_from_ms", "moving_to_ms",
    "speeding_ms",
    # of the lookup: places in CLASSES and POWERTRAINS
    "vehicle_class", "powertrain",
)  # fmt: skip
PLACE: Final = {name: place for place, name in enumerate(FRAME_FEATURES)}
CLASSES: Final = ("car", "van", "heavy")
POWERTRAINS: Final = ("petrol", "diesel", "hybrid", "electric")
KINDS: Final = ("brake", "accelerate", "corner")  # of harsh events
G_MPS2: Final = 9.80665
RUN: Final = 5  # numbers of a run: kind, begin, end, peak (m/s^2), speed (km/h)


def sample_features(frames: Frames) -> dict[str, Floats]:
    """The features that samples tell, by name; there is at least one frame."""
    begins, order = np.flatnonzero(frames.index == 0), np.arange(len(frames.index))
    fast, span_ms, moves = frames.fast, frames.dt_ms * frames.n, moving(frames)

    def reduced(how: np.ufunc, of: Known, neutral: int = 0) -> Floats:
        found = how.reduceat(np.where(of.known, of.values, neutral), begins)
        return np.where(np.logical_or.reduceat(of.known, begins), found.astype(np.float64), np.nan)

    def slow(name: str) -> Floats:
        value = frames.slow[name]
        return np.where(value.known, value.values.astype(np.float64), np.nan) / steps(name)

    def last(name: str) -> Floats:
        place = np.maximum.reduceat(np.where(fast[name].known, order, -1), begins)
        return np.where(place >= 0, fast[name].values[place].astype(np.float64), np.nan) / steps(name)

    moved = moves.known & (moves.values == 1)
    way = quantity("speed_over_time").known(frames)
    placed = way.only(fast["lat_deg"].known & fast["lon_deg"].known)
    distance_m, placed_m = (
        reduced(np.add, of) / steps("speed_kmh") / MS_PER_HOUR * 1000 for of in (way, placed)
    )
    return {
        **{name: last(name) for name in ("lat_deg", "lon_deg", "heading_deg", "speed_kmh")},
        "ignition_on": slow("ignition_on"),
        "odometer_m": slow("odometer_m"),
        "moving_ms": reduced(np.add, quantity("moving_ms").known(frames)),
        "moving_from_ms": reduced(np.minimum, Known(frames.event_ms, moved), np.iinfo(np.int64).max),
        "moving_to_ms": reduced(np.maximum, Known(frames.event_ms + frames.sample_ms, moved)),
        "speeding_ms": reduced(np.add, quantity("speeding_ms").known(frames)),
        "speed_max_kmh": reduced(np.maximum, fast["speed_kmh"]) / steps("speed_kmh"),
        "distance_m": distance_m,
        "placed_m": placed_m,
        "fuel_l": slow("fuel_rate_lph") * span_ms / MS_PER_HOUR,
        "energy_kwh": slow("pack_voltage_v") * slow("pack_current_a") * span_ms / MS_PER_HOUR / 1000,
    }


def harsh_runs(frames: Frames, vehicle_class: Floats, limits: Journeys) -> list[list[float]]:
    """The runs of each frame, RUN numbers each; of an unknown class (NaN) as if it were a car.

    The limits of a class are the same at every sample, so runs do not depend on what the frame before said. A
    gate lies within the resolution of a speed in a standard sensor's whole steps: such a one may be above it.
    """
    of_class = np.where(np.isnan(vehicle_class), CLASSES.index("car"), vehicle_class).astype(np.int64)
    found: list[list[float]] = [[] for _ in range(len(frames.n))]
    speed, long, lateral = (frames.fast[n] for n in ("speed_kmh", "accel_long_mps2", "accel_lat_mps2"))
    accel, across = long.values / steps("accel_long_mps2"), lateral.values / steps("accel_lat_mps2")
    strengths = (-accel, long.known), (accel, long.known), (np.abs(across), lateral.known)
    least_g = limits.brake_g, limits.accelerate_g, limits.corner_g
    gates_kmh = limits.harsh_gate_kmh, limits.harsh_gate_kmh, limits.corner_gate_kmh
    step = round(BY_NAME["speed_kmh"].sensor_step * steps("speed_kmh"))
    begins = np.flatnonzero(frames.index == 0)
    coarse = np.logical_and.reduceat(~speed.known | (speed.values % step == 0), begins)
    highest = speed.values + np.where(coarse, step / 2, 0)[frames.of_sample]
    for kind, (strength, known) in enumerate(strengths):
        least = G_MPS2 * np.array(least_g[kind])[of_class][frames.of_sample]
        fast = highest > gates_kmh[kind] * steps("speed_kmh")
        places = np.flatnonzero(known & speed.known & (strength > least) & fast)
        if not len(places):
            continue
        begins = np.flatnonzero((np.diff(places, prepend=-2) != 1) | (frames.index[places] == 0))
        firsts, lasts = places[begins], places[np.append(begins[1:], len(places)) - 1]
        peaks = np.maximum.reduceat(strength[places], begins)
        ends: Ints = frames.event_ms[lasts] + frames.sample_ms[lasts]
        kmh = speed.values[firsts] / steps("speed_kmh")
        columns = (frames.of_sample[firsts], frames.event_ms[firsts], ends, peaks, kmh)
        for frame, *run in zip(*(column.tolist() for column in columns), strict=True):
            found[frame] += [float(kind), *map(float, run)]
    return found


@dataclass(frozen=True, slots=True)
class Features:
    """What n frames say: those of a batch of records, in their order, a row a readable frame; or the next
    frames of n vehicles, one each, which is what everything that remembers works on.

    Frames of a vehicle come one after the other, vehicles do not meet: so round by round each step is
    arithmetic on columns whose rows are vehicles.
    ``ids``: vehicles; ``vehicle``: [n], places of their ids there, in a round of their memories, each once.
    ``frame_features``: [n, FRAME_FEATURES], doubles, NaN where not known; ``runs``: harsh runs by frame (RUN
    numbers each). ``rules``: of a batch, what they say of it.
    """

    ids: Sequence[str]
    vehicle: Ints
    frame_features: Floats
    runs: Sequence[Sequence[float]]
    rules: RuleInputs | None = None

    def __len__(self) -> int:
        return len(self.vehicle)

    def __getitem__(self, name: str) -> Floats:
        """A feature by frame, [n]."""
        return self.frame_features[:, PLACE[name]]

    def take(self, rows: Ints) -> "Features":
        runs = [self.runs[row] for row in rows.tolist()] if self.runs else self.runs
        rules = self.rules and self.rules.take(rows)
        return Features(self.ids, self.vehicle[rows], self.frame_features[rows], runs, rules)

    def at(self, lanes: Ints) -> "Features":
        """Those at ``lanes`` among the n, in their order."""
        return self if len(lanes) == len(self) else self.take(lanes)

    def id_of(self, lane: int) -> str:
        return self.ids[int(self.vehicle[lane])]

    def of(self, ids: Collection[str]) -> "Features":
        wanted = np.array([vehicle_id in ids for vehicle_id in self.ids], np.bool_)
        return self.take(np.flatnonzero(wanted[self.vehicle]))


def joined(parts: Sequence[Features]) -> Features:
    """All of them, one after the other; there is at least one."""
    if len(parts) == 1:
        return parts[0]
    ids = dict.fromkeys(vehicle_id for part in parts for vehicle_id in part.ids)
    place = {vehicle_id: k for k, vehicle_id in enumerate(ids)}
    vehicle = [np.array([place[each] for each in part.ids], np.int64)[part.vehicle] for part in parts]
    frame_features = np.concatenate([part.frame_features for part in parts])
    runs = [run for part in parts for run in part.runs]
    rules = concatenated([part.rules for part in parts if part.rules is not None])
    return Features([*ids], np.concatenate(vehicle), frame_features, runs, rules)


@dataclass(frozen=True, slots=True)
class VehicleStage:
    """From records to what a memory of vehicles needs of each frame, a batch at a time.

    Every frame whose head can be read counts: one whose clock is not believed says nothing but that its
    number was used, so that nobody waits for it. ``lookup``: where the lookups are; ``rules``: those
    to be evaluated, in their order.
    """

    limits: ClockLimits
    journeys: Journeys
    lookup: Place
    rules: tuple[Rule, ...] = ()

    def frames(self, records: pa.RecordBatch) -> Frames | None:
        return frame_batch(records, self.limits)

    def features(self, batch: Frames) -> Features:
        known = lookups.of_vehicles(self.lookup, batch.vehicles)
        believed, of_samples = batch.believed, sample_features(batch)
        columns = of_samples | {
            "boot_id": batch.boot_id, "seq": batch.seq, "t0_ms": batch.t0_ms,
            "end_ms": batch.t0_ms + batch.n * batch.dt_ms, "received_ms": batch.received_ms,
            "believed": believed,
            "vehicle_class": lookups.index_among(known["vehicle_class"], CLASSES),
            "powertrain": lookups.index_among(known["powertrain"], POWERTRAINS),
        }  # fmt: skip
        runs = harsh_runs(batch, columns["vehicle_class"], self.journeys)
        coded = batch.vehicles.dictionary_encode()
        return Features(
            coded.dictionary.to_pylist(), coded.indices.to_numpy().astype(np.int64),
            np.column_stack([columns[name] for name in FRAME_FEATURES]),
            [run if is_so else [] for run, is_so in zip(runs, believed.tolist(), strict=True)],
            self._evaluated(batch, known, of_samples),
        )  # fmt: skip

    def _evaluated(self, batch: Frames, known: dict[str, pa.Array], of_samples: dict[str, Any]) -> RuleInputs:
        """What the rules say of the frames, whose vehicles are ``known`` to be so and so."""
        if not self.rules:
            return unknown_inputs(0, len(batch))
        named = {word for rule in self.rules for word in rule.words()}
        columns = known | {name: batch.table[name] for name in HEAD if name in named}
        columns |= plausible_columns(batch.table, [s.name for s in SIGNALS if s.name in named])
        where = tuple(of_samples[name] for name in ("lat_deg", "lon_deg", "heading_deg"))
        columns |= lookups.history(self.lookup, named, batch.vehicles, where)
        return _evaluator(self.rules)(pa.table(columns))


@lru_cache(maxsize=2)
def _evaluator(rules: tuple[Rule, ...]) -> "Evaluator":
    """Of a process: translating the rules costs more than evaluating them."""
    from stream_jobs.rules.evaluation import Evaluator  # noqa: PLC0415  see above

    return Evaluator(rules)


def vehicle_stage(settings: Settings, rule_set: "RuleSet") -> VehicleStage:
    """The stage before the core, with the rules that the core looks at."""
    rules = tuple(detector.rule for detector in rule_set)
    return VehicleStage(clock_limits(settings), settings.journeys, place_of(settings), rules)
