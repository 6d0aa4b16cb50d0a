"""Certificates of devices: a command that was killed can be given again."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.contract.errors import ConfigError, ServiceError
from infra.settings.settings import load
from infra.stack.access import devices, identity
from infra.stack.stack import Stack

VIN = "WVWZZZ1JZXW000001"


def test_a_revocation_of_which_the_broker_was_not_told_is_told_when_it_is_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = Stack(load(paths={"home": str(tmp_path)}, secure=True), print)
    one = identity.Authority(tmp_path, identity.DEVICES).issue(VIN)
    told: list[list[bool]] = []

    def away(_: Stack) -> None:
        raise ServiceError("killed")

    def renew(_: Stack) -> None:
        told.append([each.revoked is not None for each in devices.authority(stack).issued(VIN)])

    monkeypatch.setattr(Stack, "renew_identities", away)
    with pytest.raises(ServiceError, match="killed"):
        devices.revoke(stack, VIN)
    monkeypatch.setattr(Stack, "renew_identities", renew)
    assert [each.serial for each in devices.revoke(stack, VIN)] == [one.serial]
    assert told == [[True]]
    with pytest.raises(ConfigError, match="no such certificate"):
        devices.revoke(stack, VIN, "FFFF")
