"""Hostile files and messages, a few hundred of each: each is taken, or refused with its kind's own error."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import yaml

from bridge.uplink.translate import DECODERS
from infra.contract import downlink, messages
from infra.contract.errors import ContractError
from infra.settings.settings import Settings
from infra.stack import probes
from load_tests.hostile import files, judge
from load_tests.hostile.grammar import KINDS, bodies
from stream_jobs.app.telemetry import Operator, table_of
from stream_jobs.rules import model
from stream_jobs.rules.rule_set import rules_in_force
from tests.unit.stream_jobs.window_support import Kept

pytestmark = pytest.mark.slow

FILES = 150
NOW_MS = 1_763_800_000_000
VIN = b"1HGCM82633A000042"


@pytest.mark.parametrize("kind", files.KINDS)
def test_a_hostile_file_is_taken_or_refused_by_name(kind: str) -> None:
    found = files.share(kind, seed=17, first=0, count=FILES)
    assert dict(found.bad) == {}
    assert (found.tried, found.taken + found.refused) == (FILES, FILES)
    assert min(found.taken, found.refused) > 0


def test_a_loader_without_bounds_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def plain(path: Path, what: str) -> Any:
        return yaml.safe_load(path.read_text())  # of Python: the one of C does not survive its interruption

    monkeypatch.setattr(model, "read_yaml", plain)
    monkeypatch.setattr(files, "LIMIT_S", 0.5)
    assert sum(files.share("rules", seed=17, first=0, count=60).bad.values()) > 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_hostile_message_is_decoded_or_refused_with_a_reason(kind: str) -> None:
    decoders = DECODERS | {"alert": messages.decode_alert, "notice": downlink.decode_notice}
    sound = refused = 0
    for number, body in enumerate(bodies(kind, 300, seed=17)):
        try:
            decoders[kind](body.filled(VIN, number, NOW_MS))
            sound += 1
        except ContractError:
            refused += 1
    assert (sound + refused, refused > 0, sound > 0) == (300, True, kind != "notice")  # those are signed


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_records_in_kafka_stop_no_worker_of_the_windows(kind: str) -> None:
    values = [None, b""] + [body.filled(VIN, n, NOW_MS) for n, body in enumerate(bodies(kind, 300, seed=17))]
    stamps = [(NOW_MS, NOW_MS, NOW_MS, 0, -1, 1 << 62)[n % 6] for n in range(len(values))]
    records = pd.DataFrame(
        {
            "key": [VIN] * len(values), "partition": 0, "log_offset": range(len(values)),
            "received_ms": stamps, "value": pd.Series(values, dtype=object),
        }
    )  # fmt: skip
    settings = Settings()
    rule_set = rules_in_force(settings)
    work = Operator(settings, rule_set)
    state = Kept()
    told = [row for _ in range(2) for rows in work(0, [records], state, 0) for row in rows.to_dict("records")]
    found = [table_of(row["body"]) for row in told if row["kind"] == "vehicle"]
    assert any(VIN.decode() in table["vehicle_id"].to_pylist() for table in found) is (kind == "telemetry")
    assert [row["kind"] for row in told].count("bucket") == 2


def test_the_same_seed_makes_the_same_messages() -> None:
    assert bodies("status", 50, seed=3) == bodies("status", 50, seed=3) != bodies("status", 50, seed=4)


PAGE = """\
odograph_bridge_messages_received_total{channel="telemetry",lane="telemetry"} 70.0
odograph_bridge_messages_received_total{channel="rejected",lane="telemetry"} 20.0
odograph_bridge_messages_received_total{channel="rejected",lane="crash"} 3.0
odograph_bridge_messages_received_total{channel="skipped",lane="crash"} 9.0
odograph_bridge_not_kept_total{lane="telemetry",reason="bad_json"} 4.0
odograph_bridge_not_kept_total{lane="crash",reason="bad_json"} 1.0
"""


def test_the_counts_of_a_bridge_are_those_of_all_its_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "metrics", {7: PAGE}.__getitem__)
    site: Any = SimpleNamespace(endpoints=SimpleNamespace(http_ports={"bridge": 7}))
    found = judge.bridge(site)
    assert (found.received["telemetry"], found.rejected, found.not_kept, found.all) == (70, 23, 5, 98)
