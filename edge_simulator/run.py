"""A run: the world's messages, paced by the wall clock, published, counted and told.

The wall clock only paces; what is sent follows from the scenario. A run that falls behind says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from edge_simulator import crash_store
from edge_simulator.crash_store import CrashStore, Mark
from edge_simulator.outbox import Outgoing
from edge_simulator.publisher import Message, Publisher
from edge_simulator.runfiles import RunFiles
from edge_simulator.scenario import SAMPLES, Scenario
from edge_simulator.world import World
from infra.contract import topics

CHUNK_S = 0.005
OVERRUN_MS = 100
SECOND_S = 1.0

Say = Callable[[str], None]
Stopped = Callable[[], bool]
Tick = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """How a run is carried out."""

    run_id: str
    mqtt_root: str
    max_in_flight: int
    drain_s: float
    paced: bool = True
    """Messages leave at their times; else as fast as the broker takes them."""


class Sender:
    """Publishes messages at their times and keeps the counts of being late.

    ``origin_ms`` on the messages' clock is now; ``tick`` is called whenever there is time; ``mark`` says what
    the PUBACK of a message is to be noted under.
    """

    def __init__(
        self, plan: Plan, vehicle_ids: Sequence[str], publisher: Publisher, origin_ms: int, tick: Tick,
        mark: Callable[[Outgoing], Mark | None] = lambda _: None,
    ) -> None:  # fmt: skip
        self._mark = mark
        self._plan = plan
        self._ids = vehicle_ids
        self._publisher = publisher
        self._origin_ms = origin_ms
        self._begun = time.monotonic()
        self._driven = self._begun
        self._tick = tick
        self.behind_s = 0.0
        self.overrun = 0

    def send(self, items: Sequence[Outgoing], stopped: Stopped) -> None:
        """Publish each message when it is due; a stop lets the rest go at once."""
        for item in items:
            if not stopped():
                self._await(item.due_ms, stopped)
            self._breathe()
            self._publisher.publish(item.vehicle, self._message(item))
            self._tick()

    def send_now(self, items: Sequence[Outgoing]) -> None:
        """Publish messages without waiting for their times."""
        self.send(items, lambda: True)

    def _message(self, item: Outgoing) -> Message:
        topic = topics.mqtt_topic(self._plan.mqtt_root, self._ids[item.vehicle], item.channel)
        kind = "poison" if item.flag == "poison" else item.channel
        return Message(topic, item.payload, kind, item.retain, self._mark(item))

    def _await(self, due_ms: int, stopped: Stopped) -> None:
        """Wait until a message is due and there is room for it; note how late it is by then."""
        due = self._begun + (due_ms - self._origin_ms) / 1000 if self._plan.paced else time.monotonic()
        while not stopped():
            wait = due - time.monotonic()
            full = self._publisher.owed >= self._plan.max_in_flight
            if wait < CHUNK_S and not full:
                break
            self._publisher.drive(0.05 if full else min(wait, 0.05))
            self._tick()
        self.behind_s = max(0.0, time.monotonic() - due)
        self.overrun += self.behind_s * 1000 > OVERRUN_MS

    def _breathe(self) -> None:
        """Let the network work when sending goes on without a pause."""
        now = time.monotonic()
        if now - self._driven > CHUNK_S:
            self._driven = now
            self._publisher.drive(0.0)


class Run:
    """One simulation, from the first birth message to the summary."""

    def __init__(self, plan: Plan, world: World, publisher: Publisher, files: RunFiles, say: Say) -> None:
        self._plan = plan
        self._world = world
        self._publisher = publisher
        self._files = files
        self._say = say
        sc = world.scenario
        origin_ms = sc.start_ms + SAMPLES * sc.cadence.dt_ms
        self._crashes = CrashStore(files.folder, world.vehicle_ids)
        self._sender = Sender(plan, world.vehicle_ids, publisher, origin_ms, self._tick, self._crashes.mark)
        self._started_ms = time.time_ns() // 1_000_000
        self._next_line = time.monotonic() + SECOND_S
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
            if stopped():
                break
        rest = self._world.queue.flush()
        self._held_at_end = len(rest)
        self._files.frames(rest)
        self._sender.send_now(rest)
        self._sender.send_now(self._world.farewells(last_ms))
        self._publisher.drain(self._plan.drain_s)
        self._note_crashes()
        summary = self.summary(finished=True)
        self._files.sync(summary)
        return summary

    def _tick(self) -> None:
        """Once a second: a line for people, run.json for machines, logs on the disk."""
        now = time.monotonic()
        if now < self._next_line:
            return
        counts = self._publisher.counts
        sent = counts.sent["telemetry"]
        rate = (sent - self._last_sent) / (now - self._next_line + SECOND_S)
        self._say(
            f"target {self.target_rate():.0f}/s  achieved {rate:.0f}/s  "
            f"behind {self._sender.behind_s:.2f} s  overrun {self._sender.overrun}  "
            f"in flight {self._publisher.owed}  "
            f"acked {counts.acked['telemetry']}  held back {len(self._world.queue)}  "
            f"errors {counts.refused}  reconnects {counts.reconnects}"
        )
        self._last_sent = sent
        self._next_line = now + SECOND_S
        self._note_crashes()
        self._files.sync(self.summary(finished=False))

    def _note_crashes(self) -> None:
        """Write down which crash records the broker has."""
        marks = self._publisher.counts.acked_marks
        crash_store.note(marks)
        marks.clear()

    def target_rate(self) -> float:
        """Frames a second that the scenario asks for."""
        return 1000 * self._world.scenario.vehicles / self._world.scenario.cadence.interval_ms

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
            "target_rate": self.target_rate(),
            "generated": made["generated"],
            "sent": counts.sent["telemetry"],
            "acked": counts.acked["telemetry"],
            "lost_on_link": made["lost"],
            "poison": counts.sent["poison"],
            "crashes": made["crashes"],
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
)
