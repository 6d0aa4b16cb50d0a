"""The topics of the contract, created where they are missing."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from infra.contract.errors import ServiceError
from infra.contract.topics import KAFKA_TOPICS, kafka_topic

TIMEOUT_S = 30.0


def create_topics(bootstrap: str, prefix: str, replication: int = -1) -> list[str]:
    """Create the contract's topics under ``prefix``; the names of those that were missing. Idempotent.

    ``replication`` -1 is the cluster's default. Raises ServiceError.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    wanted = [
        NewTopic(kafka_topic(prefix, t.name), t.partitions, replication, config=t.config())
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
    return created


def delete_topics(bootstrap: str, prefix: str) -> None:
    """Delete the contract's topics under ``prefix``."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    names = [kafka_topic(prefix, t.name) for t in KAFKA_TOPICS]
    for future in admin.delete_topics(names, operation_timeout=TIMEOUT_S).values():
        future.result(TIMEOUT_S)


def _already_there(error: Exception) -> bool:
    code = error.args[0].code() if isinstance(error, KafkaException) else None
    return bool(code == KafkaError.TOPIC_ALREADY_EXISTS)
