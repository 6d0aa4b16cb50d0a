"""How much one vehicle may send, and how deep a document may be."""

from __future__ import annotations

import orjson
import pytest

from bridge.uplink.translate import NO_LIMIT, Record, Rejection, Translator, VehicleLimit
from infra.settings.settings import Settings

NOW = 1_790_000_000_000
VINS = ("1HGCM82633A004352", "1HGCM82633A004353")


def topic(vin: str, channel: str = "telemetry") -> bytes:
    return f"odograph/v1/{vin}/{channel}".encode()


def frame(vin: str, **changes: object) -> bytes:
    body = {"schema": 1, "vehicle_id": vin, "boot_id": 3, "seq": 7, "t0_ms": NOW, "dt_ms": 100, "n": 1}
    return orjson.dumps(body | {"sent_ms": NOW} | changes)


def translator(rate: float, burst: int) -> Translator:
    return Translator("odograph/v1", "test.", limit=VehicleLimit(rate, burst))


def sent(ours: Translator, count: int, at_ms: int, vin: str = VINS[0]) -> list[str]:
    """What becomes of ``count`` messages that come at once: a letter each."""
    found = [ours.translate(topic(vin), frame(vin), at_ms) for _ in range(count)]
    return ["passed" if isinstance(x, Record) else x.reason for x in found if x is not None]


def test_a_burst_passes_and_what_is_beyond_it_is_quarantined_with_its_reason() -> None:
    ours = translator(rate=2, burst=3)
    assert sent(ours, 5, NOW) == ["passed"] * 3 + ["rate_limited"] * 2
    assert sent(ours, 1, NOW + 499) == ["rate_limited"]
    assert sent(ours, 2, NOW + 500) == ["passed", "rate_limited"]
    assert sent(ours, 5, NOW + 60_000) == ["passed"] * 3 + ["rate_limited"] * 2


def test_another_vehicle_is_not_held_back() -> None:
    ours = translator(rate=1, burst=1)
    assert sent(ours, 2, NOW) == ["passed", "rate_limited"]
    assert sent(ours, 1, NOW, VINS[1]) == ["passed"]


def test_what_is_wrong_takes_no_token() -> None:
    ours = translator(rate=1, burst=1)
    wrong = ours.translate(topic(VINS[0]), b"{", NOW)
    assert isinstance(wrong, Rejection)
    assert (wrong.reason, sent(ours, 1, NOW)) == ("bad_json", ["passed"])


def test_a_clock_set_back_does_not_shut_a_vehicle_out() -> None:
    ours = translator(rate=1, burst=2)
    assert sent(ours, 2, NOW) == ["passed", "passed"]
    assert sent(ours, 3, NOW - 3_600_000) == ["passed", "passed", "rate_limited"]


def test_half_an_hour_of_stored_frames_passes_at_once_with_the_shipped_limits() -> None:
    shipped = Settings().bridge
    ours = translator(shipped.vehicle_rate, shipped.vehicle_burst)
    assert set(sent(ours, 1800, NOW)) == {"passed"}
    assert VehicleLimit(shipped.vehicle_rate, shipped.vehicle_burst).slack_ms > 18_000, "at 10 frames/s too"


def test_without_a_rate_there_is_no_limit() -> None:
    ours = Translator("odograph/v1", "test.", limit=NO_LIMIT)
    assert set(sent(ours, 50, NOW)) == {"passed"}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b"[" * 31 + b"]" * 31, None),
        (b"[" * 200 + b"]" * 200, "bad_json"),
        (b'{"a":' * 200 + b"1" + b"}" * 200, "bad_json"),
        (b"[" * 32_000 + b"]" * 32_000, "bad_json"),
        (b"[" + b"[1]," * 500 + b"[1]]", None),
    ],
    ids=["31-deep", "200-deep", "200-objects", "32000-deep", "wide"],
)
def test_a_document_is_refused_for_its_depth_not_for_its_width(document: bytes, reason: str | None) -> None:
    raw = frame(VINS[0])[:-1] + b',"later":' + document + b"}"
    found = translator(0, 1).translate(topic(VINS[0]), raw, NOW)
    assert (found.reason if isinstance(found, Rejection) else None) == reason
