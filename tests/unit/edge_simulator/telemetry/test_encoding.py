"""The encoder by columns: byte for byte what the contract's own encoder makes of the same values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.telemetry.encoding import ABSENT, Encoder, SampleRing
from edge_simulator.vehicle.vehicles import make
from infra.contract import frame
from infra.contract.signals import BY_NAME, FAST, SLOW, Signal

KINDS = sorted(ABSENT)
NUMBERS = [s for s in SLOW if s.kind == "number"]
FLAGS = [s.name for s in SLOW if s.kind == "flag"]
SAMPLES = 10

Values = dict[str, Floats]


def on_wire(signal: Signal, value: float) -> float | int | None:
    """The number that a frame holds for a value, by the contract's rules."""
    if np.isnan(value):
        return None
    step = round(min(max(value, signal.minimum), signal.maximum) * signal.steps_per_unit)
    if signal.name == "heading_deg":
        step %= 3600
    return step / signal.steps_per_unit if signal.decimals else step


class Group:
    """Vehicles, one of each kind of powertrain after the other, with what they measured."""

    def __init__(self, n: int, samples: list[Values], slow: Values, flags: dict[str, Bools]) -> None:
        self.ids = [make(f"frames/{k}") for k in range(n)]
        self.kinds = [KINDS[k % len(KINDS)] for k in range(n)]
        self.samples, self.slow, self.flags = samples, slow, flags

    def expected(self, k: int, head: dict[str, int], codes: list[str]) -> bytes:
        absent, electric = ABSENT[self.kinds[k]], self.kinds[k] == "electric"
        body: dict[str, Any] = {"schema": 1, "vehicle_id": self.ids[k], **head}
        for s in FAST:
            body[s.name] = [on_wire(s, float(sample[s.name][k])) for sample in self.samples]
        if electric:
            body["engine_rpm"] = None
        present = [s for s in NUMBERS if s.name not in absent]
        for s in sorted(present, key=lambda s: s.decimals == 0):
            body[s.name] = on_wire(s, float(self.slow[s.name][k]))
        body |= {name: bool(self.flags[name][k]) for name in FLAGS}
        return frame.encode(body | {"dtc_codes": codes})

    def encoded(
        self, rows: slice | Ints, heads: dict[str, Any], codes: Mapping[int, list[str]] | None = None
    ) -> list[bytes]:
        ring = SampleRing(len(self.ids))
        ring.record({s.name: np.zeros(len(self.ids)) for s in FAST})  # an older one, to be forgotten
        for sample in self.samples:
            ring.record(sample)
        slow = {name: values[rows] for name, values in self.slow.items()}
        flags = {name: values[rows] for name, values in self.flags.items()}
        return Encoder(self.ids, self.kinds).encode(rows, ring.window(rows), slow, flags, codes or {}, heads)


def heads(n: int, start: int = 0) -> dict[str, Any]:
    rows = np.arange(start, start + n)
    own = {"seq": rows * 997, "t0_ms": 1_760_000_000_900 + rows, "sent_ms": 1_760_000_001_900 + 3 * rows}
    return {"boot_id": 1_760_000_000_000, "dt_ms": 100} | own


def head_of(h: dict[str, Any], k: int) -> dict[str, int]:
    return {
        "boot_id": h["boot_id"], "seq": int(h["seq"][k]), "t0_ms": int(h["t0_ms"][k]), "dt_ms": h["dt_ms"],
        "n": SAMPLES, "sent_ms": int(h["sent_ms"][k]),
    }  # fmt: skip


def filled(n: int, value: Any) -> Group:
    """A group whose numbers are ``value(signal)``, an array [n] or one for all."""

    def column(s: Signal) -> Floats:
        return np.array(np.broadcast_to(np.asarray(value(s), dtype=np.float64), n))

    samples = [{s.name: column(s) for s in FAST} for _ in range(SAMPLES)]
    flags = {name: np.arange(n) % (k + 2) == 0 for k, name in enumerate(FLAGS)}
    return Group(n, samples, {s.name: column(s) for s in NUMBERS}, flags)


def assert_same(group: Group, n: int) -> None:
    h = heads(n)
    for k, payload in enumerate(group.encoded(slice(0, n), h)):
        assert payload == group.expected(k, head_of(h, k), [])
        frame.decode(payload)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_values_become_the_bytes_of_the_contracts_encoder(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def value(s: Signal) -> Floats:
        span = s.maximum - s.minimum
        return rng.uniform(s.minimum - 0.02 * span, s.maximum + 0.02 * span, 600)

    assert_same(filled(600, value), 600)


@pytest.mark.parametrize("value", [lambda s: s.minimum, lambda s: s.maximum, lambda s: 0.0, lambda s: -0.0])
def test_the_ends_of_all_ranges_and_zero_of_either_sign(value: Any) -> None:
    assert_same(filled(4, value), 4)


def test_values_beyond_their_range_are_held_at_its_ends() -> None:
    assert_same(filled(4, lambda s: s.maximum + 1e9), 4)
    assert_same(filled(4, lambda s: s.minimum - 1e9), 4)


@pytest.mark.slow
def test_every_step_of_every_signal_with_a_table_has_its_own_text() -> None:
    for signal in (s for s in FAST if s.maximum * s.steps_per_unit < 1e6):
        steps = np.arange(round(signal.minimum * signal.steps_per_unit), 1 + round(
            signal.maximum * signal.steps_per_unit
        ))  # fmt: skip
        group = filled(len(steps), lambda s, own=signal, v=steps: v / own.steps_per_unit if s is own else 0.0)
        group.kinds = ["petrol"] * len(steps)
        h = heads(len(steps))
        for k, payload in enumerate(group.encoded(slice(0, len(steps)), h)):
            wanted = on_wire(signal, float(group.samples[0][signal.name][k]))
            assert frame.decode(payload)[signal.name] == [wanted] * SAMPLES


def test_places_near_equator_and_meridian_on_both_sides() -> None:
    near = [k / 1e6 for k in range(-30, 31)] + [-1.0, -0.999999, -0.5, 0.1, 1.0, 48.1, -48.100001, 9.00007]
    group = filled(len(near), lambda s: np.array(near) if s.name in ("lat_deg", "lon_deg") else 1.0)
    assert_same(group, len(near))


def test_no_value_is_null_wherever_it_occurs() -> None:
    rng = np.random.default_rng(4)
    group = filled(60, lambda s: np.where(rng.random(60) < 0.3, np.nan, s.maximum / 3))
    assert_same(group, 60)
    assert b'"lat_deg":[null,null,' in filled(1, lambda s: np.nan).encoded(slice(0, 1), heads(1))[0]


def test_heads_of_any_length_and_a_boot_id_of_their_own() -> None:
    numbers = np.array([0, 7, 10, 9_999, 10_000, 99_999_999, 100_000_000, 10**12, 2**53])
    group = filled(9, lambda s: 1.0)
    h = dict.fromkeys(("boot_id", "seq", "sent_ms"), numbers) | {
        "t0_ms": numbers[::-1].copy(),
        "dt_ms": 60_000,
    }
    for k, payload in enumerate(group.encoded(slice(0, 9), h)):
        head = {
            "boot_id": int(numbers[k]), "seq": int(numbers[k]), "t0_ms": int(numbers[8 - k]),
            "dt_ms": 60_000, "n": SAMPLES, "sent_ms": int(numbers[k]),
        }  # fmt: skip
        assert payload == group.expected(k, head, [])


def test_trouble_codes_stand_in_the_frames_of_their_vehicles_only() -> None:
    group = filled(40, lambda s: 2.5)
    rows = np.array([3, 9, 20, 39])
    codes = {2: ["P0128"], 9: ["P0217", "P0300"], 20: [], 39: ["U0100"]}
    h = heads(4)
    payloads = group.encoded(rows, h, codes)
    for k, vehicle in enumerate(rows.tolist()):
        assert payloads[k] == group.expected(vehicle, head_of(h, k), codes.get(vehicle, []))


def test_a_window_begins_with_the_oldest_sample() -> None:
    ring = SampleRing(2)
    for k in range(13):
        ring.record({s.name: np.full(2, float(k) if s.name == "speed_kmh" else 0.0) for s in FAST})
    speed = [s.name for s in FAST].index("speed_kmh")
    wanted = [k * 100 for k in range(3, 13)]
    assert ring.window(slice(0, 2))[:, speed, 0].tolist() == wanted
    assert ring.window(np.array([1]))[:, speed, 0].tolist() == wanted


def test_the_longest_range_is_the_odometers_and_has_no_table() -> None:
    odometer = BY_NAME["odometer_m"]
    values = np.array([0.0, 9_999.4, 10_000.0, 123_456_789.0, 4e9, 5e9, np.nan])
    group = filled(7, lambda s: values if s is odometer else 0.0)
    assert_same(group, 7)
