"""Silences in their file: by rule, by vehicle, for a while; read again when it changes."""

from __future__ import annotations

from pathlib import Path

from infra.contract.downlink import Silence, Silences

CODES = Silence("dtc_active", None, 1000, 2000)
ONE_CAR = Silence(None, "V1", 1000, 2000)


def test_a_silence_covers_its_rule_with_all_its_parts_or_its_vehicle_for_its_time() -> None:
    assert CODES.covers("V9", "dtc_active.P0217", 1500)
    assert not CODES.covers("V9", "coolant_hot", 1500)
    assert ONE_CAR.covers("V1", "coolant_hot", 1000)
    assert not ONE_CAR.covers("V2", "coolant_hot", 1500)
    assert not ONE_CAR.covers("V1", "coolant_hot", 2000)


def test_the_file_is_read_again_when_it_changes_and_without_it_nothing_is_silent(tmp_path: Path) -> None:
    silences = Silences(tmp_path)
    assert not silences.cover("V1", "coolant_hot", 1500)
    Silences.write(tmp_path, [ONE_CAR])
    assert silences.cover("V1", "coolant_hot", 1500)
    Silences.write(tmp_path, [CODES, CODES])
    assert not silences.cover("V1", "coolant_hot", 1500)
