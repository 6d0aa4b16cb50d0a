"""Vehicle identification numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edge_simulator import vin
from infra.contract.topics import VEHICLE_ID


def test_the_published_example_has_its_check_digit() -> None:
    assert vin.check_digit("1M8GDM9AXKP042788") == "X"
    assert vin.check_digit("11111111111111111") == "1"


@given(st.text())
def test_a_made_number_has_the_form_and_a_right_check_digit(key: str) -> None:
    number = vin.make(key)
    assert VEHICLE_ID.fullmatch(number)
    assert number[8] == vin.check_digit(number)
    assert number == vin.make(key)
