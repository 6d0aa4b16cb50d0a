"""The topics of the contract, created where they are missing."""

from __future__ import annotations

import time

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from infra.clients import kafka
from infra.clients.kafka import LogEnds
from infra.contract.errors import ServiceError
from infra.contract.topics import KAFKA_TOPICS, kafka_topic

TIMEOUT_S = 30.0
POLL_S = 0.05
FOR_EVER = {"retention.ms": "-1", "message.timestamp.after.max.ms": str((1 << 63) - 1)}
"""Of a topic that takes records of any time, a generated day's of next year too."""


def create_topics(bootstrap: str, prefix: str, replication: int = -1, *, for_ever: bool = False) -> list[str]:
    """Create the contract's topics under ``prefix``, ready for use; those that were missing. Idempotent.

    Those that were there get the contract's bounds of size where they have others.

    ``replication`` -1 is the cluster's default. ``for_ever``: records of any time are taken and kept.
    Raises ServiceError.
    """
    admin = kafka.admin(bootstrap)
    kept = FOR_EVER if for_ever else {}
    wanted = [
        NewTopic(kafka_topic(prefix, t.name), t.partitions, replication, config=t.config() | kept)
        for t in KAFKA_TOPICS
    ]
    created = []
    for name, future in admin.create_topics(wanted, operation_timeout=TIMEOUT_S).items():
        try:
            future.result(TIMEOUT_S)
            created.append(name)
        except (KafkaException, TimeoutError) as error:
            if not _already_there(error):
                raise ServiceError(f"Kafka {bootstrap}: topic {name} cannot be created: {error}") from error
    if created:
        _wait_led(bootstrap, prefix)
    _bound(admin, bootstrap, {kafka_topic(prefix, t.name): t.bounds() for t in KAFKA_TOPICS}, created)
    return created


def _bound(admin: AdminClient, bootstrap: str, bounds: dict[str, dict[str, str]], created: list[str]) -> None:
    """Put right the bounds of topics that were there before; raises ServiceError."""
    old = [ConfigResource(ResourceType.TOPIC, name) for name in bounds if name not in created]
    try:
        found = {r.name: f.result(TIMEOUT_S) for r, f in admin.describe_configs(old).items()} if old else {}
        wrong = {
            name: {key: value for key, value in bounds[name].items() if now[key].value != value}
            for name, now in found.items()
        }
        changes = [
            ConfigResource(
                ResourceType.TOPIC,
                name,
                incremental_configs=[
                    ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
                    for key, value in keys.items()
                ],
            )
            for name, keys in wrong.items()
            if keys
        ]
        for future in (admin.incremental_alter_configs(changes) if changes else {}).values():
            future.result(TIMEOUT_S)
    except (KafkaException, TimeoutError) as error:
        raise ServiceError(f"Kafka {bootstrap}: the topics' size limits cannot be set: {error}") from error


def _wait_led(bootstrap: str, prefix: str) -> None:
    """Wait until every partition answers: a new topic exists a moment before its partitions have a leader."""
    end = time.monotonic() + TIMEOUT_S
    while True:
        try:
            records_by_topic(bootstrap, prefix)
        except ServiceError:
            if time.monotonic() > end:
                raise
            time.sleep(POLL_S)
        else:
            return


def records_by_topic(bootstrap: str, prefix: str) -> dict[str, int]:
    """Records that lie in each of the contract's topics; raises ServiceError."""
    with LogEnds(bootstrap, prefix) as log:
        return {log.topic(t.name): log.kept(t.name) for t in KAFKA_TOPICS}


def missing_topics(bootstrap: str, prefix: str) -> list[str]:
    """The contract's topics that are not there; raises ServiceError."""
    with kafka.service_errors(f"Kafka {bootstrap}"):
        there = kafka.admin(bootstrap).list_topics(timeout=kafka.TIMEOUT_S).topics
    return [name for t in KAFKA_TOPICS if (name := kafka_topic(prefix, t.name)) not in there]


def delete_topics(bootstrap: str, prefix: str) -> None:
    """Delete those of the contract's topics under ``prefix`` that are there."""
    admin = kafka.admin(bootstrap)
    gone = missing_topics(bootstrap, prefix)
    names = [name for t in KAFKA_TOPICS if (name := kafka_topic(prefix, t.name)) not in gone]
    if not names:
        return
    for future in admin.delete_topics(names, operation_timeout=TIMEOUT_S).values():
        future.result(TIMEOUT_S)


def _already_there(error: Exception) -> bool:
    code = error.args[0].code() if isinstance(error, KafkaException) else None
    return bool(code == KafkaError.TOPIC_ALREADY_EXISTS)
