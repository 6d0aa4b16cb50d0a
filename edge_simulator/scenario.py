"""What a run is: seed, fleet, times and mishaps, checked before anything starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from edge_simulator.edr.recorder import Setup
from edge_simulator.faults.plan import Wanted
from edge_simulator.stages import Schedule
from edge_simulator.telemetry.gnss import GnssSettings
from edge_simulator.wireless.settings import LinkShares as LinkShares  # noqa: PLC0414  others take it from here
from infra.contract.errors import ConfigError

SAMPLES = 10
LONGEST_COVERED_MS = 10_000
"""A frame covers at most this much: its first sample must not be late by the time the last one is taken."""

Profile = Literal["steady", "day"]


@dataclass(frozen=True, slots=True)
class Cadence:
    """How often a vehicle reports. A frame holds ``SAMPLES`` samples ``dt_ms`` apart.

    ``period`` is the number of sample times between two frames of a vehicle: SAMPLES when frames join without
    a gap, more when reports are so rare that a frame covers only the last 10 s before it.
    """

    dt_ms: int
    period: int

    @property
    def interval_ms(self) -> int:
        """Time between two frames of a vehicle."""
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
    faults: tuple[Wanted, ...] = ()
    profile: Profile = "steady"
    begins_at_s: float = 8 * 3600.0
    """Local time of the simulated day at the start, s after midnight; stamps are not touched by it."""
    weekday: int = 0
    """0 is Monday."""
    parked_every_ms: int | None = None
    """How often a parked vehicle reports; None: as often as one that drives."""
    schedule: Schedule = field(default_factory=Schedule)
    recorders: Setup = field(default_factory=Setup)
    """How the event data recorders are set up."""
    truth_edges: bool = False
    """Road edges passed are ground truth too; they are many."""
    longest_step_ms: int = 100
    """Physics goes in steps of at most this."""
    first: int = 0
    """Number of the first vehicle: a part of a larger fleet has identities and chance of its own."""

    @property
    def full_rate(self) -> float:
        """Frames/s when every vehicle reports."""
        return 1000 * self.vehicles / self.cadence.interval_ms

    @property
    def span_ms(self) -> int:
        """Simulated time of the run; 10 minutes stand for an endless one where a plan needs a number."""
        return (
            self.frames_per_vehicle or max(1, 600_000 // self.cadence.interval_ms)
        ) * self.cadence.interval_ms


def cadence(vehicles: int, rate: float | None, interval_ms: int | None) -> Cadence:
    """The cadence for a global ``rate`` (frames/s) or a vehicle's ``interval_ms``; neither means 1 s.

    Raises ConfigError for both at once and for what cannot be met within 2 %.
    """
    if rate is not None and interval_ms is not None:
        raise ConfigError("--rate and --interval exclude each other: give one of them")
    if vehicles < 1:
        raise ConfigError(f"--vehicles {vehicles}: at least 1 is wanted")
    if rate is not None and not rate > 0:
        raise ConfigError(f"--rate {rate:g}: frames per second, more than 0, are wanted")
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
