"""The rules of the policy, each tried at a real secure stack: what they allow happens, nothing else.

Every program, a vehicle and a gateway write to every kind of MQTT topic and listen to all; every program, the
mirror of two regions too, writes, reads, describes, creates, alters every Kafka topic, asks for its settings
and uses groups, a vehicle and a stranger connect; every role of the database reads, inserts into, updates and
deletes from every table and view. Each is judged by the rules of ``infra/contract/policy.py`` and by what the
service did. A difference is exit 1.

Run: python -m load_tests.policy_trial
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import paho.mqtt.client as mqtt
import psycopg
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import ConfigResource, NewPartitions  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from infra.clients import database_url, kafka
from infra.clients.kafka import CERT
from infra.clients.mqtt_broker import MqttBroker
from infra.clients.tables import aligned
from infra.contract import policy
from infra.contract.policy import (
    ALTER,
    ANYBODY,
    BOTH,
    CONFIGS,
    CREATE,
    DESCRIBE,
    MQTT,
    OPERATOR,
    READ,
    VEHICLE,
    WRITE,
    KafkaAcl,
    Rule,
)
from infra.contract.topics import (
    BRIDGE_SLOTS,
    DOWNLINK_CHANNELS,
    EVERYBODY,
    KAFKA_TOPICS,
    UPLINK_CHANNELS,
    mqtt_topic,
)
from infra.settings.files import write_private
from infra.settings.settings import Endpoints, load
from infra.stack.access import devices, identity, users
from infra.stack.access.identity import Authority
from infra.stack.downloads import rootfs
from infra.stack.downloads.fetch import fetch_all
from infra.stack.kafka import acl_faults
from infra.stack.postgres import PROGRAMS as PROGRAM_LOGINS
from infra.stack.processes import guarded
from infra.stack.stack import SERVICES, Stack
from load_tests.mqtt_flood import vehicle_id

ME, OTHER, NAMED, GATEWAY = vehicle_id(0), vehicle_id(1), vehicle_id(2), "gateway-trial"
HERE, THERE = "A", "B"
"""Regions: of this home, and of the log that its mirror copies."""
STRANGER: Final = "stranger"
"""Without a certificate."""
Row = tuple[str, str, str, bool, bool]
"""Principal, operation, resource, what the policy says, what the service did."""
ANSWER_S: Final = 15.0
SYS: Final = "$SYS/broker/clients/connected"
"""Written by the broker itself, each second."""
PROBE_S, SETTLED_S = 3.0, 1.0
"""What has not answered so long after the last that did, does not; of an untold topic none comes."""


@dataclass(slots=True)
class Party:
    """A principal at the broker: its rules, and what the broker answered and gave it."""

    name: str
    rules: Sequence[Rule]
    broker: MqttBroker
    codes: dict[int, bool] = field(default_factory=dict)
    heard: set[tuple[str, bytes]] = field(default_factory=set)
    subscribed: bool = False

    def may(self, operation: str, root: str, topic: str) -> bool:
        """What the policy says."""
        filters = (r.resource.format(root=root, me=self.name) for r in self.rules
                   if r.operation in (operation, BOTH))  # fmt: skip
        return any(mqtt.topic_matches_sub(found, topic) for found in filters)


@contextmanager
def connected(party: Party) -> Iterator[mqtt.Client]:
    """The party, listening to everything that it is given."""
    made = mqtt.Client(
        CallbackAPIVersion.VERSION2, f"trial-{party.name}", protocol=MQTTProtocolVersion.MQTTv5
    )
    party.broker.log_in(made)
    made.on_publish = lambda _c, _d, mid, code, _p: party.codes.update({mid: not code.is_failure})
    made.on_message = lambda _c, _d, got: party.heard.add(
        (got.topic, b"" if got.topic == SYS else bytes(got.payload))
    )
    made.on_subscribe = lambda *_: setattr(party, "subscribed", True)
    made.connect(party.broker.host, party.broker.port)
    made.loop_start()
    made.subscribe([("#", 1), ("$SYS/#", 1)])
    wait(lambda: party.subscribed, f"{party.name} is not let in")
    yield made
    made.disconnect()
    made.loop_stop()


def wait(done: object, what: str) -> None:
    """Until ``done()``; raises TimeoutError."""
    end_s = time.monotonic() + ANSWER_S
    while not done():  # type: ignore[operator]
        if time.monotonic() > end_s:
            raise TimeoutError(what)
        time.sleep(0.01)


def topics(root: str) -> Iterator[str]:
    """One of every kind, of several vehicles."""
    for vehicle in (ME, OTHER, NAMED):
        yield from (mqtt_topic(root, vehicle, name) for name in (*UPLINK_CHANNELS, *DOWNLINK_CHANNELS))
        yield from (f"{root}/{vehicle}/{name}" for name in UPLINK_CHANNELS)
    yield from (f"{root}/{EVERYBODY}/notice", f"{root}/{EVERYBODY}/alert")
    yield from ("odograph-probe/x", "odograph-retire/x", "elsewhere/x", SYS)


def parties(stack: Stack, where: Endpoints) -> list[Party]:
    """Every program, a vehicle, and a gateway for another."""
    names = (*stack.principals, VEHICLE, ANYBODY)
    of = {name: [rule for rule in MQTT if rule.principal in (name, ANYBODY)] for name in names}
    found = [Party(name, of[name], where_of(stack, name)) for name in stack.principals]
    certificates = {ME: devices.enrol(stack, ME), GATEWAY: devices.enrol(stack, GATEWAY, vehicles=[NAMED])}
    rules = {ME: of[VEHICLE], GATEWAY: [*policy.of_gateway((NAMED,)), *of[ANYBODY]]}
    brokers = {name: devices.broker_of(where, stack.home, one) for name, one in certificates.items()}
    return found + [Party(name, rules[name], broker) for name, broker in brokers.items()]


def where_of(stack: Stack, name: str) -> MqttBroker:
    """The programs' listener, as one of them."""
    return stack.endpoints().logged_in(name).mqtt


def tried(found: Sequence[Party], root: str) -> Iterator[Row]:
    """All at the MQTT broker."""
    with ExitStack() as ending:
        clients = {party.name: ending.enter_context(connected(party)) for party in found}
        sent: dict[str, set[bytes]] = defaultdict(set)
        for party in found:
            for topic in topics(root):
                payload = f"{party.name} {topic}".encode()
                mid = clients[party.name].publish(topic, payload, qos=1).mid
                wait(lambda p=party, m=mid: m in p.codes, f"{party.name}: no answer to {topic}")
                yield party.name, WRITE, topic, party.may(WRITE, root, topic), party.codes[mid]
                sent[topic] |= {payload} if party.codes[mid] else set()
        sent[SYS] = {b""}
        time.sleep(2.5)  # longer than $SYS takes; what comes at all has come before
        for party in found:
            for topic, payloads in sent.items():
                if payloads:
                    got = any((topic, payload) in party.heard for payload in payloads)
                    yield party.name, READ, topic, party.may(READ, root, topic), got


def kafka_may(acls: Iterable[KafkaAcl], who: str, operation: str, kind: str, name: str) -> bool:
    """What the policy says; to read, write or alter is to describe, too."""
    allowed = (operation, READ, WRITE, ALTER) if operation == DESCRIBE else (operation,)
    return who == OPERATOR or any(
        acl.principal in (who, "*") and acl.operation in allowed and acl.kind == kind
        and (name.startswith(acl.name) if acl.prefixed else name == acl.name)
        for acl in acls
    )  # fmt: skip


def kafka_tried(stack: Stack, where: Endpoints) -> Iterator[Row]:
    """All at Kafka."""
    prefix, bridge = stack.settings.kafka.prefix, stack.settings.bridge.client_id
    acls = policy.kafka_acls(prefix, bridge, THERE)
    acl_faults(where.kafka_bootstrap, acls, mend=True)  # as a home with a second region has them
    more = [prefix + BRIDGE_SLOTS.name, "elsewhere", "mm2-offsets.x", "heartbeats", f"{THERE}.checkpoints"]
    names = [prefix + topic.name for topic in KAFKA_TOPICS] + more
    groups = [prefix + bridge, f"{prefix}downlink.vehicles", "odograph-events", "other", f"{THERE}-mm2"]
    boss = kafka.admin(where.kafka_bootstrap)
    for made in boss.create_topics([NewTopic(name, 1, 1) for name in more]).values():
        made.result(ANSWER_S)
    kafka_written(where.kafka_bootstrap, names)
    device = Authority(stack.home, identity.DEVICES).current(ME)
    write_private(pem := stack.home / "device.pem", device.certificate.read_text() + device.key.read_text())
    plain = stack.endpoints().kafka_bootstrap
    addresses = {name: plain.format(who=name) for name in stack.principals}
    for who, files in ((VEHICLE, f"{CERT}{pem}"), (STRANGER, "")):  # without a connection nothing else is had
        told = kafka_described(plain.partition(CERT)[0] + files, names)
        yield from ((who, DESCRIBE, name, False, told[name]) for name in names)
    for who, address in addresses.items():
        done = {WRITE: kafka_written(address, names), READ: kafka_read(address, names)}
        done |= {DESCRIBE: kafka_described(address, names), CREATE: kafka_created(address, names)}
        done |= {ALTER: kafka_altered(address, names), CONFIGS: kafka_configs(address, names)}
        for operation, answers in done.items():
            for name in names:
                yield who, operation, name, kafka_may(acls, who, operation, "topic", name), answers[name]
        for group in groups:
            wanted = kafka_may(acls, who, DESCRIBE, "group", group)
            yield who, READ, f"group {group}", wanted, kafka_joined(address, group, names[0])


def kafka_written(address: str, names: Sequence[str]) -> dict[str, bool]:
    """Whether a record was taken, by topic; into the first partition."""
    done = dict.fromkeys(names, False)
    terms = {"enable.idempotence": False, "message.timeout.ms": 1000 * ANSWER_S, "error_cb": lambda _: None}
    writer = kafka.producer(address, terms)
    for name in names:
        writer.produce(
            name, b"{}", b"trial", 0, on_delivery=lambda error, m: done.update({str(m.topic()): not error})
        )
    writer.flush(ANSWER_S)
    return done


def kafka_read(address: str, names: Sequence[str]) -> dict[str, bool]:
    """Whether a record was given, by topic."""
    reader = kafka.consumer(address, "odograph-trial", {"error_cb": lambda _: None})
    done: dict[str, bool] = {}
    reader.assign([TopicPartition(name, 0, 0) for name in names])
    end_s = time.monotonic() + ANSWER_S
    while done.keys() < {*names} and time.monotonic() < end_s:
        for message in reader.consume(100, 0.1):
            error = message.error()
            if error is None or error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                done.setdefault(message.topic() or "", error is None)
                end_s = time.monotonic() + SETTLED_S
    reader.close()
    return dict.fromkeys(names, False) | done


def kafka_described(address: str, names: Sequence[str]) -> dict[str, bool]:
    """Whether it is among the topics that are told."""
    try:
        there = kafka.admin(address).list_topics(timeout=PROBE_S).topics
    except KafkaException:
        there = {}
    return {name: name in there for name in names}


def kafka_created(address: str, names: Sequence[str]) -> dict[str, bool]:
    """Whether it would be made were it not there."""
    client = kafka.admin(address)
    asked = client.create_topics([NewTopic(name, 1, 1) for name in names], validate_only=True,
                                 request_timeout=PROBE_S)  # fmt: skip
    return {name: refusal(future) == KafkaError.TOPIC_ALREADY_EXISTS for name, future in asked.items()}


def kafka_altered(address: str, names: Sequence[str]) -> dict[str, bool]:
    """Whether it would get more partitions, were fewer there."""
    client = kafka.admin(address)
    asked = client.create_partitions(
        [NewPartitions(name, 1) for name in names], validate_only=True, request_timeout=PROBE_S
    )
    return {name: refusal(future) in (None, KafkaError.INVALID_PARTITIONS) for name, future in asked.items()}


def kafka_configs(address: str, names: Sequence[str]) -> dict[str, bool]:
    """Whether its settings are told."""
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
    client = kafka.admin(address)
    asked = client.describe_configs(resources, request_timeout=PROBE_S)
    return {topic.name: refusal(future) is None for topic, future in asked.items()}


def kafka_joined(address: str, group: str, topic: str) -> bool:
    """Whether the group's offsets are told, which who may join it is."""
    client = kafka.admin(address)
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
    return refusal(client.list_consumer_group_offsets([asked], request_timeout=PROBE_S)[group]) is None


def refusal(future: Any) -> int | None:
    """The error's code; None without one."""
    try:
        future.result(ANSWER_S)
    except KafkaException as error:
        return int(error.args[0].code())
    return None


STATEMENTS: Final = {
    policy.SELECT: "SELECT 1 FROM {table} WHERE false",
    policy.INSERT: "INSERT INTO {table} DEFAULT VALUES",
    policy.UPDATE: "UPDATE {table} SET {column} = DEFAULT WHERE false",
    policy.DELETE: "DELETE FROM {table} WHERE false",
}
NOT_LET: Final = (
    psycopg.errors.InsufficientPrivilege, psycopg.errors.ObjectNotInPrerequisiteState,
    psycopg.errors.FeatureNotSupported,
)  # fmt: skip
"""The right lacks, or it is a view that nobody writes to."""
RELATIONS: Final = """
SELECT format('%I.%I', n.nspname, c.relname), (array_agg(quote_ident(a.attname) ORDER BY a.attnum DESC))[1]
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND NOT a.attisdropped
    AND concat(a.attgenerated, a.attidentity) = ''
WHERE c.relkind IN ('r', 'v') AND n.nspname IN ('odograph', 'serving', 'tenant') GROUP BY 1 ORDER BY 1
"""


def database_tried(where: Endpoints) -> Iterator[Row]:
    """All at the database; nothing stays of it."""
    with psycopg.connect(where.db_owner_url) as owner:
        relations = owner.execute(RELATIONS).fetchall()
    urls = {policy.INGEST: where.db_ingest_url, policy.DASHBOARD: where.db_dashboard_url,
            policy.DISPATCH: where.db_dispatch_url, policy.TENANT: where.db_dashboard_url}  # fmt: skip
    programs = {PROGRAM_LOGINS[name]: url for name, url in where.db_program_urls.items()}
    for role, url in (urls | programs).items():
        with psycopg.connect(url, autocommit=True) as connection:
            if role == policy.TENANT:
                connection.execute(f"SET ROLE {role}".encode())
            for table, column in relations:
                rights = next(rights for name, rights in policy.TABLES if re.fullmatch(name, table))
                for operation, text in STATEMENTS.items():
                    statement = text.format(table=table, column=column)
                    wanted = operation in rights.get(role, ())
                    yield role, operation, table, wanted, database_let(connection, statement)


def database_let(connection: psycopg.Connection[Any], statement: str) -> bool:
    """Whether the database lets it be done, a row that lacks values included."""
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(statement.encode())
    except psycopg.errors.IntegrityError:
        return True
    except NOT_LET:
        return False
    return True


_TOLD: Final = "&& echo y || echo n; done"
READABLE: Final = (
    f'for f; do if [ -d "$f" ]; then ls -- "$f"; else (true < "$f"); fi > /dev/null 2>&1 {_TOLD}'
)
_PUT: Final = f'for f; do (: > "$f/.trial") 2> /dev/null && rm "$f/.trial" {_TOLD}'
_ALL: Final = 'cat -- "$@" 2> /dev/null; true'


def run_as(user: str, groups: Iterable[int], script: str, files: Iterable[Path]) -> bytes:
    """What a shell says that runs as a system user."""
    words, (uid, gid) = ["/bin/sh", "-c", script, "sh", *map(str, files)], rootfs.ids(user)
    done = subprocess.run(words, check=True, capture_output=True, user=uid, group=gid, extra_groups=groups)
    return done.stdout


def file_let(who: str, script: str, files: Sequence[Path]) -> list[bool]:
    """Of each file or folder, whether a program's user may read it, or put a file into it."""
    answers = run_as(users.user_of(who), users.groups_of(who), script, files).decode().split()
    return [answer == "y" for answer in answers]


def files_tried(stack: Stack, where: Endpoints) -> Iterator[Row]:
    """All at the files of the home: programs' and services' own, those of root, the shared folders."""
    home, known = stack.home, {}
    for who in (*(name for name in stack.principals if name != OPERATOR), *SERVICES):
        known[who] = home / ("config" if who in SERVICES else users.FOLDER) / who
    own = {path: who for who, folder in known.items() for path in folder.rglob("*") if path.is_file()}
    roots = [home / "ca", *home.glob("*.json"), *home.glob("*.key"), *(home / "ca").rglob("*.*")]
    every = {name: url for name, url in asdict(where).items() if re.fullmatch("db_.*_url", name)}
    every |= where.db_program_urls | {OPERATOR: every.pop("db_ingest_url")}
    secret = {name: database_url.login(url)[1] for name, url in every.items()}
    secret |= {
        setting: (home / name).read_text() for setting, name in users.FILES.items() if (home / name).exists()
    }
    secret["superuser"] = database_url.login(stack.superuser_url())[1]
    shared = [home / name for name in policy.FOLDERS]
    for who in known:
        for path, let in zip((*own, *roots), file_let(who, READABLE, [*own, *roots]), strict=True):
            yield who, READ, str(path.relative_to(home)), own.get(path) == who, let
        for operation, script, rights in ((READ, READABLE, 0o050), (WRITE, _PUT, 0o070)):
            for path, let in zip(shared, file_let(who, script, shared), strict=True):
                mode, members = policy.FOLDERS[path.name]
                yield who, operation, path.name, who in members and mode & rights == rights, let
        read = run_as(users.user_of(who), users.groups_of(who), _ALL, [*own, *roots])
        for name, text in secret.items():
            held = who in policy.SECRETS.get(name, (name,))  # a program's login is its own
            yield who, READ, f"secret {name}", held, text.encode() in read


def trial() -> list[Row]:
    """All of it, at a broker of its own."""
    home = Path(tempfile.mkdtemp(prefix="odograph-policy-"))
    settings = load(paths={"home": str(home)}, secure=True, region={"name": HERE})
    fetch_all(settings.paths.cache, SERVICES)
    stack = Stack(settings, lambda _: None, {})
    with guarded(home, remove=True):
        rows = trial_at(stack, stack.up())
        stack.down()
    return rows


def trial_at(stack: Stack, where: Endpoints) -> list[Row]:
    """All of it at services that run, and no programs."""
    rows = [*tried(parties(stack, where), stack.settings.mqtt.root), *kafka_tried(stack, where)]
    return [*rows, *database_tried(where), *files_tried(stack, where)]


def differences(rows: Iterable[Row]) -> list[Row]:
    """Where a service did not do what the policy says."""
    return [row for row in rows if row[3] != row[4]]


def main() -> None:
    """Counts by principal, and each difference."""
    rows = trial()
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for name, _, _, wanted, _ in rows:
        counts[name][not wanted] += 1
    allowed, refused = (sum(pair[k] for pair in counts.values()) for k in (0, 1))
    print(aligned([(name, *pair) for name, pair in counts.items()], ("principal", "permissions", "refusals")))
    wrong = differences(rows)
    print(f"tried: {allowed} permissions, {refused} refusals; differences: {len(wrong)}")
    for name, operation, topic, wanted, done in wrong:
        print(f"{name} {operation} {topic}: policy {wanted}, service {done}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
