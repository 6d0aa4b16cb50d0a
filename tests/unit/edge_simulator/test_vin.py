"""Vehicle identification numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edge_simulator.vehicle import vehicles
from infra.contract.topics import VEHICLE_ID


def test_the_published_example_has_its_check_digit() -> None:
    assert vehicles.check_digit("1M8GDM9AXKP042788") == "X"
    assert vehicles.check_digit("11111111111111111") == "1"


@given(st.text())
def test_a_made_number_has_the_form_and_a_right_check_digit(key: str) -> None:
    number = vehicles.make(key)
    assert VEHICLE_ID.fullmatch(number)
    assert number[8] == vehicles.check_digit(number)
    assert number == vehicles.make(key)
