"""To one webhook: its own thread and its own place in the log, so that a dead one holds up nobody else."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import structlog

from bridge.downlink import alerts
from bridge.downlink.alerts import Found, Repeats, Skip
from bridge.downlink.destination import Where
from bridge.downlink.feed import Feed, bury
from bridge.downlink.metrics import DownlinkMetrics
from bridge.downlink.post import post
from bridge.downlink.retry import Answer, pause_s
from bridge.downlink.signature import headers
from bridge.downlink.webhooks import Webhook
from infra.clients.kafka import LOST
from infra.contract.downlink import Silences
from infra.contract.errors import ContractError
from infra.contract.frame import Frame

BATCH: Final = 50
READ_S: Final = 0.25


class HookDelivery:
    """One alert after the other, in the log's order; each until 2xx, refusal, or ``give_up_s``."""

    def __init__(self, hook: Webhook, at: Where, metrics: DownlinkMetrics) -> None:
        self.name = hook.name
        self._hook = hook
        self._at = at
        self._metrics = metrics
        self._silences = Silences(at.silences)
        self._repeats = Repeats(round(1000 * hook.repeat_s))
        self._chance = random.Random()  # noqa: S311  jitter
        self._log = structlog.get_logger().bind(destination=hook.name)

    def serve(self, stop: threading.Event, ready: Callable[[], None]) -> None:
        """Deliver until trouble with Kafka (KafkaException, ServiceError) or ``stop``."""
        at = self._at
        with Feed(at.bootstrap, at.alerts, f"{at.group}.hook.{self.name}") as feed:
            ready()
            while not stop.is_set():
                for found in feed.read(BATCH, READ_S):
                    self._metrics.read.labels(self.name).inc()
                    if not self._settle(found, stop):
                        return
                    feed.commit({found.partition: found.offset + 1})
                    self._metrics.lag.labels(self.name).set(feed.lag())
                feed.commit({})
                self._metrics.lag.labels(self.name).set(feed.lag())

    def _settle(self, found: Found, stop: threading.Event) -> bool:
        """Tell it, skip it, or give it up into a record; False when ``stop`` came first."""
        try:
            alert = alerts.read(found)
        except ContractError:
            return self._skip("broken")
        no_news = self._no_news(alert)
        if no_news is not None:
            return self._skip(no_news)
        try:
            if not self._tell(alert, found, stop):
                return False
        except LOST:
            raise
        except Exception as error:  # noqa: BLE001  one record must not hold up all behind it for ever
            self._log.error("defect", exc_info=True)
            self._give_up(alert, found, f"{type(error).__name__}: {error}")
        self._repeats.told(alert)
        return True

    def _no_news(self, alert: Frame) -> Skip | None:
        """Why the hook is not told of it, None where it is."""
        if alerts.late(alert):
            return "late"
        if not alerts.severe(alert, self._hook.min_severity):
            return "severity"
        if self._repeats.is_one(alert):
            return "repeat"
        return alerts.hushed(alert, self._silences, time.time_ns() // 1_000_000)

    def _skip(self, reason: Skip) -> bool:
        self._metrics.skipped.labels(self.name, reason).inc()
        return True

    def _tell(self, alert: Frame, found: Found, stop: threading.Event) -> bool:
        begun_s = time.monotonic()
        attempt = 0
        while not stop.is_set():
            attempt += 1
            answer = self._attempt(alert, found.value)
            if answer.outcome == "accepted":
                self._metrics.delivered_now(self.name, found.at_ms, time.time_ns() // 1_000_000)
                return True
            wait_s = pause_s(attempt, answer, datetime.now(UTC), self._chance)
            over = time.monotonic() + wait_s - begun_s > self._hook.give_up_s
            if answer.outcome == "refused" or over:
                self._give_up(alert, found, f"given up after {attempt} attempts, the last: {answer}")
                return True
            stop.wait(wait_s)
        return False

    def _attempt(self, alert: Frame, body: bytes) -> Answer:
        hook = self._hook
        signed = headers(hook.secret, alert["alert_id"], int(time.time()), body)
        answer = post(hook.url, signed, body, hook.timeout_s)
        self._metrics.attempts.labels(self.name, answer.outcome).inc()
        return answer

    def _give_up(self, alert: Frame, found: Found, why: str) -> None:
        bury(self._at.bootstrap, self._at.dead, found, self.name, why)
        self._metrics.undelivered.labels(self.name).inc()
        self._log.warning("undelivered", alert_id=alert["alert_id"], why=why)
