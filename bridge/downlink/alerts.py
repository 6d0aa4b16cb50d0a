"""What is to be done with an alert out of Kafka. Pure: no network, no clock."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from infra.contract import messages
from infra.contract.downlink import Silences
from infra.contract.errors import ContractError
from infra.contract.frame import Frame
from infra.contract.messages import ALERT_LATE_MS, SEVERITIES
from infra.contract.topics import VEHICLE_ID

Skip = Literal["broken", "late", "stale", "severity", "repeat", "ended", "silenced"]
"""Why an alert is not told: no alert at all; found late; found in time and told too late; not severe
enough for this destination; a repetition of what was just told; the end of an alert and no news; asked not
to be told (infra.contract.downlink)."""

REPEATS_KEPT: Final = 100_000
ALERT_ID: Final = re.compile(r"[!-~]{1,128}")
"""It becomes a header of HTTP and a key that receivers keep."""


class Found(NamedTuple):
    """A record of the topic ``alerts``; ``at_ms`` is its Kafka timestamp."""

    partition: int
    offset: int
    at_ms: int
    key: bytes | None
    value: bytes


def read(found: Found) -> Frame:
    """The alert in a record; raises ContractError. Its ids are fit for an MQTT topic and an HTTP header."""
    alert = messages.decode_alert(found.value)
    if ALERT_ID.fullmatch(alert["alert_id"]) is None:
        raise ContractError("bad_identity", "alert_id is not 1 to 128 characters of ASCII without spaces")
    if VEHICLE_ID.fullmatch(alert["vehicle_id"]) is None:
        raise ContractError("bad_identity", f"vehicle_id {alert['vehicle_id']!r} is not a VIN")
    return alert


def late(alert: Frame) -> bool:
    """Whether it was found too late to notify anybody (experience.md): the same on every replay."""
    return bool(alert["received_ms"] - alert["event_ms"] > ALERT_LATE_MS)


def hushed(alert: Frame, silences: Silences, now_ms: int) -> Skip | None:
    """Why an alert is nobody's news: it only says that one is over, or somebody asked for silence."""
    if alert.get("ended") is True:
        return "ended"
    return "silenced" if silences.cover(alert["vehicle_id"], alert["rule"], now_ms) else None


def valid_s(alert: Frame, now_ms: int) -> int:
    """How long a vehicle may still be told, whole seconds; 0 or less: it is stale.

    A driver who reads it later would act on what is over. An event ahead of our clock is taken as of now.
    """
    return int(min(alert["event_ms"], now_ms) + ALERT_LATE_MS - now_ms) // 1000


def severe(alert: Frame, least: str) -> bool:
    """Whether it is of severity ``least`` or above."""
    return SEVERITIES.index(alert["severity"]) >= SEVERITIES.index(least)


@dataclass(slots=True)
class Repeats:
    """Remembers what a destination was told: a finding a second of one alert is one piece of news.

    Judged by the alerts' own receive times, so that a replay decides the same. A higher severity is news.
    """

    every_ms: int
    _told: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)

    def is_one(self, alert: Frame) -> bool:
        """Whether the vehicle's rule was told less than ``every_ms`` before, as severe or more."""
        at_ms, severity = self._told.get((alert["vehicle_id"], alert["rule"]), (-self.every_ms, -1))
        recent = alert["received_ms"] - at_ms < self.every_ms
        return recent and SEVERITIES.index(alert["severity"]) <= severity

    def told(self, alert: Frame) -> None:
        """It was told now."""
        if len(self._told) >= REPEATS_KEPT:
            self._told.clear()
        place = (alert["vehicle_id"], alert["rule"])
        self._told[place] = (alert["received_ms"], SEVERITIES.index(alert["severity"]))
