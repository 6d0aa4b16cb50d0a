"""What the fleet makes of messages from the service: which it listens to, what it does on hearing them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from edge_simulator.sending.publishing import Incoming
from infra.contract import downlink
from infra.contract.errors import ContractError
from infra.contract.frame import Frame
from infra.contract.topics import EVERYBODY, mqtt_filter, mqtt_topic

FEW = 10
"""A connection of so many vehicles names each; one of more takes all and drops what is not its own."""
REMEMBERED = 100_000
"""Identities of messages kept to know a repetition."""

COUNTS = ("alerts_received", "notices", "downlink_repeats", "downlink_broken")


def filters(root: str, vehicle_ids: Sequence[str], connections: int) -> dict[int, list[str]]:
    """What each connection subscribes to; vehicle ``k`` is pinned to connection ``k % connections``.

    Of many vehicles the first connection hears for all, so that nothing comes more than once.
    """
    if len(vehicle_ids) > FEW * connections:
        return {0: [mqtt_filter(root, "alert"), mqtt_filter(root, "notice")]}
    found: dict[int, list[str]] = {k: [mqtt_topic(root, EVERYBODY, "notice")] for k in range(connections)}
    for k, vehicle_id in enumerate(vehicle_ids):
        found[k % connections] += [mqtt_topic(root, vehicle_id, name) for name in ("alert", "notice")]
    return found


class Reactions:
    """Hears for all vehicles of a run. ``limp`` is told which vehicle is to limp home, and why."""

    def __init__(
        self, root: str, vehicle_ids: Sequence[str], limp: Callable[[int, Mapping[str, Any]], None]
    ) -> None:
        self.counts = Counter(dict.fromkeys(COUNTS, 0))
        self._alerts = {mqtt_topic(root, name, "alert"): k for k, name in enumerate(vehicle_ids)}
        self._notices = {mqtt_topic(root, name, "notice") for name in (*vehicle_ids, EVERYBODY)}
        self._limp = limp
        self._seen: dict[str, None] = {}

    def hear(self, incoming: Iterable[Incoming]) -> None:
        """React to messages; those for other fleets' vehicles, and repetitions, change nothing."""
        for topic, payload in incoming:
            try:
                if topic in self._alerts:
                    self._alert(self._alerts[topic], downlink.decode_alert(payload))
                elif topic in self._notices:
                    notice = downlink.decode_notice(payload)
                    self.counts["notices"] += self._is_new(f"notice {notice['notice_id']} {notice['to']}")
            except ContractError:
                self.counts["downlink_broken"] += 1

    def _alert(self, vehicle: int, alert: Frame) -> None:
        if not self._is_new(f"alert {alert['alert_id']}"):
            return
        self.counts["alerts_received"] += 1
        if alert["severity"] == "CRITICAL":
            self._limp(vehicle, {key: alert[key] for key in ("alert_id", "rule", "severity")})

    def _is_new(self, identity: str) -> bool:
        if identity in self._seen:
            self.counts["downlink_repeats"] += 1
            return False
        if len(self._seen) >= REMEMBERED:
            del self._seen[next(iter(self._seen))]
        self._seen[identity] = None
        return True
