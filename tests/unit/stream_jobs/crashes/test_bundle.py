"""A crash record's bundle: the same bytes each time, hashes that hold, nothing a spreadsheet would run."""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import orjson

from infra.contract.legal_basis import legal_basis
from stream_jobs.crashes.bundle import Evidence, csv_bytes, made, name_of, unnamed
from stream_jobs.crashes.custody import START, Entry

AT = datetime(2026, 11, 21, 8, 0, 0, 250_000, tzinfo=UTC)
COURT = legal_basis("court-order: docket 4:26-cv-17")
RAW = (Path(__file__).parents[3] / "golden" / "crash.json").read_text().strip()


def evidence() -> Evidence:
    row = {
        "vehicle_id": "1HGCM82633A004352", "boot_id": 5, "crash_id": "c-1", "event_time": AT,
        "received_at": AT, "profile": "us563_2024", "delta_v_max_kmh": -40.0, "airbag_deployed": True,
        "complete": True, "hash_ok": True, "signature": "absent", "lat_deg": 48.1, "lon_deg": 11.5,
        "record": orjson.loads(RAW), "raw": RAW,
        "defects": [], "locked_at": AT, "locked_by": "recorder", "locked_why": "deployed",
        "verdict": "confirmed", "reasons": ["it stood still"], "figures": {"sealed": True}, "final": True,
        "decided_at": AT,
    }  # fmt: skip
    noted = Entry(
        entry=1, at=AT, actor="ingest", action="received", vehicle_id="1HGCM82633A004352", boot_id=5,
        crash_id="c-1", digest="d", detail="", previous=START, sha256="h1",
    )  # fmt: skip
    points = [{"sample": 0, "t_ms": 0.0, "delta_v_kmh": 0.0, "delta_v_lat_kmh": None}]
    samples = [{"sample": 0, "t_ms": 0.0, "speed_kmh": 50.0, "brake_on": False}]
    return Evidence(row, points, samples, [noted])


def files(body: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_same_record_gives_the_same_bytes_however_often_it_was_exported() -> None:
    once = made(evidence(), COURT)
    exported = replace(evidence().custody[0], entry=2, action="exported", at=datetime.now(UTC))
    again = replace(evidence(), custody=[*evidence().custody, exported])
    assert made(again, COURT) == once
    assert (
        hashlib.sha256(once).hexdigest()
        != hashlib.sha256(made(replace(evidence(), pre_crash=[]), COURT)).hexdigest()
    )


def test_the_bundle_holds_what_was_sent_and_the_hashes_of_all_of_it() -> None:
    found = files(made(evidence(), COURT))
    assert set(found) == {
        "README.txt", "record.json", "canonical.json", "delta_v.csv", "pre_crash.csv", "verdict.json",
        "custody.json", "legal_basis.json", "SHA256SUMS",
    }  # fmt: skip
    assert found["record.json"].decode() == RAW
    assert hashlib.sha256(found["canonical.json"]).hexdigest() == orjson.loads(RAW)["sha256"]
    sums = dict(reversed(line.split("  ")) for line in found.pop("SHA256SUMS").decode().splitlines())
    assert sums == {name: hashlib.sha256(body).hexdigest() for name, body in found.items()}
    assert found["delta_v.csv"] == b"t_ms,delta_v_kmh,delta_v_lat_kmh\n0,0,\n"
    assert b"verdict          confirmed" in found["README.txt"]


def test_the_bundle_tells_by_which_right_it_left() -> None:
    told = orjson.loads(files(made(evidence(), COURT))["legal_basis.json"])
    assert (told["basis"], told["reference"]) == ("court-order", "docket 4:26-cv-17")
    assert made(evidence(), legal_basis("consent: form 7")) != made(evidence(), COURT)


def test_for_research_nothing_in_the_bundle_tells_which_vehicle_it_was() -> None:
    vehicle, sealed = "1HGCM82633A004352", orjson.loads(RAW)
    sent = sealed | {"certificate": ["MII"], "signature": "c2ln", "vehicle_id": vehicle}
    raw, known = orjson.dumps(sent).decode(), evidence()
    named = replace(known, record={**known.record, "raw": raw, "crash_id": f"{vehicle}-1"})
    hidden = unnamed(named, "vehicle-0123")
    body = made(hidden, legal_basis("research: study 12"))
    found = files(body)
    assert set(found) == {
        "README.txt", "record.json", "delta_v.csv", "pre_crash.csv", "verdict.json", "legal_basis.json",
        "SHA256SUMS",
    }  # fmt: skip
    digests = (sealed["sha256"], hashlib.sha256(raw.encode()).hexdigest())
    assert [word for word in (vehicle, "MII", "c2ln", *digests) if word.encode() in body] == []
    kept = orjson.loads(found["record.json"])
    assert kept | {"sha256": sealed["sha256"]} == sealed | {"vehicle_id": "vehicle-0123"}
    assert name_of(hidden.record) == "crash-vehicle-0123-5-vehicle-0123-1.zip"


def test_text_that_a_spreadsheet_would_run_is_disarmed_and_numbers_stay_numbers() -> None:
    rows = [
        {"a": "=HYPERLINK(1)", "b": -4.5},
        {"a": "@x", "b": None},
        {"a": "\tx", "b": True},
        {"a": 'q"', "b": 1},
    ]
    assert csv_bytes(rows, ("a", "b")).decode().splitlines() == [
        "a,b", "'=HYPERLINK(1),-4.5", "'@x,", "'\tx,true", '"q""",1',
    ]  # fmt: skip


def test_a_vehicles_words_make_no_path() -> None:
    row = evidence().record
    assert name_of(row) == "crash-1HGCM82633A004352-5-c-1.zip"
    assert name_of({**row, "crash_id": "../../x"}).startswith("crash-1HGCM82633A004352-5-______x-")
    assert name_of({**row, "crash_id": "a/b"}) != name_of({**row, "crash_id": "a_b"})
