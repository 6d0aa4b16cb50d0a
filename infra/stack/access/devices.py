"""Devices at the secure broker: enrolled, rotated, revoked; and how the simulator connects as them."""

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from infra.clients.mqtt_broker import MqttBroker
from infra.contract import policy
from infra.contract.errors import ConfigError
from infra.contract.topics import VEHICLE_ID
from infra.settings.settings import Endpoints, Settings
from infra.stack.access import identity
from infra.stack.access.identity import Authority, Issued
from infra.stack.stack import Stack

GATEWAY_VEHICLES: Final = 100  # of one gateway: the broker searches its list anew for each message
SIMULATED_DAYS: Final = 90


def authority(stack: Stack) -> Authority:
    """Of devices; raises ConfigError where nothing asks for certificates here."""
    if not stack.secure:
        raise ConfigError("this home takes everybody; certificates are asked for after: odograph up --secure")
    return Authority(stack.home, identity.DEVICES)


def enrol(
    stack: Stack,
    name: str,
    days: float = identity.DAYS,
    vehicles: Sequence[str] = (),
    request: bytes | None = None,
) -> Issued:
    """The first certificate of a device; ``vehicles`` are those that a gateway speaks for.

    Raises ConfigError for a name that is no device's, and for one that has a certificate.
    """
    ours = authority(stack)
    if not (VEHICLE_ID.fullmatch(name) or policy.GATEWAY.fullmatch(name)):
        raise ConfigError(f"{name}: a vehicle's id (17 characters, ISO 3779), or gateway-..., is wanted")
    if bool(vehicles) != bool(policy.GATEWAY.fullmatch(name)):
        raise ConfigError(f"{name}: a gateway names its vehicles (--vehicle), and nobody else does")
    if valid(ours, name):
        raise ConfigError(f"{name} has a valid certificate; another one: odograph device rotate {name}")
    if vehicles:
        identity.name_vehicles(stack.home, {name: vehicles})
    made = ours.issue(name, days, request=request)
    stack.renew_identities()
    return made


def rotate(stack: Stack, name: str, days: float = identity.DAYS, request: bytes | None = None) -> Issued:
    """A further certificate: the older ones stay valid until they end or are revoked."""
    ours = authority(stack)
    if not valid(ours, name):
        raise ConfigError(f"{name} has no valid certificate; the first one: odograph device enrol {name}")
    return ours.issue(name, days, request=request)


def revoke(stack: Stack, name: str, serial: str = "") -> list[Issued]:
    """Revoke a device's certificates, or one by its serial number; these. Killed, it can be done again."""
    ours = authority(stack)
    gone = [one for one in ours.issued(name) if serial in ("", one.fingerprint)]
    if not gone:
        raise ConfigError(f"{name} {serial}: no such certificate; all of them: odograph device list")
    ours.revoke(gone)
    stack.renew_identities(tell=True)
    return gone


def valid(ours: Authority, name: str) -> list[Issued]:
    """The certificates by which a device is taken now, the newest last."""
    now = dt.datetime.now(dt.UTC)
    return [one for one in ours.issued(name) if one.state(now) in identity.GOOD]


def broker_of(where: Endpoints, home: Path, one: Issued) -> MqttBroker:
    """The vehicles' listener, as the device of a certificate whose key lies here."""
    files = {"cert_file": str(one.certificate), "key_file": str(one.key)}
    ca = str(home.resolve() / identity.FOLDER / identity.SERVICES / "ca.pem")
    return MqttBroker(where.mqtt_host, where.device_port, tls=True, ca_file=ca, **files)


def speakers(run_id: str, vehicles: Sequence[str], connections: int) -> dict[str, Sequence[str]]:
    """The devices of a simulated fleet, one a connection: each vehicle itself, or gateways."""
    if connections >= len(vehicles):
        return dict.fromkeys(vehicles, ())
    count = max(connections, -(-len(vehicles) // GATEWAY_VEHICLES))
    return {_gateway(f"{run_id}-{k}"): vehicles[k::count] for k in range(count)}


def _gateway(run_id: str) -> str:
    return "gateway-" + re.sub(r"[^a-z0-9-]", "-", run_id.lower())[-40:]


def connected_as(
    settings: Settings, where: Endpoints, devices: Mapping[str, Sequence[str]]
) -> list[MqttBroker]:
    """Enrol simulated devices that are not; the broker as each of them."""
    stack = Stack(settings, lambda _: None)
    ours = authority(stack)
    identity.name_vehicles(stack.home, {name: vehicles for name, vehicles in devices.items() if vehicles})
    found = {name: [one for one in valid(ours, name) if one.key.exists()] for name in devices}
    made = {name: [ours.issue(name, SIMULATED_DAYS)] for name, held in found.items() if not held}
    if made or any(devices.values()):
        stack.renew_identities()
    return [broker_of(where, stack.home, held[-1]) for held in (found | made).values()]


def gateway(
    settings: Settings, where: Endpoints, run_id: str, vehicles: Sequence[str]
) -> Sequence[MqttBroker]:
    """One connection for these vehicles at a secure broker; none at another one."""
    if not where.device_port:
        return ()
    return connected_as(settings, where, {_gateway(run_id): [*dict.fromkeys(vehicles)]})
