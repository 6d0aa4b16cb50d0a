"""To the vehicles: each alert to ``<root>/<vehicle>/alert``, the offset committed after the PUBACK."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

import structlog

from bridge.downlink import alerts
from bridge.downlink.alerts import Found, Skip
from bridge.downlink.destination import Where
from bridge.downlink.feed import Feed, bury
from bridge.downlink.metrics import DownlinkMetrics
from bridge.downlink.mqtt_out import BUSY, NO_SUBSCRIBER, REFUSED, MqttOut
from bridge.downlink.progress import Place, Progress
from infra.contract import downlink
from infra.contract.downlink import Signer, Silences
from infra.contract.errors import ContractError, ServiceError
from infra.contract.topics import mqtt_topic

NAME: Final = "vehicles"
IN_FLIGHT: Final = 500
READ_S: Final = 0.05
PUBACK_S: Final = 30.0
DRAIN_S: Final = 5.0


class VehicleDelivery:
    """One connection and one order for all vehicles: whatever fails, it begins again at the last commit."""

    name = NAME

    def __init__(self, at: Where, metrics: DownlinkMetrics, signer: Signer) -> None:
        self._at = at
        self._signer = signer
        self._metrics = metrics
        self._silences = Silences(at.silences)
        self._log = structlog.get_logger().bind(destination=NAME)
        self._in_flight: dict[int, tuple[Place, Found]] = {}
        self._heard_s = 0.0

    def serve(self, stop: threading.Event, ready: Callable[[], None]) -> None:
        """Deliver until trouble (KafkaException, ServiceError) or ``stop``."""
        at, self._in_flight = self._at, {}
        with (
            Feed(at.bootstrap, at.alerts, f"{at.group}.{NAME}") as feed,
            MqttOut(at.mqtt, at.client_id) as out,
        ):
            ready()
            progress = Progress()
            while not stop.is_set():
                self._turn(feed, out, progress)
            deadline_s = time.monotonic() + DRAIN_S
            while self._in_flight and time.monotonic() < deadline_s:
                time.sleep(READ_S)
                self._settle(out, progress)
            feed.commit(progress.committable())

    def _turn(self, feed: Feed, out: MqttOut, progress: Progress) -> None:
        room = IN_FLIGHT - progress.open
        for found in feed.read(room, READ_S) if room > 0 else ():
            self._metrics.read.labels(NAME).inc()
            self._take(out, progress, found)
        if room <= 0:
            time.sleep(READ_S)
        self._settle(out, progress)
        feed.commit(progress.committable())
        self._metrics.lag.labels(NAME).set(feed.lag())
        out.check()
        if self._in_flight and time.monotonic() - self._heard_s > PUBACK_S:
            raise ServiceError(f"no PUBACK for {PUBACK_S:g} s")

    def _take(self, out: MqttOut, progress: Progress, found: Found) -> None:
        place = progress.take(found.partition, found.offset)
        now_ms = time.time_ns() // 1_000_000
        try:
            alert = alerts.read(found)
        except ContractError as error:
            self._log.warning("no alert", partition=found.partition, offset=found.offset, why=str(error))
            self._skip(progress, place, "broken")
            return
        valid_s = alerts.valid_s(alert, now_ms)
        hushed = alerts.hushed(alert, self._silences, now_ms)
        if hushed is not None:
            self._skip(progress, place, hushed)
        elif alerts.late(alert):
            self._skip(progress, place, "late")
        elif valid_s <= 0:
            self._skip(progress, place, "stale")
        else:
            if not self._in_flight:
                self._heard_s = time.monotonic()
            topic = mqtt_topic(self._at.mqtt_root, alert["vehicle_id"], "alert")
            message = downlink.encode_alert(alert, now_ms, now_ms + 1000 * valid_s)
            try:
                packet_id = out.publish(topic, self._signer.sealed("alert", message), valid_s)
            except ValueError as error:  # the MQTT client's word for a message that it cannot carry
                self._give_up(progress, place, found, f"{type(error).__name__}: {error}")
                return
            self._in_flight[packet_id] = (place, found)

    def _give_up(self, progress: Progress, place: Place, found: Found, why: str) -> None:
        bury(self._at.bootstrap, self._at.dead, found, NAME, why)
        self._metrics.undelivered.labels(NAME).inc()
        progress.settle(place)

    def _skip(self, progress: Progress, place: Place, reason: Skip) -> None:
        self._metrics.skipped.labels(NAME, reason).inc()
        progress.settle(place)

    def _settle(self, out: MqttOut, progress: Progress) -> None:
        """What the broker acknowledged since."""
        while out.acks:
            packet_id, code = out.acks.popleft()
            place, found = self._in_flight.pop(packet_id)
            self._heard_s = time.monotonic()
            if code in BUSY:
                raise ServiceError(f"the broker takes no more for now (PUBACK 0x{code:02x})")
            if code >= REFUSED:
                self._give_up(progress, place, found, f"the broker refuses it (PUBACK 0x{code:02x})")
                continue
            self._metrics.nobody.inc(code == NO_SUBSCRIBER)
            self._metrics.delivered_now(NAME, found.at_ms, time.time_ns() // 1_000_000)
            progress.settle(place)
