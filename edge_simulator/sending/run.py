"""A run, from its options to its summary: the world's messages at their times, published and counted.

The wall clock only paces; what is sent follows from the scenario. A run that falls behind reports it.
"""

import resource
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from edge_simulator.console import line_s, now_ms, say, stop_flag
from edge_simulator.edr import crash_store
from edge_simulator.edr.crash_store import CHANNEL, path_of
from edge_simulator.runfiles import RunFiles, write_sequences
from edge_simulator.scenario import SAMPLES, Scenario
from edge_simulator.sending.lean_publisher import LeanPublisher
from edge_simulator.sending.mqtt_packets import Incoming
from edge_simulator.sending.paho_publisher import PahoPublisher
from edge_simulator.sending.publishing import Message, Publishing
from edge_simulator.telemetry.outbox import Outgoing
from edge_simulator.world import World
from infra.clients.mqtt_broker import MqttBroker
from infra.contract import downlink, topics
from infra.contract.downlink import Verifier
from infra.contract.errors import ConfigError, ContractError
from infra.contract.frame import Frame
from infra.contract.topics import EVERYBODY, mqtt_filter, mqtt_topic
from infra.settings.settings import Settings, endpoints
from infra.stack.access import devices

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


CHUNK_S = 0.005  # messages go up to this much early, together
GATHER_S = 0.001  # PUBACKs that come within this are read together
BATCH = 1000
OVERRUN_S = 0.1
SECOND_S = 1.0
SEQUENCES_S = 10.0  # the sequence numbers of a large fleet are some MB: they are not written each second
LINK_COUNTS = (
    "late", "late_beyond", "duplicate", "disorder", "lost", "clock_ahead", "clock_unset", "poison", "outages",
    "stored_on_board", "dropped_on_board", "clock_boot", "free_clocks", "cloned_vehicles", "clone_frames",
)  # fmt: skip

Say = Callable[[str], None]
Stopped = Callable[[], bool]
Client = Literal["auto", "paho", "lean"]
KEEP_S = 60.0  # longer than a broker takes to write what it holds, or the bridge to fetch it


def publisher_of(
    client: Client, vehicles: int, keep_s: float = 0.0, brokers: int = 1
) -> Callable[..., Publishing]:
    """The publisher's class. ``auto`` is paho for a single vehicle, as such a device would have it.

    Keeping frames beyond their PUBACK is the lean client's alone; raises ConfigError.
    """
    if keep_s and client == "paho":
        raise ConfigError("--keep-sent: the lean client does that; leave --client paho out")
    # A broker that is left may still hold what it acknowledged: that goes again by the next one.
    keep_s = keep_s or (KEEP_S if brokers > 1 else 0.0)
    paho = client == "paho" or (client == "auto" and vehicles == 1 and not keep_s)
    return PahoPublisher if paho else partial(LeanPublisher, keep_s=keep_s)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a run is carried out, whatever it simulates."""

    run_id: str
    mqtt_root: str
    max_in_flight: int
    drain_s: float
    paced: bool = True  # messages leave at their times; else as fast as the broker takes them
    clients: Sequence[str] = ()  # MQTT client identifiers, one a connection
    client: Client = "auto"
    log_frames: bool = False
    live: bool = False  # the messages' clock is the wall clock; else their origin is when the sending begins
    keep_s: float = 0.0  # frames are kept so long after their PUBACK, for a connection that is lost
    react: bool = True  # vehicles listen to the service in a live run; else they never do


class Sender:
    """Publishes messages at their times, all that are due in one go, and keeps the counts of being late.

    ``origin_ms`` on the messages' clock is now, or of a live run that moment. A live run goes by the wall
    clock: after a computer's sleep it sends what was due meanwhile, and is live again. ``tick`` is called
    whenever there is time; ``folder`` is the run's, where its crash messages are kept.
    """

    def __init__(
        self, options: RunOptions, vehicle_ids: Sequence[str], publisher: Publishing, origin_ms: int,
        tick: Callable[[], None], folder: Path,
    ) -> None:  # fmt: skip
        self._options, self._publisher, self._tick, self._folder = options, publisher, tick, folder
        self._origin_ms = origin_ms
        self._clock = time.time if options.live else time.monotonic
        self._begun = origin_ms / 1000 if options.live else time.monotonic()
        self._topic = cache(lambda channel, k: topics.mqtt_topic(options.mqtt_root, vehicle_ids[k], channel))
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
            messages = [
                Message(
                    self._topic(item.channel, item.vehicle), item.payload,
                    "poison" if item.flag == "poison" else item.channel, item.retain,
                    path_of(self._folder, item.payload) if item.channel == CHANNEL else None,
                )
                for item in part
            ]  # fmt: skip
            self._publisher.publish_many([item.vehicle for item in part], messages)
            self._publisher.drive(0.0)
            self._tick()
            at = end

    def send_now(self, items: Sequence[Outgoing]) -> None:
        """Publish messages without waiting for their times."""
        self.send(items, lambda: True)

    def _await(self, items: Sequence[Outgoing], at: int, end: int, stopped: Stopped) -> int:
        """Wait until a message is due and there is room; returns up to where ``items`` may go by then."""
        paced, due = self._options.paced, self._due_s(items[at])
        while not stopped():
            wait = due - self._clock() if paced else 0.0
            full = self._publisher.owed >= self._options.max_in_flight
            if wait < GATHER_S and not full:
                break
            if not full:
                time.sleep(GATHER_S)
            self._publisher.drive(0.05 if full else min(wait - GATHER_S, 0.05))
            self._tick()
        end = min(end, at + max(1, self._options.max_in_flight - self._publisher.owed))
        if not paced:
            return end
        now = self._clock()
        end = bisect_left(items, now + CHUNK_S, at + 1, end, key=self._due_s)
        self.behind_s = max(0.0, now - due)
        self.overrun += bisect_left(items, now - OVERRUN_S, at, end, key=self._due_s) - at
        return end

    def _due_s(self, item: Outgoing) -> float:
        return self._begun + (item.due_ms - self._origin_ms) / 1000


class Run:
    """One simulation, from the first birth message to the summary.

    With a ``verifier`` its vehicles listen to the service.
    """

    def __init__(
        self, options: RunOptions, world: World, publisher: Publishing, files: RunFiles, say: Say,
        verifier: Verifier | None = None,
    ) -> None:  # fmt: skip
        self._options, self._world, self._publisher = options, world, publisher
        self._files, self._say = files, say
        sc, ids = world.scenario, world.vehicle_ids
        origin_ms = sc.start_ms + SAMPLES * sc.cadence.dt_ms
        self._sender = Sender(options, ids, publisher, origin_ms, self._tick, files.folder)
        self._reactions: Reactions | None = None
        if verifier is not None:
            self._reactions = Reactions(options.mqtt_root, ids, world.limp_home.enter, verifier, now_ms)
        self._started_ms = now_ms()
        self._next_look = self._next_sequences = time.monotonic() + SECOND_S
        self._said_at, self._said_sent = time.monotonic(), 0
        self._held_at_end = 0

    def go(self, stopped: Stopped) -> dict[str, Any]:
        """Run to the end or until ``stopped``; returns the summary."""
        world, emitter = self._world, self._world.emitter
        self._sender.send_now(emitter.births())
        last_ms = world.scenario.start_ms
        for slot in world.slots():
            last_ms = slot.end_ms
            self._files.truth(slot.truth)
            self._files.frames(slot.messages)
            crash_store.keep(self._files.folder, chain.from_iterable(c.payloads for c in slot.crashes))
            self._sender.send(slot.messages, stopped)
            if self._reactions is not None:
                self._reactions.hear(self._publisher.take())
            if stopped():
                break
        rest, open_rows = world.end(last_ms)
        self._files.truth(open_rows)
        self._held_at_end = len(rest)
        self._files.frames(rest)
        self._sender.send_now([*rest, *emitter.farewells(last_ms)])
        self._publisher.drain(self._options.drain_s)
        summary = self.summary(finished=True)
        self._sync(summary, sequences=True)
        return summary

    def _tick(self) -> None:
        """Once a second: run.json, logs on the disk, and where it is time a line on stderr."""
        now = time.monotonic()
        if now < self._next_look:
            return
        if now - self._said_at >= line_s():
            self._tell(now)
        self._next_look = now + SECOND_S
        self._sync(self.summary(finished=False), sequences=now >= self._next_sequences)

    def _tell(self, now: float) -> None:
        counts, emitter = self._publisher.counts, self._world.emitter
        sent = counts.sent["telemetry"]
        rate = (sent - self._said_sent) / (now - self._said_at)
        self._say(
            f"target {emitter.target_rate():.0f}/s  achieved {rate:.0f}/s  "
            f"behind {self._sender.behind_s:.2f} s  overrun {self._sender.overrun}  "
            f"in flight {self._publisher.owed}  "
            f"acked {counts.acked['telemetry']}  held back {len(emitter.queue) + len(emitter.radio.store)}  "
            f"reconnects {counts.reconnects}"
        )
        self._said_at, self._said_sent = now, sent

    def _sync(self, summary: dict[str, Any], sequences: bool) -> None:
        """Put on the disk how far the run is, and which crash records were acknowledged."""
        marks = self._publisher.counts.acked_marks
        crash_store.note_acked(marks)
        marks.clear()
        if sequences:
            self._next_sequences = time.monotonic() + SEQUENCES_S
            write_sequences(self._files.folder, self._world.emitter.sequences())
        self._files.sync(summary)

    def summary(self, finished: bool) -> dict[str, Any]:
        """The counts of the run so far, as run.json holds them."""
        sc, owed = self._world.scenario, self._publisher.owed
        made, counts, times = self._world.counts, self._publisher.counts, self._publisher.latency
        reactions = dict.fromkeys(COUNTS, 0) if self._reactions is None else self._reactions.counts
        return {
            "run_id": self._options.run_id, "seed": sc.seed, "vehicles": sc.vehicles,
            "boot_id": self._world.emitter.boot_id, "start_ms": sc.start_ms,
            "interval_ms": sc.cadence.interval_ms, "target_rate": sc.full_rate,
            "generated": made["generated"], "sent": counts.sent["telemetry"],
            "acked": counts.acked["telemetry"], "lost_on_link": made["lost"],
            "dropped_on_board": made["dropped_on_board"], "poison": counts.sent["poison"],
            "crashes": made["crashes"], **reactions, "limp_home": self._world.limp_home.entered,
            "link": {name: made[name] for name in LINK_COUNTS},
            "held_at_end": self._held_at_end,
            "faults": {"planned": made["planned_faults"], "begun": made["begun_faults"]},
            "messages": {"sent": counts.sent.total(), "acked": counts.acked.total(), "owed": owed},
            "overrun": self._sender.overrun, "reconnects": counts.reconnects,
            "puback_ms": {f"p{q}": times.quantile_ms(q / 100) for q in (50, 95, 99)},
            "started_ms": self._started_ms, "ended_ms": now_ms() if finished else None,
            "finished": finished and owed == 0,
        }  # fmt: skip


def publish(
    in_force: Settings, wanted: Scenario, options: RunOptions, say: Say = say,
    begin_ms: Callable[[], int] = now_ms,
) -> Mapping[str, Any]:  # fmt: skip
    """Simulate and publish; the summary. ``begin_ms`` is asked for a live one once all are connected."""
    address = endpoints(in_force, ("mqtt_host",))
    world = World(wanted)
    world.warm_up()
    wills, clients = {}, options.clients
    own: Sequence[MqttBroker] = ()
    if address.device_port:
        named = devices.speakers(options.run_id, world.vehicle_ids, len(clients))
        own, clients = devices.connected_as(in_force, address, named), [*named]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a connection is a file, and 1,024 are usual
    if len(clients) == wanted.vehicles > 1:
        for last in world.emitter.wills():
            topic = mqtt_topic(options.mqtt_root, world.vehicle_ids[last.vehicle], "status")
            wills[last.vehicle] = Message(topic, last.payload)
    subscriptions, verifier = {}, None
    if options.live and options.react:
        verifier = downlink.verifier(in_force)
        subscriptions = filters(options.mqtt_root, world.vehicle_ids, len(clients), bool(own))
    with (
        stop_flag(say) as stop,
        publisher_of(options.client, wanted.vehicles, options.keep_s, len(address.brokers))(
            address.brokers, clients, wills, filters=subscriptions, own=own
        ) as publisher,
    ):
        publisher.connect(deadline_s=5.0 + (0.05 if own else 0.01) * len(clients))
        if wanted.first == 0 and not own:  # a vehicle of another run is not ours to speak for
            kept = crash_store.unacked((in_force.paths.home / "runs").glob("*"))
            crash_store.resend(publisher, options.mqtt_root, kept)
        if options.live:  # however long it took until here, what is stamped is true when it is sent
            world.begin_at(begin_ms() - SAMPLES * wanted.cadence.dt_ms)
        with RunFiles(in_force.paths.home, options.run_id, options.log_frames) as files:
            return Run(options, world, publisher, files, say, verifier).go(stop)


def connection_names(text: str, vehicles: int, run_id: str) -> list[str]:
    """Client identifiers for ``--connections``: a number, or per-vehicle. Raises ConfigError."""
    if text == "per-vehicle":
        count = vehicles
    elif text.isdecimal() and int(text) >= 1:
        count = min(int(text), vehicles)
    else:
        raise ConfigError(f"--connections {text}: a number from 1 on, or per-vehicle, is wanted")
    return [f"odograph-{run_id}-{k}" for k in range(count)]
