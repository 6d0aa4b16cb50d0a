"""A crash record's signature is its vehicle's, over all of its bytes; nobody else's makes it valid."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest

from infra.contract.frame import Frame
from infra.contract.messages import crash_digest, decode_crash, join_crash, split_crash
from infra.settings.settings import Settings, load
from infra.stack.access.identity import (
    DEVICES,
    Authority,
    device_trust,
    ensure_keys,
    record_signer,
    signature_of,
)

BODY = {
    "schema": 1, "vehicle_id": "1HGCM82633A000001", "boot_id": 5, "seq": 1, "crash_id": "5-1", "event_ms": 1,
    "sent_ms": 2, "delta_v_kmh": [0.0, -9.0], "pre_crash": {"speed_kmh": [50] * 200},
}  # fmt: skip
NOW = datetime.now(UTC)


def home(path: Path) -> tuple[Settings, Callable[[Frame], bytes]]:
    settings = load(paths={"home": str(path)})
    path.mkdir()
    ensure_keys(settings)
    sealed = record_signer(settings)
    assert sealed is not None
    return settings, sealed


def test_a_signed_record_is_valid_in_its_own_bytes_only(tmp_path: Path) -> None:
    settings, sealed = home(tmp_path / "ours")
    raw, devices = sealed(BODY), device_trust(settings)
    record = decode_crash(raw)
    assert record["sha256"] == crash_digest(record)
    assert raw == sealed(BODY)  # the device's key and certificate are the same each time
    assert signature_of(raw, devices, NOW) == "valid"
    parts = [orjson.loads(part) for part in split_crash(raw, 1024)]
    assert join_crash([part["data"] for part in parts], parts[0]["sha256"]) == raw
    assert signature_of(raw.replace(b"-9.0", b"-8.0"), devices, NOW) == "invalid"
    assert signature_of(raw, None, NOW) == "unchecked"
    unsigned = orjson.dumps(BODY | {"sha256": crash_digest(BODY)})
    assert signature_of(unsigned, devices, NOW) == "absent"


def test_a_signature_by_another_vehicle_another_authority_or_cut_off_is_not_valid(tmp_path: Path) -> None:
    settings, sealed = home(tmp_path / "ours")
    _, stranger = home(tmp_path / "theirs")
    devices = device_trust(settings)
    other = sealed(BODY | {"vehicle_id": "1HGCM82633A000002"})
    for raw in (
        other.replace(b"3A000002", b"3A000001"),
        stranger(BODY),
        sealed(BODY).partition(b',"signature"')[0] + b"}",
        orjson.dumps(BODY | {"certificate": 5, "signature": "x"}),
    ):
        assert signature_of(raw, devices, NOW) == "invalid"


def test_a_signature_counts_until_its_certificate_ends_or_is_revoked(tmp_path: Path) -> None:
    settings, sealed = home(tmp_path / "ours")
    raw, devices = sealed(BODY), device_trust(settings)
    authority = Authority(settings.paths.home, DEVICES)
    (one,) = authority.issued(BODY["vehicle_id"])
    assert [signature_of(raw, devices, at) for at in (one.ends - timedelta(1), one.ends)] == [
        "valid",
        "invalid",
    ]
    authority.revoke([one])
    later = datetime.now(UTC)
    assert [signature_of(raw, devices, at) for at in (NOW, later)] == ["valid", "invalid"]


def test_a_home_without_an_authority_signs_nothing(tmp_path: Path) -> None:
    settings = load(paths={"home": str(tmp_path)})
    assert (record_signer(settings), device_trust(settings)) == (None, None)


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
