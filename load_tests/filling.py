"""A topic full of frames, as vehicles on the move would have sent them: for rates and backlogs."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import orjson

from infra.clients import kafka
from infra.contract.errors import ServiceError

SAMPLES: Final = 10
TRACKS: Final = 500
RECEIVED_MS: Final = 1500
"""A frame is received so long after its first sample."""
FLUSH_S: Final = 120.0
POLL_EVERY: Final = 1000
METRES_PER_DEGREE: Final = 111_000.0
ENGINE: Final = (
    "engine_load_pct", "coolant_temp_c", "oil_temp_c", "fuel_level_pct", "fuel_rate_lph", "maf_gps",
)  # fmt: skip
MILD: Final = ("ambient_temp_c", "battery_voltage_v", "speed_limit_kmh", "oil_pressure_kpa", "altitude_m")


@dataclass(frozen=True, slots=True)
class Filling:
    """What goes into the topic: how many frames, of how many vehicles, driving or thrown over the city.

    A frame a second of each vehicle, in the last second of as many as are left; the last one ends now.
    """

    frames: int
    vehicles: int
    scattered: bool

    @property
    def seconds(self) -> int:
        """How long they have driven."""
        return math.ceil(self.frames / self.vehicles)


def bodies(scattered: bool, second: int, count: int = TRACKS) -> list[bytes]:
    """What petrol cars on ``count`` tracks say in a second, about 1.6 KB each, without the frame's head."""
    return [orjson.dumps(_signals(track, second, scattered))[1:] for track in range(count)]


def _signals(track: int, second: int, scattered: bool) -> dict[str, Any]:
    """Straight on, at the track's own speed, from where the second before has ended."""
    rng = random.Random(track)

    def wave(low: float, high: float, digits: int) -> list[float]:
        return [round(rng.uniform(low, high), digits) for _ in range(SAMPLES)]

    speed_kmh = rng.uniform(0, 90)
    step_deg = speed_kmh / 3.6 / METRES_PER_DEGREE / SAMPLES
    lat_deg, lon_deg = rng.uniform(48.0, 48.2), rng.uniform(11.4, 11.7)
    lat_deg, lon_deg = (deg + second * SAMPLES * step_deg for deg in (lat_deg, lon_deg))
    signals: dict[str, Any] = {
        "speed_kmh": [round(speed_kmh + 0.05 * i, 2) for i in range(SAMPLES)],
        "lat_deg": [round(lat_deg + i * step_deg, 6) for i in range(SAMPLES)],
        "lon_deg": [round(lon_deg + i * step_deg, 6) for i in range(SAMPLES)],
        "heading_deg": [round(rng.uniform(40, 50), 1)] * SAMPLES,
        "accel_long_mps2": wave(-2, 2, 2), "accel_lat_mps2": wave(-2, 2, 2),
        "yaw_rate_dps": wave(-9, 9, 1), "accelerator_pct": wave(0, 80, 1), "brake_pct": wave(0, 20, 1),
        "steering_deg": wave(-90, 90, 1), "engine_rpm": wave(700, 3000, 0), "ignition_on": True,
        "odometer_m": rng.randrange(10**6), "gear": 3, "driver_belt_on": True, "dtc_codes": [],
    }  # fmt: skip
    if scattered:
        signals |= {"lat_deg": wave(48.0, 48.2, 6), "lon_deg": wave(11.4, 11.7, 6)}
    signals |= {name: round(rng.uniform(10, 40), 1) for name in (*ENGINE, *MILD)}
    for wheel in ("fl", "fr", "rl", "rr"):
        signals |= {f"tyre_pressure_{wheel}_kpa": 230.0, f"tyre_temp_{wheel}_c": 25.0}
        signals[f"brake_pad_wear_{wheel}_pct"] = 20.0
    return signals


def vehicle(number: int) -> str:
    """The id of a vehicle of these."""
    return f"WDB1240001A{number:06d}"


def payload(number: int, seq: int, t0_ms: int, body: bytes) -> bytes:
    """A frame: head and ``body``."""
    head = (
        f'{{"schema":1,"vehicle_id":"{vehicle(number)}","boot_id":1,"seq":{seq},'
        f'"t0_ms":{t0_ms},"dt_ms":100,"n":{SAMPLES},"sent_ms":{t0_ms + 1000},'
    )
    return head.encode() + body


def messages(filling: Filling, end_ms: int) -> Iterator[tuple[str, bytes, int]]:
    """Key, value and receive time [ms] of each frame, second by second."""
    first_ms = end_ms - filling.seconds * 1000 - RECEIVED_MS
    keys = [vehicle(number) for number in range(filling.vehicles)]
    for second in range(filling.seconds):
        t0_ms = first_ms + second * 1000
        said = bodies(filling.scattered, second)
        for number, key in enumerate(keys[: filling.frames - second * filling.vehicles]):
            yield key, payload(number, second, t0_ms, said[number % len(said)]), t0_ms + RECEIVED_MS


def fill(bootstrap: str, topic: str, filling: Filling) -> None:
    """The frames into a topic, partitioned as the bridge does; raises ServiceError where Kafka is slow."""
    settings = {"compression.type": "lz4", "linger.ms": 50, "queue.buffering.max.messages": 200_000}
    producer = kafka.producer(bootstrap, settings)
    for place, (key, value, received_ms) in enumerate(messages(filling, time.time_ns() // 1_000_000)):
        kafka.produce(producer, topic, value, key, timestamp=received_ms)
        if place % POLL_EVERY == 0:
            producer.poll(0)
    if producer.flush(FLUSH_S):
        raise ServiceError(f"{topic}: Kafka did not take all frames within {FLUSH_S:g} s")
