"""Rows 2 and 10: messages too large and too many; a stranger takes or empties the bridge's session."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from dataclasses import replace as changed
from typing import Any, Final

import orjson
import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from bridge.dead_letters.letters import Letter
from bridge.uplink import wire
from bridge.uplink.mqtt_source import MqttSource
from bridge.uplink.translate import Letters
from edge_simulator.sending import mqtt_packets
from infra.contract import topics
from infra.settings.sections import Mqtt
from infra.settings.settings import ENDPOINTS_FILE
from infra.stack.downloads import cache
from infra.stack.mosquitto import mosquitto
from infra.stack.service import Runner, free_port
from load_tests.drills import watch
from load_tests.drills.aggregates import start_jobs
from load_tests.drills.defects import replace
from load_tests.drills.evidence import Log
from load_tests.drills.poison.attack import Attack, program
from load_tests.drills.site import Site, until
from load_tests.drills.verdict import Promise
from load_tests.mqtt_flood import Flood, frame

HUGE: Final = 260_000_000
MQTT_MAX: Final = 268_435_455
FLAT_MB: Final = 48.0
"""A process that held the message would grow by five times as much."""
PIECE: Final = bytes(1 << 18)
SEND_S: Final = 60.0
STORED_S: Final = 30.0
PER_MINUTE: Final = 600
BROKEN: Final = 10_000
CRASHES: Final = 400
CRASH_BURST: Final = 50
SMALL: Final = {
    "ODOGRAPH_BRIDGE_DEAD_LETTERS_PER_MINUTE": str(PER_MINUTE), "ODOGRAPH_BRIDGE_CRASH_RATE": "1",
    "ODOGRAPH_BRIDGE_CRASH_BURST": str(CRASH_BURST),
}  # fmt: skip
"""Limits so low that a flood of a second is beyond them."""
IN_THE_FIGHT: Final = "row10-comes-back-at-once"
OPEN_BROKER: Final = "row2-broker-without-limit"
VICTIM: Final = "2HGCM82633B000001"
HONEST: Final = "2HGCM82633B000002"
OWNER: Final = "2HGCM82633B000010"
QUICK: Final = {"ODOGRAPH_JOBS_ARCHIVE_TRIGGER_S": "2", "ODOGRAPH_JOBS_LATENESS_S": "5",
                "ODOGRAPH_JOBS_AHEAD_S": "5"}  # fmt: skip
COMMAND_S: Final = 120.0
AUDITED_S: Final = 120.0
SETTLED_S: Final = 15.0
"""So long after the gap the event of the session may come."""
FIGHT_S: Final = 10.0
FIGHT_MAX: Final = 12
"""Connections in that time: the pauses grow from 0.1 s to 5 s."""


# Row 2 ---------------------------------------------------------------------------------------------------


def row2(site: Site, mutant: str | None) -> Iterator[Promise]:
    """A message of 260 MB at the broker, the same at a bridge whose broker takes all, and floods."""
    with _open_broker(site) as (behind, pid):
        if mutant == OPEN_BROKER:
            yield _refused(behind, pid)
            return
        yield _refused(site, site.pid("mosquitto"))
        yield from _passed_over(behind, mutant)
        yield from _flooded(behind, mutant)


def _refused(site: Site, pid: int) -> Promise:
    """Whether the broker ends the connection before it holds the message."""
    before_mb = watch.peak_mb(pid)
    sent = _huge(site)
    grown_mb = watch.peak_mb(pid) - before_mb
    text = f"{sent / 1e6:.1f} of {HUGE / 1e6:.0f} MB sent, the broker grew by {grown_mb:.0f} MB"
    return Promise("the broker refuses 260 MB before it holds them", sent < HUGE and grown_mb < FLAT_MB, text)


def _passed_over(site: Site, mutant: str | None) -> Iterator[Promise]:
    """A bridge behind a broker that takes all."""
    log = Log(site.settings, site.endpoints)
    log.begin_here("telemetry", "dead-letter")
    site.start("bridge", program(mutant, "bridge"))
    site.wait_ready("bridge")
    pid = site.pid("bridge")
    before_mb = watch.peak_mb(pid)
    _huge(site)
    with _flood(site) as flood:
        flood.publish([(_topic(site, HONEST), _frame(HONEST, 1))])
    until(lambda: _frames_of(log, HONEST) == 1, STORED_S, "the frame behind it is stored")
    grown_mb = watch.peak_mb(pid) - before_mb
    yield Promise("the bridge's memory stays flat", grown_mb < FLAT_MB, f"it grew by {grown_mb:.0f} MB")
    told = [(letter.reason, letter.vehicle_id, letter.cut) for letter in _letters(log)]
    cut = [(reason, vehicle, size and size[1]) for reason, vehicle, size in told]
    yield Promise("it is dead-lettered with vehicle and length, and counted",
                  cut == [("too_large", VICTIM, HUGE)]
                  and site.metrics().get("odograph_bridge_rejected_total") == 1, f"{told}")  # fmt: skip
    site.stop("bridge")
    site.start("bridge", program(mutant, "bridge"))
    site.wait_ready("bridge")
    with _flood(site) as flood:
        flood.publish([(_topic(site, HONEST), _frame(HONEST, 2))])
    until(lambda: _frames_of(log, HONEST) == 2, STORED_S, "the next bridge carries frames")
    letters = len(_letters(log))
    yield Promise("it does not come again", letters == 1, f"{letters} letters after a restart")
    site.stop("bridge")


def _flooded(site: Site, mutant: str | None) -> Iterator[Promise]:
    """One vehicle sends nothing but broken messages, on both lanes, and far too many crash records."""
    log = Log(site.settings, site.endpoints)
    log.begin_here("crash", "dead-letter")
    small = changed(site, env=site.env | SMALL)
    small.start("bridge", program(mutant, "bridge"))
    small.wait_ready("bridge")
    broken = [(_topic(site, VICTIM, channel), b"{%d" % n) for n in range(BROKEN // 2)
              for channel in ("telemetry", "crash")]  # fmt: skip
    with _flood(site) as flood:
        flood.publish(broken)
        flood.publish([(_topic(site, VICTIM, "crash"), _crash(VICTIM, n)) for n in range(CRASHES)])

    def accounted() -> bool:
        return sum(letter.messages for letter in _letters(log)) + log.appended("crash") >= BROKEN + CRASHES

    with contextlib.suppress(Exception):
        until(accounted, STORED_S, "every message is stored, dead-lettered or counted")
    small.stop("bridge")
    letters = _letters(log)
    whole = sum("messages" not in letter.headers for letter in letters)
    counted = sum(letter.messages for letter in letters)
    stored = log.appended("crash")
    yield Promise("dead letters are bounded", whole <= PER_MINUTE, f"{whole} of {counted} kept whole")
    yield Promise("and counted exactly", counted == BROKEN + CRASHES - stored,
                  f"{counted} rejected and {stored} stored of {BROKEN + CRASHES}")  # fmt: skip
    limited = sum(letter.messages for letter in letters if letter.reason == "rate_limited")
    yield Promise("crash messages have a limit a vehicle", CRASH_BURST <= stored < CRASHES
                  and limited == CRASHES - stored, f"{stored} stored, {limited} limited")  # fmt: skip


@contextlib.contextmanager
def _open_broker(site: Site) -> Iterator[tuple[Site, int]]:
    """The site with another broker, which takes every packet that MQTT knows; and that broker's pid."""
    home = site.home / "lanes" / f"open-{time.time_ns()}"  # where the site's guard looks
    home.mkdir(mode=0o711, parents=True)
    port = free_port()
    rootfs = cache.rootfs(site.settings.paths.cache)
    folders = (home / "data" / "mosquitto", home / "config" / "mosquitto")
    runner = Runner(home)
    (home / "data").mkdir()
    runner.start(mosquitto(rootfs, *folders, port, Mqtt(max_message_bytes=MQTT_MAX)))
    addresses = changed(site.endpoints, mqtt_port=port)
    (home / ENDPOINTS_FILE).write_text(json.dumps(asdict(addresses)))
    found = runner.find("mosquitto")
    try:
        env = site.env | {"ODOGRAPH_PATHS_HOME": str(home)}
        yield changed(site, env=env, endpoints=addresses), found.pid if found else 0
    finally:
        runner.stop("mosquitto")


def _huge(site: Site) -> int:
    """Bytes of the large message that a broker lets us send; all of them where it takes it."""
    topic = mqtt_packets.text(_topic(site, VICTIM))
    length = len(topic) + 2 + HUGE
    head = bytes([0x32, *(length >> shift & 0x7F | (0x80 if length >> shift + 7 else 0)
                          for shift in (0, 7, 14, 21))])  # fmt: skip
    address, sent = (site.endpoints.mqtt_host, site.endpoints.mqtt_port), 0
    with socket.create_connection(address, timeout=SEND_S) as sock, contextlib.suppress(ConnectionError):
        sock.sendall(mqtt_packets.connect(f"row2-{time.time_ns()}", 60))
        sock.recv(4)
        sock.sendall(head + topic + b"\x00\x01")
        while sent < HUGE:
            piece = PIECE[: HUGE - sent]
            sock.sendall(piece)
            sent += len(piece)
        if not sock.recv(4):
            return sent - 1  # closed, not acknowledged
    return sent


def holds_all() -> None:
    """The bridge holds a packet whole, whatever its length."""

    def holding(honest: Callable[..., None]) -> Callable[..., None]:
        def feed(self: Any, data: bytes) -> None:
            self.limit = MQTT_MAX
            honest(self, data)

        return feed

    replace(wire.PacketBuffer, "feed", holding)


def keeps_every_letter() -> None:
    """Each rejected message becomes a dead letter."""
    replace(Letters, "keep", lambda honest: lambda *args: honest(*args) or True)


def counts_nothing() -> None:
    """What is not kept as a letter is not counted either."""
    replace(Letters, "counts", lambda honest: lambda self, now_ms: honest(self, now_ms)[:0])


# Row 10 --------------------------------------------------------------------------------------------------


def row10(site: Site, mutant: str | None) -> Iterator[Promise]:
    """A stranger empties the session while no bridge runs, then fights the next bridge for it."""
    if mutant == IN_THE_FIGHT:
        site.start("bridge", program(mutant, "bridge"))
        site.wait_ready("bridge")
        yield from _fight(site, f"{site.settings.bridge.client_id}-telemetry")
        return
    quick = changed(site, env=site.env | QUICK)
    client_id = f"{site.settings.bridge.client_id}-telemetry"
    log = Log(site.settings, site.endpoints)
    log.begin_here("telemetry")
    quick.start("bridge", program(mutant, "bridge"))
    start_jobs(quick)
    quick.wait_ready("bridge")
    boot_id = int(time.time())
    _send(quick, boot_id, range(10))
    until(lambda: _frames_of(log, OWNER) == 10, STORED_S, "the first frames are stored")
    quick.stop("bridge")
    _send(quick, boot_id, range(10, 15))
    with _stranger(quick, client_id):
        pass
    quick.start("bridge", program(mutant, "bridge"))
    quick.wait_ready("bridge")
    _send(quick, boot_id, range(15, 20))
    until(lambda: _frames_of(log, OWNER) == 15, STORED_S, "the last frames are stored")
    lost = quick.metrics().get("odograph_bridge_sessions_lost_total")
    yield Promise("the bridge counts a session lost while it was away", lost == 1, f"{lost}")
    named = [{"vehicle_id": OWNER, "boot_id": boot_id, "ranges": [[10, 14]]}]
    gaps = _audited(quick, boot_id)
    plain = [{key: gap[key] for key in named[0]} for gap in gaps]
    yield Promise("audit names what was lost by vehicle and number", plain == named, f"{plain}")
    why = [gap["lost_with"] for gap in gaps]
    yield Promise("and with which session it went", len(why) == 1 and client_id in str(why[0]), f"{why}")
    findings = {f["name"]: f for f in _told(quick, "doctor")}
    session = findings["bridge's session"]
    yield Promise("doctor says so", not session["fine"] and client_id in session["detail"], session["detail"])
    yield from _fight(quick, client_id)


def _fight(site: Site, client_id: str) -> Iterator[Promise]:
    """A stranger with the bridge's id who comes back at once, each time."""
    before = site.wait_metrics()
    end_s = time.monotonic() + FIGHT_S
    while time.monotonic() < end_s:
        with _stranger(site, client_id) as gone:
            gone.wait(max(0.0, end_s - time.monotonic()))
    until(lambda: site.metrics().get("odograph_bridge_mqtt_connected") == 2, STORED_S, "the bridge is back")
    after = site.wait_metrics()
    grown = {
        name: int(after[f"odograph_bridge_{name}_total"] - before[f"odograph_bridge_{name}_total"])
        for name in ("taken_over", "sessions_lost", "reconnects")
    }
    yield Promise("a session taken over is noticed", grown["taken_over"] >= 1 and grown["sessions_lost"] >= 1,
                  f"{grown}")  # fmt: skip
    yield Promise(f"the bridge comes back at most {FIGHT_MAX} times in {FIGHT_S:g} s of that",
                  grown["reconnects"] <= FIGHT_MAX, f"{grown['reconnects']}")  # fmt: skip


@contextlib.contextmanager
def _stranger(site: Site, client_id: str) -> Iterator[threading.Event]:
    """Begins anew with this client id; the event is set when the broker has thrown him out."""
    here, gone = threading.Event(), threading.Event()
    client = mqtt.Client(
        CallbackAPIVersion.VERSION2, client_id, protocol=mqtt.MQTTv5, reconnect_on_failure=False
    )
    client.connect(site.endpoints.mqtt_host, site.endpoints.mqtt_port, clean_start=True)
    client.on_connect = lambda *_: here.set()
    client.on_disconnect = lambda *_: gone.set()
    client.loop_start()
    try:
        until(here.is_set, STORED_S, "the stranger is connected")
        yield gone
    finally:
        client.disconnect()
        client.loop_stop()


def _audited(site: Site, boot_id: int) -> list[dict[str, Any]]:
    """The boot's gaps as soon as an audit names them with a session; as they are a while after the first."""
    end_s = time.monotonic() + AUDITED_S
    while True:
        found: dict[str, Any] = _told(site, "audit")
        gaps = [gap for gap in found.get("missing", ()) if gap["boot_id"] == boot_id]
        if any(gap["lost_with"] for gap in gaps) or time.monotonic() > end_s:
            return gaps
        end_s = min(end_s, time.monotonic() + SETTLED_S) if gaps else end_s
        time.sleep(1)


def _told(site: Site, *arguments: str) -> Any:
    line = program(None, *arguments, "--json")
    done = subprocess.run(line, env=site.env, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    return json.loads(done.stdout) if done.stdout else {"error": done.stderr}


def ignores_sessions() -> None:
    """The bridge does not look whether the broker still has its session, and takes no take-over for one."""
    replace(MqttSource, "_judge_session", lambda _: lambda *_: None)


def comes_back_at_once() -> None:
    """After each loss of a connection the bridge comes back without a pause that grows."""

    def hasty(honest: Callable[..., None]) -> Callable[..., None]:
        def forget(self: Any, why: str) -> None:
            honest(self, why)
            self._next_dial_s = 0.0

        return forget

    replace(MqttSource, "_forget", hasty)


# What both share -----------------------------------------------------------------------------------------


def _letters(log: Log) -> list[Letter]:
    return [
        Letter(
            message.offset() or 0,
            message.timestamp()[1],
            message.key(),
            message.value() or b"",
            dict(message.headers() or []),  # type: ignore[arg-type]
        )
        for message in log.messages("dead-letter")
    ]


def _frames_of(log: Log, vehicle: str) -> int:
    return sum(message.key() == vehicle.encode() for message in log.messages("telemetry"))


def _flood(site: Site) -> Flood:
    return Flood(site.endpoints.mqtt_host, site.endpoints.mqtt_port, f"poison-{time.time_ns()}")


def _topic(site: Site, vehicle: str, channel: str = "telemetry") -> bytes:
    return topics.mqtt_topic(site.settings.mqtt.root, vehicle, channel).encode()


def _frame(vehicle: str, seq: int, boot_id: int = 1) -> bytes:
    body = orjson.loads(frame(0, seq, time.time_ns() // 1_000_000 - 1000))
    return orjson.dumps(body | {"vehicle_id": vehicle, "boot_id": boot_id})


def _send(site: Site, boot_id: int, numbers: range) -> None:
    with _flood(site) as flood:
        flood.publish([(_topic(site, OWNER), _frame(OWNER, seq, boot_id)) for seq in numbers])


def _crash(vehicle: str, number: int) -> bytes:
    now_ms = time.time_ns() // 1_000_000
    head = {"schema": 1, "vehicle_id": vehicle, "boot_id": 1, "seq": number, "crash_id": f"row2-{number}"}
    body = {"event_ms": now_ms, "sent_ms": now_ms, "delta_v_kmh": [0.0, -20.0]}
    return orjson.dumps(head | body | {"pre_crash": {"speed_kmh": [50.0]}})


ATTACKS: Final = (
    Attack("row2", "messages too large and too many", row2,
           {OPEN_BROKER: lambda: None, "row2-bridge-holds-all": holds_all,
            "row2-keeps-every-letter": keeps_every_letter, "row2-counts-nothing": counts_nothing}),
    Attack("row10", "a stranger with the bridge's client id", row10,
           {"row10-ignores-sessions": ignores_sessions, IN_THE_FIGHT: comes_back_at_once}),
)  # fmt: skip
