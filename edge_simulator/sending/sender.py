"""Messages at their times: what is due goes to the publisher in one go, and how late it was is counted."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edge_simulator.edr.crash_store import CHANNEL, Mark
from edge_simulator.sending.publishing import Message, Publishing
from edge_simulator.telemetry.outbox import Outgoing
from infra.contract import topics

CHUNK_S = 0.005
"""Messages go up to this much early, together."""
GATHER_S = 0.001
"""PUBACKs that come within this are read together."""
BATCH = 1000
OVERRUN_S = 0.1

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
    """Publishes messages at their times, all that are due in one go, and keeps the counts of being late.

    ``origin_ms`` on the messages' clock is now; ``tick`` is called whenever there is time; ``mark`` says what
    the PUBACK of a message is to be noted under.
    """

    def __init__(
        self, plan: Plan, vehicle_ids: Sequence[str], publisher: Publishing, origin_ms: int, tick: Tick,
        mark: Callable[[Outgoing], Mark | None] = lambda _: None,
    ) -> None:  # fmt: skip
        self._mark = mark
        self._plan = plan
        self._ids = vehicle_ids
        self._publisher = publisher
        self._origin_ms = origin_ms
        self._begun = time.monotonic()
        self._tick = tick
        self._topics: dict[tuple[str, int], str] = {}
        self.behind_s = 0.0
        self.overrun = 0

    def send(self, items: Sequence[Outgoing], stopped: Stopped) -> None:
        """Publish each message when it is due; a stop lets the rest go at once. ``items`` are in order."""
        at = 0
        while at < len(items):
            end = min(at + BATCH, len(items))
            if not stopped():
                end = self._await(items, at, end, stopped)
            part = items[at:end]
            self._publisher.publish_many([item.vehicle for item in part], self._messages(part))
            self._publisher.drive(0.0)
            self._tick()
            at = end

    def send_now(self, items: Sequence[Outgoing]) -> None:
        """Publish messages without waiting for their times."""
        self.send(items, lambda: True)

    def _messages(self, items: Sequence[Outgoing]) -> list[Message]:
        topic = self._topic
        return [
            Message(
                topic(item.channel, item.vehicle), item.payload,
                "poison" if item.flag == "poison" else item.channel, item.retain,
                self._mark(item) if item.channel == CHANNEL else None,
            )
            for item in items
        ]  # fmt: skip

    def _topic(self, channel: str, vehicle: int) -> str:
        key = (channel, vehicle)
        if key not in self._topics:
            self._topics[key] = topics.mqtt_topic(self._plan.mqtt_root, self._ids[vehicle], channel)
        return self._topics[key]

    def _await(self, items: Sequence[Outgoing], at: int, end: int, stopped: Stopped) -> int:
        """Wait until a message is due and there is room; returns up to where ``items`` may go by then."""
        paced = self._plan.paced
        due = self._due_s(items[at])
        while not stopped():
            wait = due - time.monotonic() if paced else 0.0
            full = self._publisher.owed >= self._plan.max_in_flight
            if wait < GATHER_S and not full:
                break
            if not full:
                time.sleep(GATHER_S)
            self._publisher.drive(0.05 if full else min(wait - GATHER_S, 0.05))
            self._tick()
        end = min(end, at + max(1, self._plan.max_in_flight - self._publisher.owed))
        if not paced:
            return end
        now = time.monotonic()
        end = bisect_left(items, now + CHUNK_S, at + 1, end, key=self._due_s)
        self.behind_s = max(0.0, now - due)
        self.overrun += bisect_left(items, now - OVERRUN_S, at, end, key=self._due_s) - at
        return end

    def _due_s(self, item: Outgoing) -> float:
        """When a message is due on the monotonic clock."""
        return self._begun + (item.due_ms - self._origin_ms) / 1000
