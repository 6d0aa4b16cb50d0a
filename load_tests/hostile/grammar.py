"""Hostile messages by structure: valid ones of the contract, changed in one or a few places. Seeded, pure.

What distinguishes one message from the next is left out of the bodies: ``VIN``, ``BOOT``, ``SEQ`` and the
times stand in their places and are set when a message is sent, so that a few thousand bodies make millions.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from infra.contract.messages import crash_digest, split_crash
from infra.contract.signals import SIGNALS
from load_tests.mqtt_flood import frame, vehicle_id

VIN: Final = vehicle_id(0)
BOOT: Final = 7_777_777_777_777
SEQ: Final = 8_888_888_888_888
T0_MS: Final = 1_111_111_111_111
SENT_MS: Final = 1_111_111_112_222
LONG: Final = 40_000
KINDS: Final = ("telemetry", "crash", "status", "alert", "notice")
"""Of bodies; an alert is as Kafka has it, with the keys besides that a vehicle is told."""


class Raw(bytes):
    """JSON, or what is none, as it is to be written."""


class Twice(dict[str, Any]):
    """An object whose keys are all written twice: as they are, then null."""


NUMBERS: Final = tuple(
    Raw(token.encode())
    for token in (
        "1e308", "-1e308", "1e400", "-0.0", "-0", "0", "1e-320", "9223372036854775807", "9223372036854775808",
        "-9223372036854775809", "18446744073709551616", "9007199254740992", "9007199254740993", "NaN",
        "Infinity", "-Infinity", "1E400", "0x10", "01", "+1", ".5", "1.", "1" * 400, "0." + "3" * 300,
        "2147483648", "-1", "1.5", "1e2", "65536", "32768",
    )
)  # fmt: skip
TIMES: Final = (
    *(0, 1, -1, 10**18, 2**53, 2**53 + 1, 2**63, 253_402_300_800_000, 946_684_800_000, 1_420_070_400_000),
    *(2_085_978_496_000, 4_102_444_800_000, T0_MS - 3_600_000, T0_MS + 3_600_000, T0_MS - 60_000),
)  # fmt: skip
"""1970, the limits of integers, years 10000, 2000, 2015, 2036, 2100; and before or after the sending."""
TEXTS: Final = tuple(
    Raw(token)
    for token in (
        b'""', b'" "', b'"' + b"x" * LONG + b'"', b'"a\\u0000b"', b'"\\ud800"', b'"\\udfff\\ud800"',
        b'"\xff\xfe"', b'"\xc0\x80"', b'"\xed\xa0\x80"', b'"\x00"', b'"\x1b[2J\x07"', b'"line\nbreak"',
        '"\u202e\ufeff\u200b\U0001f697"'.encode(), b"\"'; DROP TABLE odograph.vehicle_window; --\"",
        b'"<script>alert(1)</script><img src=x onerror=alert(1)>"', b'"../../../../etc/passwd"',
        b'"%s%n%(x)s{0}${jndi:ldap://127.0.0.1:1/a}"', b'"\\"\\\\/\\b\\f\\n\\r\\t"', b'"$(id)`id`"',
        b'"' + "\u00e9".encode() * 20_000 + b'"', b'"null"', b'"2026-99-99T99:99:99Z"',
    )
)  # fmt: skip
OTHERS: Final[tuple[Any, ...]] = (
    None, True, False, [], {}, [[]], [None] * 10, ["a"] * 10, [1] * 11, {"a": 1}, 0, 1.5, "x",
    Raw(b"[" * 40 + b"]" * 40), Raw(b"[" * 20_000 + b"]" * 20_000), Raw(b"[0" + b",0" * 9_999 + b"]"),
    Raw(b'{"a":' * 200 + b"1" + b"}" * 200), Raw(b"[[[["), Raw(b""), Raw(b"undefined"), Raw(b"'x'"),
)  # fmt: skip
NAMES: Final = ("", "vehicle_id\x00", "__proto__", "x" * 1000, "a.b.c", "\u202e", "n", "part", "sha256", "*")
VINS: Final = (
    "", "all", "+", "#", "1HGCM82633A00000I", VIN.lower(), VIN + "0", VIN[:16], " " + VIN[1:], VIN[:8] + "\n",
    "x" * LONG, VIN[:16] + "\u0660", "../" + VIN[:14], vehicle_id(999_998),
)  # fmt: skip


def valid(kind: str, rng: random.Random) -> dict[str, Any]:
    """A sound message of a kind, as a vehicle or the service would send it."""
    head = {"schema": 1, "vehicle_id": VIN, "boot_id": BOOT, "seq": SEQ}
    if kind == "telemetry":
        return _frame(head, rng)
    if kind == "crash":
        return _crash(head, rng)
    if kind == "status":
        named = {"model": "m", "powertrain": "petrol", "vehicle_class": "car"}
        return {**head, "state": rng.choice(("online", "offline")), "at_ms": T0_MS, **named}
    told = {"sent_ms": SENT_MS, "severity": rng.choice(("WARNING", "MINOR", "MAJOR", "CRITICAL"))}
    if kind == "notice":
        return {"schema": 1, **told, "notice_id": f"n{SEQ}", "to": rng.choice((VIN, "all")), "text": "t"}
    return {
        **head, **told, "alert_id": f"{SEQ}", "rule": rng.choice(("coolant_critical", "r", "x.y")),
        "limit": 1,
        "rule_version": 1, "event_ms": T0_MS, "value": 1.5, "message": "m", "received_ms": SENT_MS,
        "lat_deg": 48.1, "lon_deg": 11.5,
    }  # fmt: skip


def _frame(head: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Every signal of the contract now and then, in its range or at its ends."""
    body: dict[str, Any] = orjson.loads(frame(0, rng.randrange(100), T0_MS)) | head | {"sent_ms": SENT_MS}
    for signal in rng.sample(SIGNALS, 8):
        ends = (signal.minimum, signal.maximum, signal.maximum + signal.resolution, None)
        if signal.kind == "codes":
            body[signal.name] = ["P0301"] * rng.choice((0, 1, 50))
        elif signal.kind == "flag":
            body[signal.name] = rng.choice((True, False, None))
        else:
            body[signal.name] = [rng.choice(ends)] * 10 if signal.rate == "fast" else rng.choice(ends)
    return body


def _crash(head: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    series = [round(-k * 1.1, 2) for k in range(30)]
    samples = {"speed_kmh": [50.0] * 11, "brake_on": [True] * 11, "engine_rpm": [1800] * 11}
    record = {
        **head, "crash_id": f"c{SEQ}", "event_ms": T0_MS, "sent_ms": SENT_MS, "profile": "us563_2024",
        "pre_crash_dt_ms": 500, "pre_crash": samples, "delta_v_dt_ms": 10, "delta_v_kmh": series,
        "delta_v_lat_kmh": series, "delta_v_max_kmh": -32.0, "delta_v_max_ms": 290, "airbag_deployed": True,
        "airbag_ms": 20, "belt_on": True, "warning_lamp_on": False, "ignition_cycle": 1, "multi_event": 1,
        "complete": True, "lat_deg": 48.1, "lon_deg": 11.5,
    }  # fmt: skip
    record["sha256"] = crash_digest(record)
    if rng.random() < 0.4:
        parts = split_crash(orjson.dumps(record), 400)
        part: dict[str, Any] = orjson.loads(rng.choice(parts))
        return part
    return record


def text(value: Any) -> bytes:
    """JSON of what JSON can say, and of Raw and Twice."""
    if isinstance(value, Raw):
        return value
    if isinstance(value, dict):
        items = [orjson.dumps(key) + b":" + text(each) for key, each in value.items()]
        if isinstance(value, Twice):
            items += [orjson.dumps(key) + b":null" for key in value]
        return b"{" + b",".join(items) + b"}"
    if isinstance(value, list):
        return b"[" + b",".join(map(text, value)) + b"]"
    return orjson.dumps(value)


def copied(value: Any) -> Any:
    """A tree of its own, to be changed."""
    if isinstance(value, dict):
        return {key: copied(each) for key, each in value.items()}
    return [copied(each) for each in value] if isinstance(value, list | tuple) else value


Change = Callable[[dict[str, Any], random.Random], dict[str, Any]]


def leaf(values: Sequence[Any]) -> Change:
    """A change: one value at any depth replaced by one of these."""

    def change(body: dict[str, Any], rng: random.Random) -> dict[str, Any]:
        node: Any = body
        while True:
            key = rng.choice(list(node)) if isinstance(node, dict) else rng.randrange(len(node))
            inner = node[key]
            deeper = isinstance(inner, dict | list) and inner and rng.random() < 0.5
            if not deeper:
                node[key] = rng.choice(values)
                return body
            node = inner

    return change


def _time(body: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    keys = [key for key in body if key.endswith("_ms")]
    return body | {key: rng.choice(TIMES) for key in rng.sample(keys, min(len(keys), rng.choice((1, 1, 3))))}


def _identity(body: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    key = rng.choice([k for k in body if k.endswith("_id") or k in ("seq", "to", "sha256")] or ["seq"])
    if key in ("vehicle_id", "to"):
        return body | {key: rng.choice(VINS)}
    return body | {key: rng.choice((*NUMBERS, *TEXTS, *OTHERS, BOOT))}


def shape(body: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Keys gone, keys too many, arrays too short or too long."""
    what, key = rng.randrange(4), rng.choice(list(body))
    if what == 0:
        body.pop(key)
    elif what == 1:
        body |= {f"k{k}": k for k in range(rng.choice((1, 1, 3000)))} | {rng.choice(NAMES): 1}
    elif what == 2:
        arrays = [name for name, value in body.items() if isinstance(value, list) and value]
        name = rng.choice(arrays or [key])
        plain = not arrays or not isinstance(body[name][0], dict)
        body[name] = (body[name] if arrays else [0]) * rng.choice((0, 2, 100, 3000 if plain else 200))
    else:
        body["n"] = rng.choice((0, 1, 9, 11, 100, 101, 10**6))
    return body


def _schema(body: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    return body | {"schema": rng.choice((0, 2, 1.0, "1", True, None, -1, 2**31))}


def twice(body: dict[str, Any], _: random.Random) -> dict[str, Any]:
    """Every key is there two times."""
    return Twice(body)


def _part(body: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Parts of crash records: of sets that never end, that disagree, that are whole and no record."""
    data = rng.choice(
        ('{"a":1}', "[" * 1000, "x" * LONG, "\ud83d\ude97".encode("utf-16", "surrogatepass").hex(), "")
    )
    digest = hashlib.sha256(data.encode()).hexdigest()
    parts = rng.choice((1, 1, 2, 256, 257))
    head = {key: body[key] for key in ("schema", "vehicle_id", "boot_id", "seq") if key in body}
    times = {"crash_id": f"c{SEQ}", "event_ms": T0_MS, "sent_ms": SENT_MS}
    return head | times | {"part": rng.choice((0, parts - 1)), "parts": parts, "sha256": digest, "data": data}


CHANGES: Final[tuple[Change, ...]] = (
    leaf(NUMBERS), leaf(TEXTS), leaf(OTHERS), _time, _identity, shape, _schema, twice, _part,
)  # fmt: skip


def spoilt(raw: bytes, rng: random.Random) -> bytes:
    """What befalls the text as a whole: encoding, ends, garbage."""
    at = rng.randrange(len(raw) or 1)
    return rng.choice(
        (
            lambda: b"", lambda: raw[:at], lambda: raw + raw, lambda: raw + b"\x00",
            lambda: b"\xef\xbb\xbf" + raw,
            lambda: raw.decode(errors="replace").encode("utf-16"), lambda: b" " * 5000 + raw,
            lambda: raw[:at] + b"\x00" + raw[at:], lambda: raw[:at] + b"\xff" + raw[at + 1 :],
            lambda: b"[" + raw + b"]", lambda: rng.randbytes(rng.choice((1, 100, 5000))), lambda: raw[::-1],
            lambda: raw.replace(b'"', b"'"), lambda: b'"' + raw + b'"', lambda: raw * 80, lambda: b"null",
            lambda: b"0" * 70_000, lambda: b"\x1f\x8b\x08" + raw, lambda: b"[" * 60_000,
        )
    )()  # fmt: skip


@dataclass(frozen=True, slots=True)
class Body:
    """A message but for what tells it from others; see ``filled``."""

    kind: str
    raw: bytes

    def filled(self, vin: bytes, number: int, now_ms: int) -> bytes:
        """The bytes to send: of this vehicle, with a number of its own, stamped now."""
        boot, seq, t0, sent = b"%013d" % (number + 10**12), b"%013d" % (number + 10**12), b"%d", b"%d"
        return (
            self.raw.replace(_VIN, vin)
            .replace(_BOOT, boot)
            .replace(_SEQ, seq)
            .replace(_T0, t0 % (now_ms - 1000))
            .replace(_SENT, sent % now_ms)
        )


_VIN, _BOOT, _SEQ, _T0, _SENT = (str(each).encode() for each in (VIN, BOOT, SEQ, T0_MS, SENT_MS))


def bodies(kind: str, count: int, seed: int, sound: float = 0.0) -> list[Body]:
    """So many bodies of a kind; a share of them, ``sound``, is left as it should be."""
    rng = random.Random(f"{kind} {seed}")
    found = []
    for _ in range(count):
        body = valid(kind, rng)
        if rng.random() >= sound:
            for _ in range(rng.choice((1, 1, 1, 2, 3))):
                body = rng.choice(CHANGES)(body, rng) if body else body
        raw = text(body)
        if rng.random() >= max(sound, 0.85):
            raw = spoilt(raw, rng)
        found.append(Body(kind, raw))
    return found
