"""Alerts from Kafka to vehicles and webhooks, at least once, in order; and what vehicles make of it."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from infra.stack import ports
from tests.integration.downlink_support import SECRET, Receiver, downlink, fresh, listening, now_ms, tell
from tests.support import Lane, eventually

pytestmark = pytest.mark.integration

A, B = "WDDWF4KB0FR000001", "WDDWF4KB0FR000002"
SOON_S = 30.0

HOOKS = """
[[webhook]]
name = "flaky"
url = "http://127.0.0.1:{flaky}/alerts"
secret_file = "secret"
min_severity = "WARNING"
timeout_s = 0.4
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
    file.write_text(HOOKS.format(flaky=flaky, dead=ports.free_port()))
    return replace(lane, env={**os.environ, **lane.env, "ODOGRAPH_DOWNLINK_WEBHOOKS": str(file)})


def test_each_alert_reaches_vehicle_and_webhook_through_failures_a_kill_and_a_dead_neighbour(
    lane: Lane,
) -> None:
    tell(lane, [fresh("before", A)])
    with Receiver([503, None, 429]) as flaky, listening(lane, "+/alert") as heard:
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
            process.kill()
        tell(lane, [fresh("a4", A)])
        with downlink(hooked):
            eventually(lambda: "a4" in flaky.accepted, SOON_S, "what came while it was down")
            eventually(lambda: any(body["alert_id"] == "a4" for _, body in heard), SOON_S, "a4 over MQTT")
            dead = eventually(lambda: lane.run("undelivered", "--json").stdout, SOON_S, "a dead delivery")
    assert sorted(flaky.accepted) == ["a1", "a2", "a3", "a4", "b1"]
    assert [i for i in flaky.accepted if i.startswith("a")] == ["a1", "a2", "a3", "a4"]
    assert (flaky.forged, len(flaky.seen)) == (0, 8)
    order = [body["alert_id"] for topic, body in heard if topic == f"{A}/alert"]
    assert list(dict.fromkeys(order)) == ["a1", "a2", "a3", "a4"]
    assert {topic for topic, _ in heard} == {f"{A}/alert", f"{B}/alert"}
    row = json.loads(dead.splitlines()[0])
    assert (row["destination"], row["alert_id"]) == ("dead", "a2")
    assert "given up after" in row["why"]
