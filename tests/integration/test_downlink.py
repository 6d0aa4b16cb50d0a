"""Alerts from Kafka to vehicles and webhooks, at least once, in order; and what vehicles make of it."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.contract.incidents import Piece
from infra.stack.service import free_port
from load_tests.drills.link import Link
from tests.integration.downlink_support import (
    SECRET,
    Receiver,
    alerts_read,
    downlink,
    fresh,
    listening,
    now_ms,
    tell,
    through,
)
from tests.integration.events_support import produce
from tests.support import Lane, eventually

pytestmark = pytest.mark.integration

A, B = "WDDWF4KB0FR000001", "WDDWF4KB0FR000002"
SOON_S = 90.0

HOOKS = """
[[webhook]]
name = "flaky"
url = "http://127.0.0.1:{flaky}/alerts"
secret_file = "secret"
min_severity = "WARNING"
timeout_s = 2
notify = "alert"
repeat_s = 0

[[webhook]]
name = "dead"
url = "http://127.0.0.1:{dead}/"
secret_file = "secret"
min_severity = "CRITICAL"
give_up_s = 0.6
"""


def with_hooks(lane: Lane, flaky: int) -> Lane:
    """The lane with a file of webhooks: a flaky one, and one where nobody listens."""
    secret = lane.home / "secret"
    secret.write_bytes(SECRET)
    secret.chmod(0o600)
    file: Path = lane.home / "hooks.toml"
    file.write_text(HOOKS.format(flaky=flaky, dead=free_port()))
    return replace(lane, env={**os.environ, **lane.env, "ODOGRAPH_DOWNLINK_WEBHOOKS": str(file)})


def test_each_alert_reaches_vehicle_and_webhook_through_failures_a_kill_and_a_dead_neighbour(
    lane: Lane,
) -> None:
    tell(lane, [fresh("before", A)])
    with (
        Receiver([503, None, 429]) as flaky,
        Link(lane.endpoints.mqtt_host, lane.endpoints.mqtt_port) as link,
        listening(lane, "+/alert") as heard,
    ):
        through(lane, link.port)
        hooked = with_hooks(lane, flaky.port)
        with downlink(hooked) as process:
            old = now_ms() - 20 * 60_000
            tell(
                lane,
                [
                    fresh("a1", A),
                    fresh("a2", A, severity="CRITICAL"),
                    fresh("late", A, event_ms=old),
                    fresh("b1", B),
                    fresh("odd", "no vehicle"),
                    fresh("a3", A),
                ],
            )
            eventually(lambda: len(heard) == 4, SOON_S, "four alerts over MQTT")
            eventually(lambda: len(flaky.accepted) == 4, SOON_S, "four alerts at the webhook")
            link.stall()
            flaky.moods += [503] * 1000
            tell(lane, [fresh("a4", A)])
            eventually(lambda: alerts_read(lane, "vehicles") == 7, SOON_S, "a4 read, and not acknowledged")
            eventually(lambda: "a4" in flaky.seen, SOON_S, "a4 offered, and not taken")
            process.kill()
        link.refuse()
        link.heal()
        flaky.moods.clear()
        produce(lane, "incidents", [Piece(A, now_ms(), now_ms(), "a1").encode("coolant_hot")])
        tell(
            lane, [fresh("a1", A), fresh("b1", B), fresh("a5", A)]
        )  # two of them once more, as after a reset
        with downlink(hooked):
            eventually(lambda: "a5" in flaky.accepted, SOON_S, "what came while it was down")
            eventually(lambda: any(body["alert_id"] == "a5" for _, body in heard), SOON_S, "a5 over MQTT")
            dead = eventually(lambda: lane.run("undelivered", "--json").stdout, SOON_S, "a dead delivery")
    assert sorted(flaky.accepted) == ["a1", "a2", "a3", "a4", "a5", "b1"]
    assert [i for i in flaky.accepted if i.startswith("a")] == ["a1", "a2", "a3", "a4", "a5"]
    assert (flaky.forged, flaky.seen[:4]) == (0, [flaky.seen[0]] * 4)
    assert {body["incident_id"] for topic, body in heard} == {"a1", "b1"}
    order = [body["alert_id"] for topic, body in heard if topic == f"{A}/alert"]
    assert list(dict.fromkeys(order)) == ["a1", "a2", "a3", "a4", "a5"]
    assert {topic for topic, _ in heard} == {f"{A}/alert", f"{B}/alert"}
    row = json.loads(dead.splitlines()[0])
    assert (row["destination"], row["alert_id"]) == ("dead", "a2")
    assert "given up after" in row["why"]


def test_a_critical_alert_sends_a_driving_vehicle_limping_home_and_a_notice_is_heard(lane: Lane) -> None:
    folder = lane.home / "runs" / "drive"
    simulate = ("simulate", "-c", "40", "--interval", "500ms", "--run-id", "drive", "--log-frames")
    with downlink(lane), lane.process(*simulate) as fleet, listening(lane, "all/notice") as noticed:
        vin = eventually(lambda: brisk(folder), SOON_S, "a vehicle between 60 and 75 km/h")
        critical = fresh("hot", vin, severity="CRITICAL")
        tell(lane, [critical, critical])
        words = ("Ice on the ring road", "--severity", "MINOR", "--valid", "899001ms")
        assert lane.run("notify", *words).returncode == 0
        wanted = {"alerts_received": 1, "limp_home": 1, "notices": 1, "downlink_repeats": 1}
        eventually(lambda: wanted.items() <= told(folder).items(), SOON_S, "it reacts")
        eventually(lambda: max(speeds(folder)[vin]) <= 50.5, SOON_S, "it drives slowly")
        assert fleet.stop() == 0
    assert [body["expires_ms"] - body["sent_ms"] for _, body in noticed] == [900_000]
    rows = [json.loads(line) for line in (folder / "truth.jsonl").read_text().splitlines()]
    (row,) = [row for row in rows if row["kind"] == "limp_home"]
    assert (row["vehicle_id"], row["details"]["alert_id"]) == (vin, "hot")
    assert row["from_ms"] > critical["event_ms"]


def told(folder: Path) -> dict[str, Any]:
    """The run's counts, none before its first second is over."""
    path = folder / "run.json"
    summary: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return summary


def speeds(folder: Path) -> dict[str, list[float]]:
    """The speeds in each vehicle's newest frame, as far as they were written."""
    found = {}
    path = folder / "frames.jsonl"
    for line in path.read_text().split("\n")[:-1] if path.exists() else ():
        message = json.loads(line)
        if message["channel"] == "telemetry":
            body = message["payload"]
            found[body["vehicle_id"]] = [v for v in body["speed_kmh"] if v is not None]
    return found


def brisk(folder: Path) -> str | None:
    """Somebody who drives between 60 and 75 km/h."""
    fit = (vin for vin, found in speeds(folder).items() if found and 60 < min(found) <= max(found) < 75)
    return next(fit, None)
