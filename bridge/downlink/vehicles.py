"""To the vehicles: each alert to ``<root>/<vehicle>/alert``, the offset committed after the PUBACK."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from bridge.downlink import feed as alerts
from bridge.downlink.feed import Delivery, DownlinkMetrics, Feed, Found, Skip, Where
from bridge.downlink.mqtt_out import BUSY, NO_SUBSCRIBER, REFUSED, MqttOut
from infra.contract import downlink
from infra.contract.downlink import Signer
from infra.contract.errors import ContractError, ServiceError
from infra.contract.topics import mqtt_topic

NAME: Final = "vehicles"
IN_FLIGHT: Final = 500
READ_S: Final = 0.05
PUBACK_S: Final = 30.0
DRAIN_S: Final = 5.0


@dataclass(slots=True)
class Place:
    """The position of a record, and whether it was delivered, skipped or given up."""

    partition: int
    offset: int
    settled: bool = False


@dataclass(slots=True)
class Progress:
    """Records taken and not committed yet, in the order of each partition. ``open`` counts the unsettled."""

    open: int = 0
    _places: dict[int, deque[Place]] = field(default_factory=dict)

    def take(self, partition: int, offset: int) -> Place:
        """A record that was read."""
        place = Place(partition, offset)
        self._places.setdefault(partition, deque()).append(place)
        self.open += 1
        return place

    def settle(self, place: Place) -> None:
        """Nothing more will be done about it."""
        if not place.settled:
            place.settled = True
            self.open -= 1

    def committable(self) -> dict[int, int]:
        """The offset to go on from, by partition, before the first unsettled record. Each is given once."""
        moved: dict[int, int] = {}
        for partition, places in self._places.items():
            while places and places[0].settled:
                moved[partition] = places.popleft().offset + 1
        return moved


class VehicleDelivery(Delivery):
    """One connection and one order for all vehicles: whatever fails, it begins again at the last commit."""

    def __init__(self, at: Where, metrics: DownlinkMetrics, signer: Signer) -> None:
        super().__init__(NAME, at, metrics)
        self._signer = signer
        self._in_flight: dict[int, tuple[Place, Found]] = {}
        self._heard_s = 0.0

    def serve(self, stop: threading.Event, ready: Callable[[], None]) -> None:
        """Deliver until trouble (KafkaException, ServiceError) or ``stop``."""
        at, self._in_flight = self.at, {}
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
            self.metrics.read.labels(NAME).inc()
            place = progress.take(found.partition, found.offset)
            if not self._publish(out, place, found):
                progress.settle(place)
        if room <= 0:
            time.sleep(READ_S)
        self._settle(out, progress)
        feed.commit(progress.committable())
        self.metrics.lag.labels(NAME).set(feed.lag())
        out.check()
        if self._in_flight and time.monotonic() - self._heard_s > PUBACK_S:
            raise ServiceError(f"no PUBACK for {PUBACK_S:g} s")

    def _publish(self, out: MqttOut, place: Place, found: Found) -> bool:
        """Publish the alert; False where it was skipped or given up."""
        now_ms = time.time_ns() // 1_000_000
        try:
            alert = alerts.read(found)
        except ContractError as error:
            self.log.warning("no alert", partition=found.partition, offset=found.offset, why=str(error))
            self.skip("broken")
            return False
        valid_s = alerts.valid_s(alert, now_ms)
        reason: Skip | None = alerts.suppressed(alert, self.silences, now_ms)
        if reason is None and (alerts.late(alert) or valid_s <= 0):
            reason = "late" if alerts.late(alert) else "stale"
        if reason is not None:
            self.skip(reason)
            return False
        if not self._in_flight:
            self._heard_s = time.monotonic()
        topic = mqtt_topic(self.at.mqtt_root, alert["vehicle_id"], "alert")
        message = downlink.encode_alert(alert, now_ms, now_ms + 1000 * valid_s)
        try:
            packet_id = out.publish(topic, self._signer.sealed("alert", message), valid_s)
        except ValueError as error:  # the MQTT client cannot carry the message
            self.give_up(found, f"{type(error).__name__}: {error}")
            return False
        self._in_flight[packet_id] = (place, found)
        return True

    def _settle(self, out: MqttOut, progress: Progress) -> None:
        """What the broker acknowledged since."""
        while out.acks:
            packet_id, code = out.acks.popleft()
            place, found = self._in_flight.pop(packet_id)
            self._heard_s = time.monotonic()
            if code in BUSY:
                raise ServiceError(f"the broker takes no more for now (PUBACK 0x{code:02x})")
            if code >= REFUSED:
                self.give_up(found, f"the broker refuses it (PUBACK 0x{code:02x})")
            else:
                self.metrics.nobody.inc(code == NO_SUBSCRIBER)
                self.delivered(found)
            progress.settle(place)
