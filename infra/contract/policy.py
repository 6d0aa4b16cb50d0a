"""Who may do what: one table, from which the access lists of the services are made.

A rule allows; whatever no rule allows is refused. Names of principals are those of the programs, of
certificates (their common names) and of logins.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from infra.contract import topics

VEHICLE: Final = "vehicle"  # each vehicle by itself: ``{me}`` in a resource stands for its id
ANYBODY: Final = "anybody"  # whoever is let in
OPERATOR: Final = "operator"
"""People at this machine, by the command odograph: what no program of its own does."""
GATEWAY: Final = re.compile(r"gateway-[a-z0-9-]{1,40}")
"""The name of a device that speaks for the vehicles that it names."""
PROGRAMS: Final = (
    "bridge", "downlink", "jobs", "instant", "events", "maintenance", "watch", "dashboard", OPERATOR
)  # fmt: skip
SERVER: Final = "server"  # the name in the services' own certificate

READ, WRITE, BOTH, CREATE, DESCRIBE = "read", "write", "readwrite", "create", "describe"
ALTER, CONFIGS = "alter", "describe_configs"


class Rule(NamedTuple):
    """``principal`` may do ``operation`` with ``resource``.

    Of MQTT that is a filter, ``{root}`` its root; of Kafka a topic behind the prefix or, with ``group``, a
    group, with ``topic`` a topic by its whole name, ``*`` for all that begins so.
    """

    principal: str
    operation: str
    resource: str


MQTT: Final = (
    *(
        Rule(VEHICLE, WRITE, f"{{root}}/{topics.SLOT_LEVEL}/+/{{me}}/{name}")
        for name in topics.UPLINK_CHANNELS
    ),
    *(Rule(VEHICLE, WRITE, f"{{root}}/{{me}}/{name}") for name in topics.UPLINK_CHANNELS),
    *(Rule(VEHICLE, READ, f"{{root}}/{{me}}/{name}") for name in topics.DOWNLINK_CHANNELS),
    Rule(ANYBODY, READ, f"{{root}}/{topics.EVERYBODY}/notice"),
    Rule("bridge", READ, "{root}/#"),
    Rule("bridge", BOTH, "odograph-retire/#"),
    *(Rule("downlink", WRITE, f"{{root}}/+/{name}") for name in topics.DOWNLINK_CHANNELS),
    Rule(OPERATOR, WRITE, "{root}/+/notice"),
    Rule(OPERATOR, BOTH, "odograph-probe/#"),
    *(Rule(name, READ, "$SYS/#") for name in ("bridge", "watch", OPERATOR)),
)


_READS: Final = {
    "bridge": ("status", "policy"),
    "downlink": ("alerts", "incidents"),
    "jobs": ("telemetry", "telemetry-deferred", "clock"),
    "instant": ("telemetry", "crash"),
    "events": topics.EVENT_TOPICS,
    "watch": ("telemetry",),
}
_WRITES: Final = {
    "bridge": (*topics.UPLINK_CHANNELS, topics.DEFERRED, "dead-letter"),
    "downlink": ("dead-delivery",),
    "jobs": ("alerts", "clock", "dead-letter"),
    "instant": ("alerts",),
    "events": ("incidents", "dead-letter"),
    "maintenance": ("alerts", "policy", "dead-letter"),
}
KAFKA: Final = (
    Rule(ANYBODY, DESCRIBE, "*"),
    *(Rule(name, READ, topic) for name, read in _READS.items() for topic in read),
    *(Rule(name, WRITE, topic) for name, written in _WRITES.items() for topic in written),
    *(Rule("bridge", operation, topics.BRIDGE_SLOTS.name) for operation in (CREATE, READ)),
    Rule(ANYBODY, DESCRIBE, "group odograph-*"),
    Rule("bridge", READ, "group {prefix}{bridge}"),
    Rule("downlink", READ, "group {prefix}downlink.*"),
)
"""Of programs. Besides, OPERATOR and SERVER may do everything, with the cluster too."""
COPIER: Final = "mirror"
"""The program that copies a log, where there are two regions: in the one that it reads, and in its own."""
KAFKA_OF_COPIER: Final = (
    *(Rule(COPIER, operation, topic) for topic in topics.COPIED for operation in (READ, WRITE, ALTER)),
    *(
        Rule(COPIER, operation, f"topic {notes}")
        for notes in ("mm2-*", "heartbeats", "{other}.*")
        for operation in (CREATE, READ, WRITE, CONFIGS)
    ),
    Rule(COPIER, READ, "group {other}-mm2"),
)


INGEST, DASHBOARD, DISPATCH, TENANT, AGGREGATES = (
    f"odograph_{role}" for role in ("ingest", "dashboard", "dispatch", "tenant", "aggregates")
)
DOWNLINK, JOBS, INSTANT, EVENTS, MAINTENANCE, WATCH, MIRROR = (
    f"odograph_{name}" for name in ("downlink", "jobs", "instant", "events", "maintenance", "watch", "mirror")
)
LOGINS: Final = (DOWNLINK, JOBS, INSTANT, EVENTS, MAINTENANCE, WATCH, MIRROR)
"""A program's own at the database. INGEST is that of people's commands."""
MEMBERS: Final = (
    (TENANT, DASHBOARD), (AGGREGATES, JOBS), (JOBS, MAINTENANCE), *((login, INGEST) for login in LOGINS),
)  # fmt: skip
"""Roles, and who may do all that they may. AGGREGATES owns TimescaleDB's continuous aggregates, which only
their owner may refresh.
"""
SELECT, INSERT, UPDATE, DELETE = "select", "insert", "update", "delete"
_LOG: Final = (SELECT, INSERT, UPDATE)
_ALL: Final = (*_LOG, DELETE)


def _each(rights: tuple[str, ...], *roles: str) -> dict[str, tuple[str, ...]]:
    return dict.fromkeys((INGEST, *roles), rights)


_STREAM: Final = (JOBS, MAINTENANCE)
_LEASED: Final = (*_STREAM, DOWNLINK, INSTANT, EVENTS, MIRROR)
_READ: Final = (SELECT,)
TABLES: Final[tuple[tuple[str, Mapping[str, tuple[str, ...]]], ...]] = (
    ("odograph.(pseudonym|migration|replay_run|replay_verdict)", {}),
    ("odograph.(audit_log|custody|refusal_noted)", _each(_READ, MAINTENANCE)),
    ("odograph.(crash_lock|log_begin|erased_window)", _each(_READ)),
    ("odograph.(fuel_factor|trend_metric|score_weight|retention)", _each(_READ, *_STREAM)),
    ("odograph.region", _each(_READ, *_LEASED, WATCH)),
    ("odograph.lease", _each(_LOG, *_LEASED)),
    ("odograph.uncopied", _each((SELECT, UPDATE), MIRROR)),
    ("odograph.webhook_settled", _each((SELECT, INSERT, DELETE), DOWNLINK)),
    ("odograph.crash_record", _each((SELECT, INSERT), EVENTS)),
    ("odograph.rule", _each(_LOG, EVENTS)),
    ("odograph.(crash_part|crash_verdict|incident|incident_note)", _each(_ALL, EVENTS)),
    ("odograph.alert_silence", _each(_ALL) | {EVENTS: _READ}),
    ("odograph.(stage_sample|partition_lag|storage_sample|top_key)", _each(_ALL, WATCH)),
    ("odograph.(driver_grant|fleet_vehicle|reinjection|truth)", _each(_ALL)),
    ("odograph.query_completeness", _each(_LOG, *_STREAM)),
    ("odograph.(alert|alert_change|alert_event|dead_letter|vehicle)", _each(_ALL, *_STREAM, EVENTS)),
    ("odograph.consumer_offset", _each(_ALL, *_STREAM, EVENTS) | {WATCH: _READ}),
    ("odograph.batch_ledger", _each(_ALL, *_STREAM) | {WATCH: _READ}),
    ("odograph.(vehicle_latest|vehicle_window)", _each(_ALL, *_STREAM) | {EVENTS: _READ}),
    ("odograph.*", _each(_ALL, *_STREAM)),
    ("serving.audit_log", _each(_READ)),
    ("serving.(dead_frame|ledger|session_loss)", _each(_READ, DASHBOARD, MAINTENANCE)),
    ("serving.(partition_skew|top_key)", _each(_READ, DASHBOARD, WATCH)),
    ("serving.*", _each(_READ, DASHBOARD)),
    ("tenant.*", {TENANT: _READ}),
)
"""Of the database's tables and views, by a pattern of names, the first that fits, what each role may do: what
the SQL files grant. DISPATCH has functions only."""


SECRETS: Final[Mapping[str, tuple[str, ...]]] = {
    "db_owner_url": (),
    "db_ingest_url": ("downlink", "jobs", "instant", "events", "maintenance", "watch", COPIER),
    "db_dashboard_url": ("dashboard",),
    "db_dispatch_url": ("dashboard",),
    "mqtt_access": ("bridge", "downlink", "watch"),
    "kafka_bootstrap": ("bridge", "downlink", "jobs", "instant", "events", "maintenance", "watch", COPIER),
    "region.other_ca_file": (COPIER,),
    "region.other_cert_file": (COPIER,),
    "bridge.password_file": ("bridge",),
    "downlink.key_file": ("downlink",),
    "downlink.webhooks": ("downlink",),
    "dashboard.oidc": ("dashboard",),
    "crash.key_file": ("events", "maintenance", "dashboard"),
    "crash.pseudonym_key_file": ("dashboard",),
    "time stamper": ("maintenance",),
}
"""Which programs hold which secrets, by the name of the address or the setting, where each program is a
system user of its own. Everybody holds its certificate; ``db_ingest_url`` is with each its own login, the
owner's with none.
"""
FOLDERS: Final[Mapping[str, tuple[int, tuple[str, ...]]]] = {
    "archive": (0o2770, ("jobs", "maintenance")),
    "checkpoints": (0o2770, ("jobs", "instant")),
    "lookups": (0o2770, ("maintenance", "dashboard", "downlink", "jobs", "instant")),
    "sessions": (0o2770, ("bridge",)),
    "anchors": (0o2770, ("maintenance",)),
    "logs": (0o2750, ("maintenance",)),
    "runs": (0o2750, ("maintenance",)),
    "days": (0o2750, ("maintenance",)),
}
"""Folders of the home that programs share: the mode, and who is in the folder's group."""


def of_gateway(vehicles: tuple[str, ...]) -> Iterator[Rule]:
    """What a gateway may do: as the vehicles that it names, below ``s`` in all channels at once."""
    for vehicle in vehicles:
        yield Rule("", WRITE, f"{{root}}/{topics.SLOT_LEVEL}/+/{vehicle}/#")
    for vehicle in vehicles:
        yield from (Rule("", READ, f"{{root}}/{vehicle}/{name}") for name in topics.DOWNLINK_CHANNELS)


def mosquitto_acl(root: str, gateways: Mapping[str, tuple[str, ...]], revoked: tuple[str, ...] = ()) -> str:
    """The access list of Mosquitto; ``gateways``: the vehicles that each names.

    ``revoked`` devices may do nothing, though still connected.
    """
    of_all = (rule for rule in MQTT if rule.principal in (VEHICLE, ANYBODY))
    lines = [f"pattern {rule.operation} {rule.resource.format(root=root, me='%u')}" for rule in of_all]
    rules = {name: [rule for rule in MQTT if rule.principal == name] for name in PROGRAMS}
    rules |= {name: [*of_gateway(vehicles)] for name, vehicles in gateways.items()}
    for name, ours in rules.items():
        if ours and name not in revoked:
            lines += ["", f"user {name}"]
            lines += [f"topic {rule.operation} {rule.resource.format(root=root)}" for rule in ours]
    for name in revoked:
        lines += ["", f"user {name}", "topic deny #"]
    return "\n".join(lines) + "\n"


class KafkaAcl(NamedTuple):
    """Who may do what with a topic or group, or (``prefixed``) with all whose names begin so."""

    principal: str
    operation: str
    kind: str
    name: str
    prefixed: bool


def kafka_acls(prefix: str, bridge: str, other: str = "") -> frozenset[KafkaAcl]:
    """The access list of Kafka; ``bridge``: the client id of the bridges, ``other``: the other region."""
    found = set()
    for who, operation, resource in KAFKA + (KAFKA_OF_COPIER if other else ()):
        kind, name = resource.split(" ") if " " in resource else ("topic", "{prefix}" + resource)
        name = name.format(prefix=prefix, bridge=bridge, other=other)
        principal = "*" if who == ANYBODY else who
        found.add(KafkaAcl(principal, operation, kind, name.removesuffix("*"), name.endswith("*")))
    return frozenset(found)
