"""A crash record's signature is its vehicle's, over all of its bytes; nobody else's makes it valid."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from infra.contract.evidence import DeviceAuthority, device_authority, device_certificate, device_signature
from infra.contract.messages import crash_digest, decode_crash, join_crash, split_crash
from infra.settings.settings import Settings, load
from infra.stack.stack import ensure_keys

BODY = {
    "schema": 1, "vehicle_id": "1HGCM82633A000001", "boot_id": 5, "seq": 1, "crash_id": "5-1", "event_ms": 1,
    "sent_ms": 2, "delta_v_kmh": [0.0, -9.0], "pre_crash": {"speed_kmh": [50] * 200},
}  # fmt: skip


def home(path: Path) -> tuple[Settings, DeviceAuthority]:
    settings = load(paths={"home": str(path)})
    path.mkdir()
    ensure_keys(settings)
    authority = device_authority(settings)
    assert authority is not None
    return settings, authority


def test_a_signed_record_is_valid_in_its_own_bytes_only(tmp_path: Path) -> None:
    settings, authority = home(tmp_path / "ours")
    raw, certificate = authority.sealed(BODY), device_certificate(settings)
    record = decode_crash(raw)
    assert record["sha256"] == crash_digest(record)
    assert raw == authority.sealed(BODY)  # the device's key and certificate are the same each time
    assert device_signature(raw, certificate) == "valid"
    parts = [orjson.loads(part) for part in split_crash(raw, 1024)]
    assert join_crash([part["data"] for part in parts], parts[0]["sha256"]) == raw
    assert device_signature(raw.replace(b"-9.0", b"-8.0"), certificate) == "invalid"
    assert device_signature(raw, None) == "unchecked"
    unsigned = orjson.dumps(BODY | {"sha256": crash_digest(BODY)})
    assert device_signature(unsigned, certificate) == "absent"


def test_a_signature_by_another_vehicle_another_authority_or_cut_off_is_not_valid(tmp_path: Path) -> None:
    settings, authority = home(tmp_path / "ours")
    _, stranger = home(tmp_path / "theirs")
    certificate = device_certificate(settings)
    other = authority.sealed(BODY | {"vehicle_id": "1HGCM82633A000002"})
    for raw in (
        other.replace(b"3A000002", b"3A000001"),
        stranger.sealed(BODY),
        authority.sealed(BODY).partition(b',"signature"')[0] + b"}",
        orjson.dumps(BODY | {"certificate": 5, "signature": "x"}),
    ):
        assert device_signature(raw, certificate) == "invalid"


def test_a_home_without_an_authority_signs_nothing(tmp_path: Path) -> None:
    settings = load(paths={"home": str(tmp_path)})
    assert (device_authority(settings), device_certificate(settings)) == (None, None)


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
