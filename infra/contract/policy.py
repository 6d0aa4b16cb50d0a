"""Who may do what: one table, from which the access lists of the services are made.

A rule allows; whatever no rule allows is refused. Names of principals are those of the programs, of
certificates (their common names) and of logins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from infra.contract.topics import DOWNLINK_CHANNELS, EVERYBODY, SLOT_LEVEL, UPLINK_CHANNELS, VEHICLE_ID

VEHICLE: Final = "vehicle"
"""Each vehicle by itself: ``{me}`` in a resource stands for its id."""
ANYBODY: Final = "anybody"
"""Whoever is let in."""
OPERATOR: Final = "operator"
"""People at this machine, by the command odograph: what no program of its own does."""
GATEWAY: Final = re.compile(r"gateway-[a-z0-9-]{1,40}")
"""The name of a device that speaks for the vehicles that it names."""
PROGRAMS: Final = ("bridge", "downlink", "jobs", "instant", "events", "maintenance", "watch", OPERATOR)

READ, WRITE, BOTH = "read", "write", "readwrite"


class Rule(NamedTuple):
    """``principal`` may do ``operation`` with ``resource``; of MQTT that is a filter, ``{root}`` its root."""

    principal: str
    operation: str
    resource: str


MQTT: Final = (
    *(Rule(VEHICLE, WRITE, f"{{root}}/{SLOT_LEVEL}/+/{{me}}/{name}") for name in UPLINK_CHANNELS),
    *(Rule(VEHICLE, WRITE, f"{{root}}/{{me}}/{name}") for name in UPLINK_CHANNELS),
    *(Rule(VEHICLE, READ, f"{{root}}/{{me}}/{name}") for name in DOWNLINK_CHANNELS),
    Rule(ANYBODY, READ, f"{{root}}/{EVERYBODY}/notice"),
    Rule("bridge", READ, "{root}/#"),
    Rule("bridge", BOTH, "odograph-retire/#"),
    *(Rule("downlink", WRITE, f"{{root}}/+/{name}") for name in DOWNLINK_CHANNELS),
    Rule(OPERATOR, WRITE, "{root}/+/notice"),
    Rule(OPERATOR, BOTH, "odograph-probe/#"),
    *(Rule(name, READ, "$SYS/#") for name in ("bridge", "watch", OPERATOR)),
)


def is_device(name: str) -> bool:
    """Whether a device may have the name: a vehicle's id, or a gateway's."""
    return bool(VEHICLE_ID.fullmatch(name) or GATEWAY.fullmatch(name))


def of_gateway(vehicles: tuple[str, ...]) -> Iterator[Rule]:
    """What a gateway may do: as the vehicles that it names, below ``s`` in all channels at once."""
    for vehicle in vehicles:
        yield Rule("", WRITE, f"{{root}}/{SLOT_LEVEL}/+/{vehicle}/#")
    for vehicle in vehicles:
        yield from (Rule("", READ, f"{{root}}/{vehicle}/{name}") for name in DOWNLINK_CHANNELS)


def mosquitto_acl(
    root: str,
    logins: Mapping[str, str] | None = None,
    gateways: Mapping[str, tuple[str, ...]] | None = None,
    revoked: tuple[str, ...] = (),
) -> str:
    """The access list of Mosquitto; ``logins``: user names other than the principals'.

    ``gateways``: the vehicles that each names. ``revoked`` devices may do nothing, though still connected.
    """
    of_all = (rule for rule in MQTT if rule.principal in (VEHICLE, ANYBODY))
    lines = [f"pattern {rule.operation} {rule.resource.format(root=root, me='%u')}" for rule in of_all]
    rules = {name: [rule for rule in MQTT if rule.principal == name] for name in PROGRAMS}
    rules |= {name: [*of_gateway(vehicles)] for name, vehicles in (gateways or {}).items()}
    for name, ours in rules.items():
        if ours and name not in revoked:
            lines += ["", f"user {(logins or {}).get(name, name)}"]
            lines += [f"topic {rule.operation} {rule.resource.format(root=root)}" for rule in ours]
    for name in revoked:
        lines += ["", f"user {name}", "topic deny #"]
    return "\n".join(lines) + "\n"
