"""Changes to a topic while it is in use."""

from __future__ import annotations

from typing import Final

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from infra.clients import kafka

TIMEOUT_S: Final = 30.0


def configure_topic(bootstrap: str, topic: str, key: str, value: str) -> None:
    """Change one setting of a topic."""
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = kafka.admin(bootstrap)  # lives until its answers are here
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(TIMEOUT_S)


def delete_topic(bootstrap: str, topic: str) -> None:
    """Take a topic away."""
    admin = kafka.admin(bootstrap)
    for future in admin.delete_topics([topic], operation_timeout=TIMEOUT_S).values():
        future.result(TIMEOUT_S)
