"""The table of signals holds together, and a change of it shows in the golden file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from infra.contract import frame
from infra.contract.signals import BY_NAME, FAST, SIGNALS, SLOW, Signal
from tests.contract_tables import README, with_tables

GOLDEN = Path(__file__).parents[3] / "golden" / "signals.json"


def test_the_table_is_the_golden_one_or_both_change_with_the_schema_number() -> None:
    table = [[s.name, s.kind, s.rate, s.unit, s.minimum, s.maximum, s.resolution] for s in SIGNALS]
    assert {"schema": frame.SCHEMA, "signals": table} == json.loads(GOLDEN.read_text())


def test_names_are_unique_and_safe_as_columns() -> None:
    assert len(BY_NAME) == len(SIGNALS)
    assert [s.name for s in SIGNALS if re.fullmatch(r"[a-z][a-z0-9_]*", s.name) is None] == []


def test_no_signal_has_the_name_of_a_head_key() -> None:
    assert set(BY_NAME) & set(frame.HEAD) == set()


def test_every_signal_is_either_fast_or_slow() -> None:
    assert len(FAST) + len(SLOW) == len(SIGNALS)


@pytest.mark.parametrize("signal", [s for s in SIGNALS if s.kind == "number"], ids=lambda s: s.name)
def test_a_number_has_a_range_of_whole_steps(signal: Signal) -> None:
    assert signal.minimum < signal.maximum
    assert signal.steps_per_unit >= 1
    assert signal.steps_per_unit * signal.resolution == pytest.approx(1)


def test_the_table_for_the_readme_has_a_row_a_signal() -> None:
    table = with_tables(README.read_text()).partition("<!-- signals -->\n")[2].partition("<!--")[0]
    assert len(table.splitlines()) == len(SIGNALS) + 2
