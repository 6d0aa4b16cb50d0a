"""From an MQTT message to a Kafka record, or to the reason why not. Pure: no network, no clock."""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import islice
from math import inf
from typing import Final, NamedTuple

import orjson

from bridge.uplink.wire import CutPayload, NamedTopic
from infra.contract import frame, messages, topics
from infra.contract.errors import ContractError
from infra.contract.frame import USUAL_SAMPLES, Validator, validator
from infra.contract.topics import DETAIL_CHARS, KEPT_BYTES, why_headers

ROUTES_KEPT: Final = 65_536  # topics whose parse is remembered; with more the oldest is learnt anew
LOOKED_AT: Final = 8
TOPIC_KEPT_BYTES: Final = 256  # a longer topic is parsed each time: what is remembered has a bound

DECODERS: Final[dict[str, Callable[[bytes], frame.Frame]]] = {
    "telemetry": frame.decode,
    "crash": messages.decode_crash,
    "status": messages.decode_status,
}
TOKEN_BYTES: Final = 4096
SHARE: Final = 5  # one vehicle may take a fifth of all dead letters; so may those that name none
VEHICLES_KEPT: Final = 10_000
COUNTED_APART: Final = 50  # pairs of reason and vehicle counted apart until reported; more: by reason

Header = tuple[str, bytes]
Headers = list[Header]
SCHEMA_HEADER: Final[Header] = (topics.HEADER_SCHEMA, b"%d" % frame.SCHEMA)


class VehicleLimit:
    """How much a vehicle may send: ``rate_per_s`` messages for ever, ``burst`` at once; rate 0: no limit.

    A token bucket kept as one number, ``due_ms``, when it would be full again (generic cell rate algorithm,
    ITU-T I.371): it moves on by ``cost_ms`` with each message, never lies behind now, and a message passes
    while it is no more than ``slack_ms`` ahead. No clock ticks for idle vehicles.
    """

    def __init__(self, rate_per_s: float = 0.0, burst: int = 1) -> None:
        self.rate_per_s, self.burst = rate_per_s, burst
        self.cost_ms = 1000 / rate_per_s if rate_per_s else 0.0
        self.slack_ms = (burst - 1) * self.cost_ms if rate_per_s else inf

    def steps_back(self, due_ms: float, now_ms: int) -> bool:
        """Whether the clock was set back: a bucket is never that empty."""
        return due_ms - now_ms > self.slack_ms + 2 * self.cost_ms

    def spend(self, due_ms: float, now_ms: int, tokens: int = 1) -> float | None:
        """``due_ms`` after so many tokens more, a full bucket at most; None where there are fewer."""
        begin_ms = now_ms if self.steps_back(due_ms, now_ms) else max(due_ms, now_ms)
        due_ms = begin_ms + min(tokens, self.burst) * self.cost_ms
        return None if due_ms - now_ms > self.slack_ms + self.cost_ms else due_ms

    def __str__(self) -> str:
        return f"more than {self.rate_per_s:g} messages/s after {self.burst} at once"


NO_LIMIT: Final = VehicleLimit()


class Record(NamedTuple):
    """What goes to Kafka; ``timestamp_ms`` is the receive time. A tuple: one is made for every message."""

    topic: str
    key: bytes | None
    value: bytes
    headers: Headers
    timestamp_ms: int


_record = tuple.__new__  # makes a Record from its fields at a third of what its constructor costs


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a message cannot be forwarded; ``key`` is the vehicle id where the topic holds it."""

    reason: str
    detail: str
    key: bytes | None


@dataclass(slots=True)
class Route:
    """What a topic alone says, and what its messages have taught.

    ``passes`` is the quick check of a frame (None for other messages); ``seen_ms`` when the last sound
    message came, 0 before the first; ``due_ms`` see VehicleLimit.
    """

    vehicle_id: str
    channel: str
    kafka_topic: str
    key: bytes
    header: Header
    passes: Validator | None
    more: tuple[Header, ...] = (SCHEMA_HEADER,)
    seen_ms: int = 0
    due_ms: float = 0.0
    shown_ms: int = 0  # when the last frame of a vehicle that is put off went through


_UNKNOWN: Final = Route("", "", "", b"", SCHEMA_HEADER, None)  # "not remembered"; None says "not ours"


class Translator:
    """Knows the names in force: MQTT root and Kafka prefix.

    ``skipped`` are channels that another connection (or another service) handles: their messages translate
    to None. A channel is taken by its place in the topic, ``<root>/[s/<slot>/]<anything>/<channel>``, valid
    id or not. ``limit`` holds for each vehicle and channel. ``region``: where we are, of two.
    """

    def __init__(
        self, root: str, prefix: str, skipped: frozenset[str] = frozenset(), limit: VehicleLimit = NO_LIMIT,
        region: str = "",
    ) -> None:  # fmt: skip
        self._root = root
        self._prefix = prefix
        self._skipped = skipped
        self._limit = limit
        self._of_status = (SCHEMA_HEADER, *region_header(region))
        self._cost_ms, self._slack_ms = limit.cost_ms, limit.slack_ms
        self.dead_letter_topic = topics.kafka_topic(prefix, "dead-letter")
        self.deferred: frozenset[str] = frozenset()
        """Vehicles whose frames are put off, but for one every ``show_every_ms``; any thread may set it."""
        self.show_every_ms = 0
        self._deferred_topic = topics.kafka_topic(prefix, topics.DEFERRED)
        self.forgotten = 0
        self._routes: dict[bytes, Route | None] = {}
        self._samples = USUAL_SAMPLES
        self._received_ms = 0
        self._received: Header = (topics.HEADER_RECEIVED_MS, b"0")

    def translate(self, topic: bytes, raw: bytes, received_ms: int) -> Record | Rejection | None:
        """The record for ``raw``, or the rejection, or None where it is not ours. Never raises."""
        route: Route | None = None
        try:
            found: Route | Rejection | None = self._routes.get(topic, _UNKNOWN)
            if found is _UNKNOWN:
                found = self._learn(topic)
            if not isinstance(found, Route):
                return found
            route = found
            if route.passes is None or not route.passes(raw):
                self._decode(route, raw)
        except ContractError as error:
            return Rejection(error.reason, error.detail, route.key if route else None)
        except Exception as error:  # noqa: BLE001  one message must never stop the lane
            return Rejection("internal", f"{type(error).__name__}: {error}", route.key if route else None)
        route.seen_ms = received_ms
        if route.due_ms > received_ms:
            if route.due_ms - received_ms > self._slack_ms:
                if not self._limit.steps_back(route.due_ms, received_ms):
                    return Rejection("rate_limited", str(self._limit), route.key)
                route.due_ms = 0.0  # our clock was set back: nobody sent too much
            route.due_ms = max(route.due_ms, received_ms) + self._cost_ms
        else:
            route.due_ms = received_ms + self._cost_ms
        if received_ms != self._received_ms:
            self._received_ms, self._received = received_ms, receipt(received_ms)
        name = self._put_off(route, received_ms) if self.deferred else route.kafka_topic
        return _record(
            Record, (name, route.key, raw, [route.header, self._received, *route.more], received_ms)
        )

    def _put_off(self, route: Route, received_ms: int) -> str:
        """The topic of a message while there is overload."""
        if route.passes is None or route.vehicle_id not in self.deferred:
            return route.kafka_topic
        if received_ms - route.shown_ms < self.show_every_ms:
            return self._deferred_topic
        route.shown_ms = received_ms
        return route.kafka_topic

    def _decode(self, route: Route, raw: bytes) -> None:
        """Decide where the quick check does not know; raises ContractError."""
        message = DECODERS[route.channel](raw)
        if message["vehicle_id"] != route.vehicle_id:
            detail = f"the payload says {message['vehicle_id']}, the topic says {route.vehicle_id}"
            raise ContractError("identity_mismatch", detail)
        if route.passes is not None:  # a valid frame: the next ones may have as many samples as it
            self._samples = message["n"]
            route.passes = validator(route.vehicle_id, self._samples)

    def _learn(self, topic: bytes) -> Route | Rejection | None:
        """The route of a topic; remembered unless wrong, for a wrong one may never come again."""
        route = self.route(topic)
        if not isinstance(route, Rejection) and len(topic) <= TOPIC_KEPT_BYTES:
            while len(self._routes) >= ROUTES_KEPT:
                self._forget()
            self._routes[topic] = route
        return route

    def _forget(self) -> None:
        """The oldest topic goes; of the first few one whose bucket is more than half full."""
        first = list(islice(self._routes, LOOKED_AT))
        spent = {t for t in first if (r := self._routes[t]) and r.due_ms - r.seen_ms > self._slack_ms / 2}
        for topic in first:
            route = self._routes.pop(topic)
            if topic not in spent or len(spent) == len(first):
                self.forgotten += 1
                return
            self._routes[topic] = route  # behind all others

    def routes(self) -> list[Route]:
        """The routes learnt so far, one for each topic that sent. Safe in any thread: one step copies."""
        return [route for route in list(self._routes.values()) if route is not None]

    def route(self, topic: bytes) -> Route | Rejection | None:
        """Where messages of ``topic`` (bytes as received, perhaps no UTF-8) go."""
        text = topic.decode(errors="surrogateescape")
        inside = text.startswith(self._root + "/")
        levels = text[len(self._root) + 1 :].split("/") if inside else [""]
        if levels[0] == topics.SLOT_LEVEL and len(levels) > 2:
            levels = levels[2:]
        key = levels[0].encode() if topics.VEHICLE_ID.fullmatch(levels[0]) else None
        if len(levels) == 2 and levels[1] in self._skipped:
            return None
        try:
            vehicle_id, channel = topics.parse_mqtt_topic(self._root, text)
        except ContractError as error:
            return Rejection(error.reason, error.detail, key)
        name = topics.kafka_topic(self._prefix, channel)
        passes = validator(vehicle_id, self._samples) if channel == "telemetry" else None
        header = (topics.HEADER_MQTT_TOPIC, topic)
        more = self._of_status if channel == "status" else (SCHEMA_HEADER,)
        return Route(vehicle_id, channel, name, vehicle_id.encode(), header, passes, more)

    def dead_letter(self, rejection: Rejection, topic: bytes, raw: bytes, received_ms: int) -> Record:
        """The record that keeps what was rejected: its raw bytes, and why in the headers."""
        detail = rejection.detail[:DETAIL_CHARS]
        size, kept = raw.size if isinstance(raw, CutPayload) else len(raw), min(len(raw), KEPT_BYTES)
        if size > kept:
            detail = f"{detail}; the first {kept} of {size} bytes are kept"
        origin = [(topics.HEADER_MQTT_TOPIC, topic), receipt(received_ms), SCHEMA_HEADER]
        headers = [*why_headers(rejection.reason, detail), *origin]
        return Record(self.dead_letter_topic, rejection.key, raw[:KEPT_BYTES], headers, received_ms)

    def unstorable(self, record: Record, error: str) -> Record:
        """The dead letter for a record that Kafka refused; of a refused dead letter half of it."""
        if record.topic == self.dead_letter_topic:
            return record._replace(value=record.value[: len(record.value) // 2])
        detail = f"Kafka refused it for {record.topic}: {error}"[:DETAIL_CHARS]
        headers = [*why_headers("unstorable", detail), *record.headers]
        return record._replace(topic=self.dead_letter_topic, value=record.value[:KEPT_BYTES], headers=headers)


class NamedTranslator(Translator):
    """Takes a message only where its sender, by the broker's property, is the vehicle in its topic."""

    def translate(self, topic: bytes, raw: bytes, received_ms: int) -> Record | Rejection | None:
        """As ever, after the name was checked: a forger takes none of the vehicle's tokens."""
        plain, name = bytes(topic), _sender(topic)
        route = self._routes.get(plain) or self.route(plain)
        if isinstance(route, Route) and route.key != name:
            said = "names nobody, or two" if name is None else f"says {name!r}"
            detail = f"the broker {said}, the topic says {route.vehicle_id}"
            return Rejection("identity_mismatch", detail, route.key)
        return super().translate(plain, raw, received_ms)

    def dead_letter(self, rejection: Rejection, topic: bytes, raw: bytes, received_ms: int) -> Record:
        """With the sender's name, so that the letter can be judged by it again."""
        record = super().dead_letter(rejection, bytes(topic), raw, received_ms)
        record.headers.append((topics.HEADER_AUTHENTICATED_AS, _sender(topic) or b""))
        return record


def _sender(topic: bytes) -> bytes | None:
    return topic.name if isinstance(topic, NamedTopic) else None


def region_header(region: str) -> Headers:
    """Says in which region a record was written; none where there is one."""
    return [(topics.HEADER_REGION, region.encode())] if region else []


def receipt(received_ms: int) -> Header:
    """When a message was received."""
    return (topics.HEADER_RECEIVED_MS, b"%d" % received_ms)


def received_at(record: Record, received_ms: int) -> Record:
    """The record as if its message had been received then."""
    others = [header for header in record.headers if header[0] != topics.HEADER_RECEIVED_MS]
    return record._replace(headers=[*others, receipt(received_ms)], timestamp_ms=received_ms)


@dataclass(frozen=True, slots=True)
class SessionLoss:
    """The broker may have dropped a session's messages between ``from_ms``, last known, and ``at_ms``."""

    client_id: str
    why: str
    from_ms: int
    at_ms: int


class Letters:
    """Dead letters that a lane writes: which messages are kept whole, and what it reports of itself.

    A letter takes a token for each 4 KiB of its message, of all letters' and of its vehicle's. Where none is
    left the message is counted instead, by reason and vehicle, and the counts become letters without a
    message: ``counted`` since the last ``counts``. ``per_minute`` 0: all are kept.
    """

    def __init__(self, topic: str, per_minute: int) -> None:
        self._topic = topic
        self._all = VehicleLimit(per_minute / 60, max(1, per_minute))
        self._each = VehicleLimit(per_minute / SHARE / 60, max(1, per_minute // SHARE))
        self._all_due_ms = 0.0
        self._due_ms: dict[bytes | None, float] = {}
        self._counts: Counter[tuple[str, bytes | None]] = Counter()

    @property
    def counted(self) -> int:
        """Messages that ``counts`` has not reported yet."""
        return self._counts.total()

    def keep(self, rejection: Rejection, size: int, now_ms: int) -> bool:
        """Whether a rejected message of ``size`` bytes becomes a letter; else it is counted."""
        tokens = 1 + size // TOKEN_BYTES
        all_due_ms = self._all.spend(self._all_due_ms, now_ms, tokens)
        due_ms = self._each.spend(self._due_ms.get(rejection.key, 0.0), now_ms, tokens)
        if all_due_ms is None or due_ms is None:
            name = (rejection.reason, rejection.key)
            if name not in self._counts and len(self._counts) >= COUNTED_APART:
                name = (rejection.reason, None)
            self._counts[name] += 1
            return False
        self._all_due_ms = all_due_ms
        if len(self._due_ms) >= VEHICLES_KEPT:
            due = {key: due for key, due in self._due_ms.items() if due > now_ms}
            self._due_ms = due if len(due) < VEHICLES_KEPT else {}  # the limit for all of them still holds
        self._due_ms[rejection.key] = due_ms
        return True

    def counts(self, now_ms: int) -> list[Record]:
        """Letters that say how many messages were not kept; the counts begin anew."""
        found, self._counts = self._counts, Counter()
        letters = []
        for (reason, key), count in found.items():
            detail = f"{count} messages that are not kept"
            letters.append(self._letter(reason, key, detail, {"messages": count}, now_ms, count))
        return letters

    def forget(self) -> None:
        """What was counted comes again."""
        self._counts.clear()

    def lost(self, loss: SessionLoss) -> Record:
        """The letter for whatever the broker held for a session that went."""
        detail = f"{loss.client_id}: {loss.why}"
        letter = self._letter("session_lost", None, detail, asdict(loss), loss.at_ms, 0)
        letter.headers.append((topics.HEADER_SINCE_MS, b"%d" % loss.from_ms))
        return letter

    def _letter(
        self, reason: str, key: bytes | None, detail: str, body: dict[str, object], now_ms: int, messages: int
    ) -> Record:
        number = (topics.HEADER_MESSAGES, b"%d" % messages)
        why = why_headers(reason, detail[:DETAIL_CHARS])
        headers = [*why, number, receipt(now_ms), SCHEMA_HEADER]
        return Record(self._topic, key, orjson.dumps(body), headers, now_ms)
