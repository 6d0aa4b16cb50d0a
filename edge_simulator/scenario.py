"""What a run is: seed, fleet, times, stages and mishaps, checked before anything starts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from edge_simulator.edr.recorder import Setup
from edge_simulator.faults.plan import Wanted
from edge_simulator.telemetry.gnss import GnssSettings
from edge_simulator.telemetry.instruments import Sensors
from edge_simulator.wireless.settings import LinkShares as LinkShares  # noqa: PLC0414  others take it from here
from infra.contract.errors import ConfigError

STEP_MS = 1000  # the number on line changes at most so often


@dataclass(frozen=True, slots=True)
class Stage:
    """So long at a rate that goes evenly from one to the other, frames/s."""

    for_ms: int
    from_rate: float
    to_rate: float


@dataclass(frozen=True, slots=True)
class Schedule:
    """Stages one after the other; the last rate holds after their end. No stage: everybody reports."""

    stages: tuple[Stage, ...] = ()

    @property
    def span_ms(self) -> int:
        return sum(stage.for_ms for stage in self.stages)

    def rate(self, since_ms: int, full: float) -> float:
        """Frames/s wanted ``since_ms`` after the start; ``full`` when every vehicle reports."""
        since_ms -= since_ms % STEP_MS
        for stage in self.stages:
            if since_ms < stage.for_ms:
                return stage.from_rate + (stage.to_rate - stage.from_rate) * since_ms / stage.for_ms
            since_ms -= stage.for_ms
        return self.stages[-1].to_rate if self.stages else full

    def check(self, full: float) -> None:
        """Raise ConfigError for a rate that ``full``, every vehicle reporting, cannot meet."""
        most = max((s.to_rate for s in self.stages), default=0.0)
        if most > full * 1.0001:
            less = f"all vehicles together report {full:g}/s; more vehicles or a shorter interval is needed"
            raise ConfigError(f"stages: {most:g} frames/s are wanted, but {less}")


def stages_of(entries: Sequence[tuple[int, float | None, float | None]]) -> Schedule:
    """Stages from (length in ms, rate, ramp_to): a ramp begins where the stage before it ended, else at 0."""
    stages: list[Stage] = []
    for number, (for_ms, rate, ramp_to) in enumerate(entries, 1):
        if (rate is None) == (ramp_to is None):
            raise ConfigError(f"stages, stage {number}: either rate or ramp_to is wanted")
        last = stages[-1].to_rate if stages else 0.0
        to = rate if rate is not None else ramp_to
        if to is None or to < 0:
            raise ConfigError(f"stages, stage {number}: frames/s of at least 0 are wanted, not {to:g}")
        stages.append(Stage(for_ms, to if rate is not None else last, to))
    return Schedule(tuple(stages))


SAMPLES = 10
LONGEST_COVERED_MS = 10_000  # by a frame: its first sample must not be late when the last one is taken

Profile = Literal["steady", "day"]


@dataclass(frozen=True, slots=True)
class Cadence:
    """How often a vehicle reports: a frame of ``SAMPLES``, ``dt_ms`` apart, once in ``period`` of these.

    The period is SAMPLES when frames join, more when a frame covers only the last 10 s before it.
    """

    dt_ms: int
    period: int

    @property
    def interval_ms(self) -> int:
        return self.dt_ms * self.period


@dataclass(frozen=True, slots=True)
class Scenario:
    """A run. ``frames_per_vehicle`` None goes on until it is stopped; so does ``limit`` None."""

    seed: int
    vehicles: int
    cadence: Cadence
    start_ms: int
    frames_per_vehicle: int | None
    limit: int | None = None
    lat_deg: float = 48.137
    lon_deg: float = 11.575
    ambient_c: float = 16.0
    lateness_ms: int = 30_000
    link: LinkShares = field(default_factory=LinkShares)
    gnss: GnssSettings = field(default_factory=GnssSettings)
    sensors: Sensors = "fine"
    faults: tuple[Wanted, ...] = ()
    profile: Profile = "steady"
    begins_at_s: float = 8 * 3600.0  # local time of the simulated day; stamps are not touched by it
    weekday: int = 0  # 0 is Monday
    parked_every_ms: int | None = None  # how often a parked vehicle reports; None: like one that drives
    schedule: Schedule = field(default_factory=Schedule)
    recorders: Setup = field(default_factory=Setup)  # how the event data recorders are set up
    truth_edges: bool = False  # road edges passed are ground truth too; they are many
    longest_step_ms: int = 100  # physics goes in steps of at most this
    first: int = 0  # number of the first vehicle, for identities and chance of a part of a larger fleet

    @property
    def full_rate(self) -> float:
        """Frames/s when every vehicle reports."""
        return 1000 * self.vehicles / self.cadence.interval_ms

    @property
    def span_ms(self) -> int:
        """Simulated time of the run; 10 minutes stand for an endless one where a plan needs a number."""
        every_ms = self.cadence.interval_ms
        return (self.frames_per_vehicle or max(1, 600_000 // every_ms)) * every_ms


def cadence(vehicles: int, rate: float | None, interval_ms: int | None) -> Cadence:
    """For a ``rate`` in frames/s or a vehicle's interval, else 1 s. Raises ConfigError beyond 2 %."""
    if rate is not None and interval_ms is not None:
        raise ConfigError("--rate and --interval exclude each other: give one of them")
    wanted_ms = 1000.0 * vehicles / rate if rate is not None else float(interval_ms or 1000)
    if wanted_ms <= LONGEST_COVERED_MS:
        found = Cadence(max(1, round(wanted_ms / SAMPLES)), SAMPLES)
    else:
        found = Cadence(LONGEST_COVERED_MS // SAMPLES, round(wanted_ms * SAMPLES / LONGEST_COVERED_MS))
    if abs(found.interval_ms / wanted_ms - 1) > 0.02:
        raise ConfigError(
            f"{vehicles} vehicles cannot report every {wanted_ms:g} ms: the sample spacing is whole ms; "
            f"next: every {found.interval_ms} ms ({1000 * vehicles / found.interval_ms:g} frames/s)"
        )
    return found
