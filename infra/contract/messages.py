"""The other messages: crash record (whole or in parts), vehicle status, alert, deferral. Heads as of frames.

A large crash record travels in parts on the crash topic. Part 0 repeats the record's figures, so a consumer
that judges part 0 finds what it would find in the whole.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Final, Literal, NamedTuple, Self, get_args

import orjson

from infra.contract import frame
from infra.contract.errors import MALFORMED, ContractError, raised_as
from infra.contract.frame import LAST_MS, Frame, check_bounded, check_identity, check_text, require_int, shown

STATUS_MAX_BYTES: Final = 8 * 1024

PRE_CRASH: Final = (
    "speed_kmh", "accelerator_pct", "brake_on", "engine_rpm", "steering_deg", "abs_active", "esc_active",
)  # fmt: skip
"""Columns of the pre-crash table, 49 CFR 563.7 tables I and II; arrays of equal length, oldest first."""

CRASH_KEYS: Final = (
    "crash_id",  # string, unique on the vehicle
    "event_ms", "sent_ms",  # time zero, device clock
    "profile",  # of PROFILES
    "pre_crash_dt_ms", "pre_crash",  # 500 or 100; object of PRE_CRASH arrays, the last sample at time zero
    "delta_v_dt_ms", "delta_v_kmh",  # 10; cumulative longitudinal delta-V, from time zero on
    "delta_v_lat_kmh",
    "delta_v_max_kmh", "delta_v_max_ms",  # signed, the largest by magnitude; its time after time zero
    "airbag_deployed", "airbag_ms",  # deployment after time zero, null where none
    "belt_on", "warning_lamp_on", "ignition_cycle",
    "multi_event", "complete",  # number of the event in its crash, 1 or 2; complete file recorded
    "lat_deg", "lon_deg",
    "sha256",  # of the canonical JSON of all the rest but the signature: see crash_digest
)  # fmt: skip
"""Keys of a crash message after the head (schema, vehicle_id, boot_id, seq)."""

CRASH_EXTRAS: Final = (
    "delta_v_lat_max_kmh", "delta_v_lat_max_ms", "passenger_belt_on",
    "restraints_ms",  # object: each restraint that does not reverse, its deployment after time zero or null
    "first_crash_id", "event_1_to_2_ms",  # event 2: crash_id of event 1, time since it, in steps of 100
    "locked",  # a deployment event: the memory never overwrites it
    "certificate", "signature",  # the device's: base64 lines of X.509; of all bytes before (evidence.py)
    "pulse_mps2",  # object: dt_ms, from_ms (before time zero: negative), long and lat, the raw accelerations
)  # fmt: skip
"""Keys that a crash record may have besides."""
SEALS: Final = ("sha256", "signature")


class Profile(NamedTuple):
    """What is recorded before time zero: ``samples``, ``dt_ms`` apart, the last one at time zero."""

    name: str
    samples: int
    dt_ms: int


PROFILES: Final = {
    "us563_2006": Profile("us563_2006", samples=11, dt_ms=500),  # -5.0..0 s at 2 Hz
    "us563_2024": Profile("us563_2024", samples=200, dt_ms=100),  # 20 s at 10 Hz
}
DELTA_V_POINTS: Final = 26
DELTA_V_MS: Final = 10
TRIGGER_KMH: Final = 8.0  # an event changes the speed by so much within ``TRIGGER_MS``, on either axis
TRIGGER_MS: Final = 150

DEVICE_STATES: Final = ("online", "offline")  # what a vehicle (or its last will) says of itself
STATUS_STATES: Final = (*DEVICE_STATES, "silent")
"""``silent`` is the service's word on an online vehicle that sends nothing; never taken from a device."""
VEHICLE_CLASSES: Final = ("car", "van", "heavy")
STATUS_KEYS: Final = ("state", "at_ms", "model", "powertrain", "vehicle_class")
"""Keys of a status message after the head; model, powertrain and vehicle_class may be null.

``powertrain`` is petrol, diesel, hybrid or electric; ``vehicle_class`` is car, van or heavy. A ``silent``
record is the vehicle's own last word with the other state and ``since_ms``, when it was last heard
(receive clock); ``at_ms`` stays the device's, so that order in the log decides between the two.
"""

ALERT_MAX_BYTES: Final = 16 * 1024
ALERT_LATE_MS: Final = 15 * 60 * 1000
"""An alert whose event is older than this when it is found is stored and marked late, not notified."""
Severity = Literal["WARNING", "MINOR", "MAJOR", "CRITICAL"]
SEVERITIES: Final[tuple[str, ...]] = get_args(Severity)
ALERT_KEYS: Final = (
    "alert_id",  # deterministic: the same finding has the same id, however often it is found
    "vehicle_id", "rule", "rule_version", "severity", "event_ms", "value", "limit", "message", "boot_id",
    "seq", "received_ms", "lat_deg", "lon_deg",
)  # fmt: skip
"""Keys of a record in the Kafka topic ``alerts``."""
_ALERT_TEXTS: Final = {"alert_id": frame.RULE_CHARS, "rule": frame.RULE_CHARS, "message": frame.MESSAGE_CHARS}
_ALERT_NUMBERS: Final = ("value", "limit", "lat_deg", "lon_deg")

CHUNK_BYTES: Final = 16 * 1024  # more JSON is sent in parts, unless a setting says otherwise
MIN_CHUNK_BYTES: Final = 1024
CRASH_MAX_BYTES: Final = 256 * 1024
MAX_PARTS: Final = CRASH_MAX_BYTES // MIN_CHUNK_BYTES

PART_HEAD: Final = ("schema", "vehicle_id", "boot_id", "seq", "crash_id")
PART_SET: Final = ("vehicle_id", "boot_id", "crash_id", "sha256", "parts")
"""What the parts of one record have in common."""
CLOCKS: Final = ("event_ms", "sent_ms")
PART_KEYS: Final = (
    "part", "parts",  # from 0
    "sha256",  # of the whole record's JSON text, hex: not the record's own seal
    "data",  # this part's slice of that text
)  # fmt: skip
"""Keys of a part after PART_HEAD and CLOCKS."""

FIGURES: Final = (
    "profile", "delta_v_kmh", "delta_v_lat_kmh", "delta_v_max_kmh", "delta_v_max_ms", "airbag_deployed",
    "belt_on", "warning_lamp_on", "ignition_cycle", "multi_event", "complete", "lat_deg", "lon_deg",
)  # fmt: skip
"""Keys of the record that part 0 repeats: all but the long tables."""


def decode_crash(raw: bytes) -> Frame:
    """The crash record in ``raw``, or a part of one (see split_crash); raises ContractError."""
    record = frame.load_object(raw, CRASH_MAX_BYTES)
    check_identity(record)
    for key in CLOCKS:
        require_int(record, key, 0, LAST_MS, "bad_clock")
    check_text(record, "crash_id", frame.ID_CHARS, reason="bad_shape")
    if is_part(record):
        _check_part(record)
        return record
    check_bounded(record)
    pulse, table = record.get("delta_v_kmh"), record.get("pre_crash")
    if type(pulse) is not list or not all(type(v) in (int, float) for v in pulse):
        raise ContractError("bad_shape", "delta_v_kmh is not an array of numbers")
    if type(table) is not dict:
        raise ContractError("bad_shape", "pre_crash is not an object of arrays")
    lengths = {len(column) if type(column) is list else -1 for column in table.values()}
    if len(lengths) > 1 or -1 in lengths:
        raise ContractError("bad_shape", "pre_crash columns are not arrays of one length")
    return record


def crash_digest(record: Frame) -> str:
    """SHA-256, hex, of the canonical JSON: all keys but SEALS, sorted at each level, no spaces.

    Numbers are written as orjson writes them, so a record that was sent as JSON and read back has the digest
    it was sealed with; a record that is sealed before it is sent must hold Python numbers, not numpy's.
    """
    sealed = {key: value for key, value in record.items() if key not in SEALS}
    return hashlib.sha256(orjson.dumps(sealed, option=orjson.OPT_SORT_KEYS)).hexdigest()


def decode_status(raw: bytes, states: tuple[str, ...] = DEVICE_STATES) -> Frame:
    """The status message of a device in ``raw``; raises ContractError with the reason.

    With STATUS_STATES: the record of the Kafka topic ``status``, the service's word included.
    """
    status = frame.load_object(raw, STATUS_MAX_BYTES)
    check_identity(status)
    require_int(status, "at_ms", 0, LAST_MS, "bad_clock")
    _check_one_of(status, "state", states)
    for key in ("model", "powertrain", "vehicle_class"):
        if status.get(key) is not None:
            check_text(status, key, frame.ID_CHARS)
    return status


def _check_one_of(message: Frame, key: str, words: tuple[str, ...]) -> None:
    if message.get(key) not in words:
        raise ContractError("bad_value", f"{key} {shown(message.get(key))} is none of {', '.join(words)}")


def decode_alert(raw: bytes) -> Frame:
    """The record of the Kafka topic ``alerts`` in ``raw``; raises ContractError with the reason."""
    alert = frame.load_object(raw, ALERT_MAX_BYTES)
    missing = [key for key in ALERT_KEYS if key not in alert]
    if missing:
        raise ContractError("bad_shape", f"an alert without {', '.join(missing)}")
    frame.check_vehicle(alert)
    for key, most in _ALERT_TEXTS.items():
        check_text(alert, key, most)
    for key in _ALERT_NUMBERS:
        if type(alert[key]) not in (int, float, type(None)):
            raise ContractError("bad_value", f"{key} {shown(alert[key])} is not a number or null")
    _check_one_of(alert, "severity", SEVERITIES)
    require_int(alert, "rule_version", 1, 2**31 - 1, "bad_value")
    require_int(alert, "event_ms", 0, LAST_MS, "bad_clock")
    require_int(alert, "received_ms", 0, LAST_MS, "bad_clock")
    return alert


def split_crash(record: bytes, chunk_bytes: int = CHUNK_BYTES) -> list[bytes]:
    """The messages that carry a crash record: itself, or its parts in order, cut as evenly as can be.

    The cuts follow from the record and the number of parts alone.
    """
    if len(record) <= chunk_bytes:
        return [record]
    text = record.decode()
    whole = orjson.loads(record)
    parts = -(-len(record) // chunk_bytes)
    size = -(-len(text) // parts)
    digest = hashlib.sha256(record).hexdigest()
    head = {key: whole[key] for key in (*PART_HEAD, *CLOCKS)}
    figures = {key: whole[key] for key in FIGURES if key in whole}
    messages = []
    for k in range(parts):
        part = head | {"part": k, "parts": parts, "sha256": digest} | (figures if k == 0 else {})
        messages.append(orjson.dumps(part | {"data": text[k * size : (k + 1) * size]}))
    return messages


def is_part(message: Frame) -> bool:
    """Whether a message of the crash topic is a part of a record."""
    return "part" in message


def _check_part(message: Frame) -> None:
    """Raise ContractError unless a part is whole in itself. What it is a part of is not judged."""
    parts = require_int(message, "parts", 1, MAX_PARTS, "bad_shape")
    require_int(message, "part", 0, parts - 1, "bad_shape")
    digest = message.get("sha256")
    if type(digest) is not str or len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
        raise ContractError("bad_shape", f"sha256 {shown(digest)} is not 64 hexadecimal digits")
    # Cut as evenly as can be: all parts together are no longer than a record may be.
    check_text(message, "data", max(frame.TEXT_CHARS, -(-CRASH_MAX_BYTES // parts)), reason="bad_shape")
    check_bounded({key: value for key, value in message.items() if key != "data"})


def join_crash(slices: Sequence[str], digest: str) -> bytes:
    """The record out of its parts' ``data``, in order; raises ContractError where the digest differs."""
    raw = "".join(slices).encode()
    found = hashlib.sha256(raw).hexdigest()
    if found != digest:
        raise ContractError("bad_digest", f"{len(slices)} parts give {found}, their sha256 is {digest}")
    return raw


POLICY_KEY: Final = "overload"
RULE: Final = "overload"
FLEET: Final = "FLEET000000000000"
"""Stands for the whole fleet where an alert names a vehicle: in the form of a VIN, and nobody's."""


@dataclass(frozen=True, slots=True)
class Deferral:
    """Frames of vehicles of ``classes`` are put off, but for one of each every ``show_every_s``.

    The service decides it while the fleet sends more than the stream carries, and tells it in the compacted
    topic ``policy``. A bridge puts such frames into ``telemetry-deferred``, which only the archive reads.
    """

    classes: tuple[str, ...] = ()
    show_every_s: float = 60.0

    def encode(self) -> bytes:
        """The record under POLICY_KEY."""
        return orjson.dumps(asdict(self))

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """Raises ContractError."""
        with raised_as(partial(ContractError, "bad_shape"), "no policy of deferral", *MALFORMED):
            found = orjson.loads(value)
            return cls(tuple(map(str, found["classes"])), float(found["show_every_s"]))
