"""What status and doctor tell people: every word of it, whatever signs it holds; and what they measure."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.settings.settings import load
from infra.stack import doctor, probes
from infra.stack.access import identity
from infra.stack.doctor import Finding
from infra.stack.stack import Stack
from infra.stack.status import SIZES_FILE, Part, report, sizes, sizes_kept
from tests.support import eventually

WORDS = "[auth] and [roles] of [/data/x] are wanted"


def test_troubles_findings_and_next_steps_are_shown_as_they_are(tmp_path: Path) -> None:
    stack = Stack(load(paths={"home": str(tmp_path)}), print)
    shown = report(
        stack, [Part("jobs", "process", "silent", "h:1", up_s=3723.9, trouble=WORDS)], as_json=False
    )
    assert f"jobs: {WORDS}\n" in shown
    assert " 1:02:03 " in shown
    found = doctor.report([Finding("jobs", False, WORDS, f"mend {WORDS}")], as_json=False)
    assert (WORDS in found, f"-> mend {WORDS}" in found) == (True, True)


def test_doctor_counts_the_devices_that_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "tls_server", lambda *_: "TLSv1.3")
    monkeypatch.setattr(doctor, "tells_refused", lambda _: True)
    monkeypatch.setattr(Stack, "ports", lambda _: {"mosquitto-devices": 8883})
    stack = Stack(load(paths={"home": str(tmp_path)}, secure=True), print)
    devices = identity.Authority(tmp_path, identity.DEVICES)
    devices.issue("WVWZZZ1JZXW000001")
    devices.issue("WVWZZZ1JZXW000002", days=0)
    devices.revoke([devices.issue("WVWZZZ1JZXW000003")])
    found = {finding.name: finding for finding in doctor._hops(stack)}["hop: vehicle to broker"]
    assert (found.fine, "(1 have one)" in found.detail) == (True, True), found


def test_sizes_that_could_not_be_written_once_are_written_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stack, "by_users", True)
    stack = Stack(load(paths={"home": str(tmp_path)}, watch={"slow_interval_s": 0.05}), print)
    (taken := (run := tmp_path / "run") / SIZES_FILE).mkdir(parents=True)
    (tmp_path / "logs").mkdir()
    before = run.stat().st_mtime_ns
    with sizes_kept(stack):
        eventually(lambda: run.stat().st_mtime_ns != before and [*run.iterdir()] == [taken], 60, "a try")
        taken.rmdir()
        eventually(taken.is_file, 60, "they are written")
        assert sizes(tmp_path, {}) == ({}, {"logs": 0})
