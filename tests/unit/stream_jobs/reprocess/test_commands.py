"""What ``odograph recompute`` refuses before it asks any service."""

from __future__ import annotations

import pytest

from infra.contract.errors import ConfigError
from stream_jobs.reprocess.cli import recompute


def test_a_vehicle_that_can_be_none_is_refused_and_not_found_to_be_right() -> None:
    with pytest.raises(ConfigError, match="--vehicle 'wdb906' is no vehicle id: 17 digits and capitals"):
        recompute("2026-11-20T08:00", "2026-11-20T09:00", vehicle="wdb906")
