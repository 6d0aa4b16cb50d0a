from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from bridge.uplink.metrics import BY_LANE, BridgeCollector, BrokerCollector, LaneStats
from infra.stack.mosquitto import BrokerFigures


class StillLane:
    """A lane that stands still at given numbers."""

    name = "telemetry"

    def __init__(self) -> None:
        self.stats = LaneStats(skipped=2)
        self.stats.received.update({"test.telemetry": 5, "test.dead-letter": 2})
        self.stats.rejected["bad_json"] = 2
        self.stats.latency.observe(0.004)
        self.stats.latency.observe(120.0)

    def figures(self) -> dict[str, float]:
        given = {"produced": 7, "acked": 6, "stale_acks": 4, "reconnects": 1, "in_flight_messages": 3}
        return dict.fromkeys((name for _, name, _ in BY_LANE), 0) | given | {"mqtt_connected": True}


def page(kafka_reason: str | None = None) -> list[str]:
    registry = CollectorRegistry()
    registry.register(BridgeCollector([StillLane()], "test.", lambda: kafka_reason))
    return generate_latest(registry).decode().splitlines()


def test_received_messages_are_shown_by_channel_with_rejected_and_skipped_apart() -> None:
    name = "odograph_bridge_messages_received_total"
    assert [line for line in page() if line.startswith(name)] == [
        f'{name}{{channel="rejected",lane="telemetry"}} 2.0',
        f'{name}{{channel="telemetry",lane="telemetry"}} 5.0',
        f'{name}{{channel="skipped",lane="telemetry"}} 2.0',
    ]


def test_counters_and_gauges_carry_the_lanes_numbers() -> None:
    lines = page()
    assert 'odograph_bridge_produced_total{lane="telemetry"} 7.0' in lines
    assert 'odograph_bridge_acked_total{lane="telemetry"} 6.0' in lines
    assert 'odograph_bridge_rejected_total{lane="telemetry",reason="bad_json"} 2.0' in lines
    assert 'odograph_bridge_stale_acks_total{lane="telemetry"} 4.0' in lines
    assert 'odograph_bridge_reconnects_total{lane="telemetry"} 1.0' in lines
    assert 'odograph_bridge_in_flight_messages{lane="telemetry"} 3.0' in lines
    assert 'odograph_bridge_mqtt_connected{lane="telemetry"} 1.0' in lines


def test_kafka_is_connected_when_the_probe_has_no_complaint() -> None:
    assert "odograph_bridge_kafka_connected 1.0" in page(None)
    assert "odograph_bridge_kafka_connected 0.0" in page("away")


def test_latency_buckets_are_cumulative_and_end_with_all() -> None:
    buckets = [line.split()[-1] for line in page() if "delivery_seconds_bucket" in line]
    assert buckets[:3] == ["0.0", "0.0", "1.0"]
    assert buckets[-2:] == ["1.0", "2.0"]
    assert 'odograph_bridge_delivery_seconds_count{lane="telemetry"} 2.0' in page()


def test_nothing_is_labelled_by_vehicle() -> None:
    labels = {
        part.split("=")[0].strip("{,") for line in page() if "{" in line for part in line.split('"')[:-1:2]
    }
    assert {label.rpartition("{")[2] for label in labels} <= {"lane", "channel", "reason", "le"}


def test_the_brokers_queue_and_what_it_dropped_are_shown_and_nothing_while_it_is_silent() -> None:
    said: list[BrokerFigures | None] = [None]
    registry = CollectorRegistry()
    registry.register(BrokerCollector(lambda: said[0]))
    assert generate_latest(registry) == b""
    said[0] = BrokerFigures(queued=12, dropped=3, received=400, sent=700, clients=5)
    lines = [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]
    assert lines == [
        "odograph_broker_queued_messages 12.0",
        "odograph_broker_clients_connected 5.0",
        "odograph_broker_messages_dropped_total 3.0",
        "odograph_broker_messages_received_total 400.0",
        "odograph_broker_messages_sent_total 700.0",
    ]
