"""What people tell vehicles: ``odograph notify``."""

from __future__ import annotations

import os
import re
import time
import uuid
from dataclasses import dataclass
from typing import Final

from bridge.downlink.mqtt_out import NO_SUBSCRIBER, REFUSED, MqttOut
from infra.contract import downlink
from infra.contract.downlink import Signer
from infra.contract.errors import ConfigError, ContractError, ServiceError
from infra.contract.topics import EVERYBODY, mqtt_topic
from infra.settings.settings import Endpoints

PUBACK_S: Final = 10.0
POLL_S: Final = 0.01
_LENGTH = re.compile(r"(\d+)(s|m|h)")
_UNIT_S = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True, slots=True)
class Notice:
    """What to say, to whom (nobody named: all), for how long; ``keep``: retained for that time."""

    text: str
    severity: str
    vehicles: tuple[str, ...]
    valid_s: int
    keep: bool


def length_s(text: str) -> int:
    """``90s``, ``15m`` or ``2h`` in seconds; raises ConfigError."""
    match = _LENGTH.fullmatch(text)
    if match is None or int(match[1]) == 0:
        raise ConfigError(f"--valid {text!r}: a duration such as 90s, 15m or 2h is wanted")
    return int(match[1]) * _UNIT_S[match[2]]


def send(notice: Notice, root: str, endpoints: Endpoints, signer: Signer) -> str:
    """Publish; the notice's id, once the broker has acknowledged all. Raises ConfigError, ServiceError."""
    notice_id, now_ms = uuid.uuid4().hex, time.time_ns() // 1_000_000
    told = (notice.severity, notice.text, now_ms, now_ms + 1000 * notice.valid_s)
    try:
        messages = [
            (
                mqtt_topic(root, to, "notice"),
                signer.sealed("notice", downlink.encode_notice(notice_id, to, *told)),
            )
            for to in notice.vehicles or (EVERYBODY,)
        ]
    except ContractError as error:
        raise ConfigError(f"the notice cannot be sent: {error.detail}") from error
    with MqttOut(endpoints.mqtt, f"odograph-notify-{os.getpid()}") as out:
        for topic, payload in messages:
            out.publish(topic, payload, notice.valid_s, retain=notice.keep)
        _await(out, len(messages))
    return notice_id


def _await(out: MqttOut, count: int) -> None:
    deadline_s = time.monotonic() + PUBACK_S
    while len(out.acks) < count:
        out.check()
        if time.monotonic() > deadline_s:
            raise ServiceError(f"the broker acknowledged {len(out.acks)} of {count} within {PUBACK_S:g} s")
        time.sleep(POLL_S)
    refused = [code for _, code in out.acks if code >= REFUSED and code != NO_SUBSCRIBER]
    if refused:
        raise ServiceError(f"the broker refuses {len(refused)} of {count} (PUBACK 0x{refused[0]:02x})")
