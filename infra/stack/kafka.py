"""The embedded Kafka: one KRaft node, broker and controller in one process; or several brokers."""

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from secrets import token_urlsafe
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
    TopicMetadata,
)
from confluent_kafka.cimpl import NewTopic

from infra.clients.kafka import CA, CERT, LogEnds, admin, service_errors, topics_of
from infra.clients.waiting import looks
from infra.contract import policy
from infra.contract.errors import ServiceError
from infra.contract.topics import KAFKA_TOPICS, kafka_topic
from infra.settings import sections
from infra.stack import probes, processes
from infra.stack.downloads import rootfs
from infra.stack.service import HOST, Service

LOG_CONFIG = Path(__file__).with_name("kafka-log4j2.properties")
CONFIG = "server.properties"
TMP = "tmp"
USER = "odograph-kafka"
FORMAT_S = 60
JVM_OPTIONS = (
    "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError", "-Djava.awt.headless=true"
)  # fmt: skip
"""Java's quick compiler only: for minutes after each start the second one took as much processor time as the
broker's work, and what it gave was requests that are a fifth cheaper."""
FIRST_HEAP: Final = ("-Xms128m", "-Xmn64m")
"""Else it begins with a 64th of the machine's memory, and fills that for an hour before it collects any."""

TEMPLATE: Final = Path(__file__).with_name("kafka-server.conf")
SECURE: Final = Path(__file__).with_name("kafka-secure.conf")


@dataclass(frozen=True, slots=True)
class Node:
    """Which of a cluster's nodes. All have the same ``cluster_id``; controller is the one with number 1."""

    roles: str = "broker,controller"
    number: int = 1
    brokers: int = 1
    cluster_id: str = ""


ALONE: Final = Node()
ID_BYTES: Final = 16  # of a cluster's id, which is written as a URL may hold it


def kafka_address(port: int, identities: Path | None, who: str = "{who}") -> str:
    """How a program reaches the embedded one; ``identities``: where certificates lie, of a secure one."""
    files = "" if identities is None else f"{CA}{identities / 'ca.pem'}{CERT}{identities / who}.pem"
    return f"{HOST}:{port}{files}"


def kafka(
    jars: Path, data: Path, port: int, controller_port: int, heap_mb: int, options: Sequence[str] = (),
    node: Node = ALONE, identities: Path | None = None, own: Path | None = None,
) -> Service:  # fmt: skip
    """Kafka from the folder ``jars`` on loopback ports, its log in ``data`` and ``heap_mb`` MiB of heap.

    ``options``: more of Java's. ``identities``: where programs' certificates lie; then it speaks TLS on both
    ports, and knows who is there. ``own``: the folder of its configuration, where it is a system user of its
    own.
    """
    place, certificates = own or data, own or identities
    classpath, ours = jars / "*", place / LOG_CONFIG.name
    java = (
        "java", "-cp", str(classpath), f"-Dlog4j2.configurationFile={ours}", f"-Djava.io.tmpdir={data / TMP}",
    )  # fmt: skip
    config = place / CONFIG
    listeners = {"broker": f"PLAINTEXT://{HOST}:{port}",
                 "controller": f"CONTROLLER://{HOST}:{controller_port}"}  # fmt: skip
    text = TEMPLATE.read_text().format(
        host=HOST, controller_port=controller_port, data=data, roles=node.roles, number=node.number,
        listeners=",".join(listeners[role] for role in node.roles.split(",")),
        copies=node.brokers, in_sync=max(1, node.brokers - 1),
    )  # fmt: skip
    serves = "broker" in node.roles
    if identities is not None:
        names = {"us": policy.SERVER, "operator": policy.OPERATOR}
        text = text.replace("PLAINTEXT", "SSL") + SECURE.read_text().format(folder=certificates, **names)

    def run(*words: str) -> tuple[str, ...]:
        command, home = (*java, *words, str(config)), data.parents[1]
        seen = (jars, home, *(Path(option.partition("=")[2]) for option in options))
        return command if own is None else rootfs.as_user(USER, command, home, seen, {"HOME": data})

    new = f"--cluster-id={node.cluster_id or token_urlsafe(ID_BYTES)}"
    tool = ("kafka.tools.StorageTool", "format", "--ignore-formatted", new, "-c")
    format_log = run("-Xmx128m", *JVM_OPTIONS, *options, *tool)
    return Service(
        name="kafka",
        command=run(f"-Xmx{heap_mb}m", *FIRST_HEAP, *JVM_OPTIONS, *options, "kafka.Kafka"),
        port=port if serves else controller_port,
        port_setting="ODOGRAPH_KAFKA_PORT",
        probe=partial(probes.kafka_cluster, kafka_address(port, identities, policy.OPERATOR))
        if serves
        else partial(probes.listens, controller_port),
        prepare=partial(_prepare, format_log, data, text, own, identities),
    )


def _prepare(
    format_log: tuple[str, ...], data: Path, text: str, own: Path | None, identities: Path | None
) -> None:
    if shutil.which("java") is None:
        raise ServiceError("kafka: there is no java on this machine; install one: odograph setup")
    shutil.rmtree(data / TMP, ignore_errors=True)  # what a killed one left
    files = {CONFIG: text, LOG_CONFIG.name: LOG_CONFIG.read_text()}
    if own is None or identities is None:
        (data / TMP).mkdir(parents=True)
        for name, content in files.items():
            (data / name).write_text(content)
    else:
        files |= {name: (identities / name).read_text() for name in ("ca.pem", f"{policy.SERVER}.pem")}
        rootfs.write_config(own, USER, files)
        rootfs.share(data, *rootfs.ids(USER), 0o700)  # what it had as root's, too
        rootfs.give_folder(data / TMP, USER)
    if (data / "log" / "meta.properties").exists():
        return
    processes.finished(f"kafka: formatting {data}/log failed", format_log, FORMAT_S)


TIMEOUT_S = 30.0
PROBE_S = 5.0
POLL_S = 0.05
TERMS: Final = sections.Kafka()
IN_SYNC: Final = "min.insync.replicas"
OFFSETS: Final = "__consumer_offsets"
COPIES: Final = "ODOGRAPH_KAFKA_REPLICATION_FACTOR says how many"
REASSIGN: Final = "kafka-reassign-partitions.sh with longer lists of replicas"
ACL_FIELDS: Final = (
    "restype", "name", "resource_pattern_type", "principal", "host", "operation", "permission_type"
)  # fmt: skip
SEGMENT: Final = "segment.ms"
SEGMENT_EACH: Final = "1"  # each append begins a segment: for a moment while a vehicle is erased
FOR_EVER = {"retention.ms": "-1", "message.timestamp.after.max.ms": str((1 << 63) - 1)}
"""Of a topic that takes records of any time, a generated day's of next year too."""


def create_topics(
    bootstrap: str, prefix: str, terms: sections.Kafka = TERMS, *, for_ever: bool = False
) -> list[str]:
    """Create the contract's topics under ``prefix``, ready for use; those that were missing. Idempotent.

    Those that were there get the contract's bounds of size where they have others, and wait for as many
    copies as ``terms`` say. ``for_ever``: records of any time are taken and kept. Raises ServiceError, for a
    topic with fewer copies too.
    """
    client = admin(bootstrap)
    replicas, in_sync = copies_in(bootstrap, terms)
    kept = (FOR_EVER if for_ever else {}) | {IN_SYNC: str(in_sync)}
    counts = {t.name: terms.partitions if t.name == "telemetry" else t.partitions for t in KAFKA_TOPICS}
    wanted = [
        NewTopic(kafka_topic(prefix, t.name), counts[t.name], replicas, config=t.config() | kept)
        for t in KAFKA_TOPICS
    ]
    created = []
    for name, future in client.create_topics(wanted, operation_timeout=TIMEOUT_S).items():
        try:
            future.result(TIMEOUT_S)
            created.append(name)
        except (KafkaException, TimeoutError) as error:
            code = error.args[0].code() if isinstance(error, KafkaException) else None
            if code != KafkaError.TOPIC_ALREADY_EXISTS:
                why = f"{error}" + (f"; {COPIES}" if code == KafkaError.INVALID_REPLICATION_FACTOR else "")
                raise ServiceError(f"Kafka {bootstrap}: topic {name} cannot be created: {why}") from error
    for last in looks(TIMEOUT_S, POLL_S) if created else ():
        try:  # a new topic exists a moment before its partitions have a leader
            records_by_topic(bootstrap, prefix)
            break
        except ServiceError:
            if last:
                raise
    old = {name: t.bounds() for t in KAFKA_TOPICS if (name := kafka_topic(prefix, t.name)) not in created}
    with service_errors(f"Kafka {bootstrap}: the topics' settings cannot be changed"):
        _bound(client, old, in_sync)
    if old and not for_ever and (wrong := topic_faults(bootstrap, prefix, terms)):
        raise ServiceError(f"Kafka {bootstrap}: {'; '.join(wrong)}")
    return created


def copies_in(bootstrap: str, terms: sections.Kafka) -> tuple[int, int]:
    """Copies of a topic in this cluster, and how many must have a record. Raises ServiceError."""
    client = admin(bootstrap)  # its end would end the request
    with service_errors(f"Kafka {bootstrap}"):
        nodes = client.describe_cluster(request_timeout=PROBE_S).result(PROBE_S + 1).nodes
    return terms.copies(len(nodes))


def _copies_of(topic: TopicMetadata) -> int:
    """Of its partition with the fewest."""
    return min(len(partition.replicas) for partition in topic.partitions.values())


def _bound(client: AdminClient, bounds: dict[str, dict[str, str]], in_sync: int) -> None:
    """Set what is not as it must be; what waits for more copies than ``in_sync`` stays, and none for more
    than it has: it would take no record. What a killed erasure left goes.
    """
    changes, there = [], client.list_topics(timeout=PROBE_S).topics if bounds else {}
    for topic, now in _configs(client, bounds).items():
        least = {IN_SYNC: str(max(min(in_sync, _copies_of(there[topic])), int(now[IN_SYNC])))}
        wrong = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            for key, value in (bounds[topic] | least).items()
            if now[key] != value
        ]
        if now[SEGMENT] == SEGMENT_EACH:
            wrong.append(ConfigEntry(SEGMENT, None, incremental_operation=AlterConfigOpType.DELETE))
        if wrong:
            changes.append(ConfigResource(ResourceType.TOPIC, topic, incremental_configs=wrong))
    for done in (client.incremental_alter_configs(changes) if changes else {}).values():
        done.result(TIMEOUT_S)


def _configs(client: AdminClient, topics: Iterable[str]) -> dict[str, dict[str, str]]:
    """Settings in force by topic; raises KafkaException."""
    asked = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
    answers = client.describe_configs(asked) if asked else {}
    found = {topic.name: future.result(TIMEOUT_S) for topic, future in answers.items()}
    return {name: {key: entry.value for key, entry in entries.items()} for name, entries in found.items()}


def topic_faults(bootstrap: str, prefix: str, terms: sections.Kafka) -> list[str]:
    """Of the contract's topics that are there what ``terms`` do not allow, a line each with what to do.

    Kafka's own topic of the consumers' offsets is one of them. Raises ServiceError.
    """
    replicas, in_sync = copies_in(bootstrap, terms)
    there, found = topics_of(bootstrap), []
    ours = [name for t in KAFKA_TOPICS if (name := kafka_topic(prefix, t.name)) in there]
    with service_errors(f"Kafka {bootstrap}"):
        configs = _configs(admin(bootstrap), ours)
    for name in [*ours, *({OFFSETS} & there.keys())]:
        copies = _copies_of(there[name])
        live = min(len(p.isrs) for p in there[name].partitions.values())
        least = int(configs[name][IN_SYNC]) if name in configs else in_sync
        if copies < replicas:
            found.append(f"{name} has {copies} of {replicas} copies: {COPIES}, or give it more: {REASSIGN}")
        elif live < least:
            found.append(
                f"{name}: a partition has {live} copies in sync, and takes no record below {least}: "
                "start the brokers that are away"
            )
        if least < in_sync <= copies:
            found.append(f"{name} has {IN_SYNC} {least}, not {in_sync}: run `odograph install`")
        parts = len(there[name].partitions)
        if name == kafka_topic(prefix, "telemetry") and parts < terms.partitions:
            more = f"give it more: kafka-topics.sh --alter --topic {name} --partitions {terms.partitions}"
            found.append(
                f"{name} has {parts} of {terms.partitions} partitions (ODOGRAPH_KAFKA_PARTITIONS): {more}"
            )
    return found


def kafka_role(bootstrap: str, number: int) -> str:
    """What a broker of a cluster has: partitions that it leads, copies in sync of how many; ServiceError."""
    topics = topics_of(bootstrap).values()
    parts = [p for topic in topics for p in topic.partitions.values() if number in p.replicas]
    leads, in_sync = sum(p.leader == number for p in parts), sum(number in p.isrs for p in parts)
    return f"leads {leads} partitions, {in_sync} of {len(parts)} copies in sync"


def records_by_topic(bootstrap: str, prefix: str) -> dict[str, int]:
    """Records that lie in each of the contract's topics; raises ServiceError."""
    with LogEnds(bootstrap, prefix) as log:
        return {log.topic(t.name): log.kept(t.name) for t in KAFKA_TOPICS}


def missing_topics(bootstrap: str, prefix: str) -> list[str]:
    """The contract's topics that are not there; raises ServiceError."""
    there = topics_of(bootstrap)
    return [name for t in KAFKA_TOPICS if (name := kafka_topic(prefix, t.name)) not in there]


def delete_topics(bootstrap: str, prefix: str) -> None:
    """Delete those of the contract's topics under ``prefix`` that are there. Raises ServiceError."""
    gone = missing_topics(bootstrap, prefix)
    delete(bootstrap, [name for t in KAFKA_TOPICS if (name := kafka_topic(prefix, t.name)) not in gone])


def delete(bootstrap: str, names: list[str]) -> None:
    """Delete topics by their full names. Raises ServiceError."""
    client = admin(bootstrap)  # its end would end the request
    with service_errors(f"Kafka {bootstrap}: topics cannot be deleted"):
        for future in (client.delete_topics(names, operation_timeout=TIMEOUT_S) if names else {}).values():
            future.result(TIMEOUT_S)


def acl_faults(bootstrap: str, wanted: Iterable[policy.KafkaAcl], *, mend: bool = False) -> list[str]:
    """What Kafka allows beyond the policy, and what less; ``mend``: puts it right. Raises ServiceError."""
    client = admin(bootstrap)
    every: tuple[Any, ...] = (
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )  # fmt: skip
    ours = {
        AclBinding(
            ResourceType[acl.kind.upper()], acl.name,
            ResourcePatternType.PREFIXED if acl.prefixed else ResourcePatternType.LITERAL,
            f"User:{acl.principal}", "*", AclOperation[acl.operation.upper()], AclPermissionType.ALLOW,
        )
        for acl in wanted
    }  # fmt: skip
    with service_errors(f"Kafka {bootstrap}: access list"):
        there = {*client.describe_acls(AclBindingFilter(*every), request_timeout=TIMEOUT_S).result(TIMEOUT_S)}
        beyond, lacking = there - ours, ours - there
        if mend and beyond:
            gone = [AclBindingFilter(*(getattr(acl, name) for name in ACL_FIELDS)) for acl in beyond]
            for done in client.delete_acls(gone, request_timeout=TIMEOUT_S).values():
                done.result(TIMEOUT_S)
        if mend and lacking:
            for done in client.create_acls([*lacking], request_timeout=TIMEOUT_S).values():
                done.result(TIMEOUT_S)
    told = [("beyond", acl) for acl in beyond] + [("lacking", acl) for acl in lacking]
    return sorted(f"{what}: {acl.principal} {acl.operation.name} {acl.name}" for what, acl in told)
