"""A run: the world's messages, paced by the wall clock, published, counted and told.

The wall clock only paces; what is sent follows from the scenario. A run that falls behind says so.
"""

from __future__ import annotations

import time
from typing import Any

from edge_simulator.console import now_ms
from edge_simulator.edr import crash_store
from edge_simulator.edr.crash_store import CrashStore
from edge_simulator.runfiles import RunFiles
from edge_simulator.scenario import SAMPLES, Scenario
from edge_simulator.sending.publishing import Publishing
from edge_simulator.sending.reactions import COUNTS, Reactions
from edge_simulator.sending.sender import Plan, Say, Sender, Stopped
from edge_simulator.world import World
from infra.contract.downlink import Verifier

SECOND_S = 1.0
SEQUENCES_S = 10.0
"""The sequence numbers of a large fleet are some MB: they are not written each second."""


class Run:
    """One simulation, from the first birth message to the summary.

    With a ``verifier`` its vehicles listen to the service.
    """

    def __init__(
        self, plan: Plan, world: World, publisher: Publishing, files: RunFiles, say: Say,
        verifier: Verifier | None = None,
    ) -> None:  # fmt: skip
        self._plan = plan
        self._world = world
        self._publisher = publisher
        self._files = files
        self._say = say
        sc = world.scenario
        origin_ms = sc.start_ms + SAMPLES * sc.cadence.dt_ms
        self._crashes = CrashStore(files.folder, world.vehicle_ids)
        self._sender = Sender(plan, world.vehicle_ids, publisher, origin_ms, self._tick, self._crashes.mark)
        self._reactions = (
            None
            if verifier is None
            else Reactions(plan.mqtt_root, world.vehicle_ids, world.limp_home.enter, verifier, now_ms)
        )
        self._started_ms = time.time_ns() // 1_000_000
        self._next_line = time.monotonic() + SECOND_S
        self._next_sequences = self._next_line
        self._last_sent = 0
        self._held_at_end = 0

    def go(self, stopped: Stopped) -> dict[str, Any]:
        """Run to the end or until ``stopped``; returns the summary."""
        self._sender.send_now(self._world.births())
        last_ms = self._world.scenario.start_ms
        for slot in self._world.slots():
            last_ms = slot.end_ms
            self._files.truth(slot.truth)
            self._files.frames(slot.messages)
            self._crashes.keep(slot.crashes)
            self._sender.send(slot.messages, stopped)
            if self._reactions is not None:
                self._reactions.hear(self._publisher.take())
            if stopped():
                break
        rest, open_rows = self._world.end(last_ms)
        self._files.truth(open_rows)
        self._held_at_end = len(rest)
        self._files.frames(rest)
        self._sender.send_now(rest)
        self._sender.send_now(self._world.farewells(last_ms))
        self._publisher.drain(self._plan.drain_s)
        self._note_crashes()
        summary = self.summary(finished=True)
        self._files.sequences(self._world.emitter.sequences())
        self._files.sync(summary)
        return summary

    def _tick(self) -> None:
        """Once a second: a line for people, run.json for machines, logs on the disk."""
        now = time.monotonic()
        if now < self._next_line:
            return
        counts = self._publisher.counts
        sent = counts.sent["telemetry"]
        held_back = len(self._world.queue) + len(self._world.emitter.radio)
        rate = (sent - self._last_sent) / (now - self._next_line + SECOND_S)
        self._say(
            f"target {self._world.target_rate():.0f}/s  achieved {rate:.0f}/s  "
            f"behind {self._sender.behind_s:.2f} s  overrun {self._sender.overrun}  "
            f"in flight {self._publisher.owed}  "
            f"acked {counts.acked['telemetry']}  held back {held_back}  "
            f"errors {counts.refused}  reconnects {counts.reconnects}"
        )
        self._last_sent = sent
        self._next_line = now + SECOND_S
        self._note_crashes()
        if now >= self._next_sequences:
            self._next_sequences = now + SEQUENCES_S
            self._files.sequences(self._world.emitter.sequences())
        self._files.sync(self.summary(finished=False))

    def _note_crashes(self) -> None:
        """Write down which crash records the broker has."""
        marks = self._publisher.counts.acked_marks
        crash_store.note(marks)
        marks.clear()

    def summary(self, finished: bool) -> dict[str, Any]:
        """The counts of the run so far, as run.json holds them."""
        sc: Scenario = self._world.scenario
        made, counts, times = self._world.counts, self._publisher.counts, self._publisher.latency
        return {
            "run_id": self._plan.run_id,
            "seed": sc.seed,
            "vehicles": sc.vehicles,
            "boot_id": sc.start_ms,
            "start_ms": sc.start_ms,
            "interval_ms": sc.cadence.interval_ms,
            "target_rate": sc.full_rate,
            "generated": made["generated"],
            "sent": counts.sent["telemetry"],
            "acked": counts.acked["telemetry"],
            "lost_on_link": made["lost"],
            "dropped_on_board": made["dropped_on_board"],
            "poison": counts.sent["poison"],
            "crashes": made["crashes"],
            **(dict.fromkeys(COUNTS, 0) if self._reactions is None else self._reactions.counts),
            "limp_home": self._world.limp_home.entered,
            "link": {name: made[name] for name in LINK_COUNTS},
            "held_at_end": self._held_at_end,
            "faults": {"planned": made["planned_faults"], "begun": made["begun_faults"]},
            "messages": {
                "sent": counts.sent.total(),
                "acked": counts.acked.total(),
                "owed": self._publisher.owed,
            },
            "overrun": self._sender.overrun,
            "errors": counts.refused,
            "reconnects": counts.reconnects,
            "puback_ms": {f"p{q}": times.quantile_ms(q / 100) for q in (50, 95, 99)},
            "started_ms": self._started_ms,
            "ended_ms": time.time_ns() // 1_000_000 if finished else None,
            "finished": finished and self._publisher.owed == 0,
        }


LINK_COUNTS = (
    "late",
    "late_beyond",
    "duplicate",
    "disorder",
    "lost",
    "clock_ahead",
    "clock_unset",
    "poison",
    "outages",
    "stored_on_board",
    "dropped_on_board",
    "clock_boot",
    "free_clocks",
    "cloned_vehicles",
    "clone_frames",
)
