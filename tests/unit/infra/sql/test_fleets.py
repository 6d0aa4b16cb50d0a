"""Fleets are of vehicles that there can be."""

from __future__ import annotations

import pytest

from infra.contract.errors import ConfigError
from infra.sql import cli


@pytest.mark.parametrize("vehicle", ["1hgcm82633a004352", "1HGCM82633A00435", "1HGCM82633A0O4352"])
def test_what_is_no_vehicle_id_is_put_into_no_fleet_and_lent_to_nobody(vehicle: str) -> None:
    with pytest.raises(ConfigError, match=f"'{vehicle}' is no vehicle id"):
        cli.give("depot", ["1HGCM82633A004352", vehicle])
    with pytest.raises(ConfigError, match=f"'{vehicle}' is no vehicle id"):
        cli.lend("dan", vehicle)
