"""Messages from the service: which ones the fleet listens to, and what it does with them."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from edge_simulator.sending.mqtt_packets import Incoming
from infra.contract import downlink
from infra.contract.downlink import Verifier
from infra.contract.errors import ContractError
from infra.contract.frame import Frame
from infra.contract.topics import EVERYBODY, mqtt_filter, mqtt_topic

FEW = 10  # a connection of so many vehicles names each; one of more takes all and drops what is not its own
REMEMBERED = 100_000  # identities of messages kept to know a repetition

COUNTS = (
    "alerts_received",
    "notices",
    "downlink_repeats",
    "downlink_broken",  # signed by the service, and not to be read
    "downlink_unsigned",  # no signature of the service's: anybody may have published it
    "downlink_expired",  # signed, and no news any more: an old one played again
    "downlink_misdirected",  # signed for another vehicle than the topic's
)


KINDS: Mapping[str, tuple[Callable[[bytes], Frame], str, str, str]] = {
    "alert": (downlink.decode_alert, "vehicle_id", "alert_id", "alerts_received"),
    "notice": (downlink.decode_notice, "to", "notice_id", "notices"),
}
"""How a message is read, which keys say who it is for and which it is, what counts it."""


def filters(
    root: str, vehicle_ids: Sequence[str], connections: int, each: bool = False
) -> dict[int, list[str]]:
    """What each connection subscribes to; vehicle ``k`` is pinned to connection ``k % connections``.

    Of many vehicles the first connection hears for all, so that nothing comes more than once; unless
    ``each`` is told no more than what its own vehicles are.
    """
    if len(vehicle_ids) > FEW * connections and not each:
        return {0: [mqtt_filter(root, "alert"), mqtt_filter(root, "notice")]}
    found: dict[int, list[str]] = {k: [mqtt_topic(root, EVERYBODY, "notice")] for k in range(connections)}
    for k, vehicle_id in enumerate(vehicle_ids):
        found[k % connections] += [mqtt_topic(root, vehicle_id, name) for name in ("alert", "notice")]
    return found


class Reactions:
    """Hears for all vehicles of a run. ``limp`` is called with the vehicle that is to limp home, and why.

    Only what the service signed, for this receiver and for now, changes anything; the rest is counted.
    """

    def __init__(
        self, root: str, vehicle_ids: Sequence[str], limp: Callable[[int, Mapping[str, Any]], None],
        verifier: Verifier, now_ms: Callable[[], int],
    ) -> None:  # fmt: skip
        self.counts = Counter(dict.fromkeys(COUNTS, 0))
        self._numbers = {name: k for k, name in enumerate(vehicle_ids)}
        self._topics = {mqtt_topic(root, name, "alert"): ("alert", name) for name in vehicle_ids}
        for name in (*vehicle_ids, EVERYBODY):
            self._topics[mqtt_topic(root, name, "notice")] = ("notice", name)
        self._limp, self._verifier, self._now_ms = limp, verifier, now_ms
        self._seen: dict[str, None] = {}

    def hear(self, incoming: Iterable[Incoming]) -> None:
        """React to messages; those for other fleets' vehicles, and repetitions, change nothing."""
        for topic, payload, _ in incoming:
            if topic not in self._topics:
                continue
            kind, to = self._topics[topic]
            message, counted_as = self._judged(kind, to, payload)
            self.counts[counted_as] += 1
            if counted_as == "alerts_received" and message["severity"] == "CRITICAL":
                self._limp(self._numbers[to], {key: message[key] for key in ("alert_id", "rule", "severity")})

    def _judged(self, kind: str, to: str, payload: bytes) -> tuple[Frame, str]:
        """The message, and what it is counted as: accepted if signed for ``to`` and for now, and new."""
        decode, to_key, id_key, accepted = KINDS[kind]
        signed = self._verifier.opened(kind, payload)
        if signed is None:
            return {}, "downlink_unsigned"
        try:
            message = decode(signed)
        except ContractError:
            return {}, "downlink_broken"
        if message[to_key] != to:
            return message, "downlink_misdirected"
        if message["expires_ms"] < self._now_ms():
            return message, "downlink_expired"
        identity = f"{kind} {message[id_key]} {to}"
        if identity in self._seen:
            return message, "downlink_repeats"
        if len(self._seen) >= REMEMBERED:
            del self._seen[next(iter(self._seen))]
        self._seen[identity] = None
        return message, accepted
