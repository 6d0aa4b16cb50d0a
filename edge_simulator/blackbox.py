"""The event data recorders of a fleet: fed at 10 Hz, asked about impacts, and sealing what they find."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edge_simulator import faults, pulse, recorder
from edge_simulator.fleet import Fleet
from edge_simulator.instruments import Instruments

FIRST_CYCLE = 1000
"""Ignition cycle of the first vehicle at the run's start."""


class BlackBoxes:
    """One recorder a vehicle. ``h_ms`` is the length of a physics step."""

    def __init__(
        self, vehicle_ids: Sequence[str], fleet: Fleet, instruments: Instruments, has_engine: Sequence[bool],
        h_ms: float,
    ) -> None:  # fmt: skip
        self._ids = vehicle_ids
        self._fleet = fleet
        self._instruments = instruments
        self._has_engine = has_engine
        self._h_ms = max(1, round(h_ms))
        self._every = max(1, int(recorder.SAMPLE_MS // h_ms))
        self._ring = recorder.Ring(len(vehicle_ids), h_ms * self._every)
        self._steps = 0
        self._seq = np.zeros(len(vehicle_ids), dtype=np.int64)

    def remember(self, now_ms: int) -> None:
        """Feed the rings at 10 Hz; called after each physics step."""
        self._steps += 1
        if self._steps % self._every == 0:
            self._ring.record(now_ms, self._instruments.pre_crash())

    def judge(self, burst: faults.Burst, start_ms: int) -> tuple[int, bytes] | None:
        """When to send the record of an impact, and the record; None where nothing triggers.

        ``start_ms`` is the run's start, the zero of ``burst.start_ms``.
        """
        finding = pulse.judge(burst.accel)
        if finding is None:
            return None
        i, motion = burst.fault.vehicle, self._fleet.state
        since_ms = burst.start_ms - self._h_ms + finding.zero_ms % self._h_ms
        scene = recorder.Scene(
            vehicle_id=self._ids[i], boot_id=start_ms, seq=int(self._seq[i]), event_ms=start_ms + since_ms,
            lat_deg=float(motion.lat[i]), lon_deg=float(motion.lon[i]), belt_on=True,
            has_engine=self._has_engine[i], ignition_cycle=FIRST_CYCLE + i,
        )  # fmt: skip
        self._seq[i] += 1
        record = recorder.record(scene, self._ring.harvest(i, since_ms), finding)
        return start_ms + since_ms + 250, record
