"""Certificates of devices: a command that was killed can be given again."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from infra.contract.errors import ConfigError, ServiceError
from infra.settings.settings import load
from infra.stack import cli
from infra.stack.access import devices, identity
from infra.stack.stack import Stack

VIN = "WVWZZZ1JZXW000001"


def test_a_revocation_of_which_the_broker_was_not_told_is_told_when_it_is_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = Stack(load(paths={"home": str(tmp_path)}, secure=True), print)
    one = identity.Authority(tmp_path, identity.DEVICES).issue(VIN)
    told: list[tuple[bool, list[bool]]] = []

    def away(_: Stack, *, tell: bool) -> None:
        raise ServiceError(f"killed, {tell}")

    def renew(_: Stack, *, tell: bool) -> None:
        told.append((tell, [each.revoked is not None for each in devices.authority(stack).issued(VIN)]))

    monkeypatch.setattr(Stack, "renew_identities", away)
    with pytest.raises(ServiceError, match="killed"):
        devices.revoke(stack, VIN)
    monkeypatch.setattr(Stack, "renew_identities", renew)
    assert [each.serial for each in devices.revoke(stack, VIN)] == [one.serial]
    assert told == [(True, [True])]
    with pytest.raises(ConfigError, match="no such certificate"):
        devices.revoke(stack, VIN, "FFFF")


@pytest.mark.parametrize("days", ["-1", "3651", "1e9"])
def test_a_certificate_ends_no_later_than_its_authority(days: str) -> None:
    told = CliRunner().invoke(cli.device, ["enrol", VIN, "--days", days])
    assert (told.exit_code, "--days" in told.output) == (2, True)


@pytest.mark.parametrize("name", ["*", "?" * 17, "[A-Z]*"])
def test_a_pattern_is_no_name_of_a_device(name: str, tmp_path: Path) -> None:
    stack = Stack(load(paths={"home": str(tmp_path)}, secure=True), print)
    devices.authority(stack).issue(VIN)
    with pytest.raises(ConfigError, match="no such certificate"):
        devices.revoke(stack, name)
    with pytest.raises(ConfigError, match="no valid certificate"):
        devices.rotate(stack, name)
    assert [(one.name, one.revoked) for one in devices.authority(stack).issued()] == [(VIN, None)]
