"""Writes the contract's tables into its README, between its markers: ``python -m tests.contract_tables``."""

from collections.abc import Iterable
from pathlib import Path

from infra.contract import topics
from infra.contract.signals import SIGNALS, Signal
from infra.contract.topics import DAY_MS, KAFKA_TOPICS, MQTT_TOPICS, KafkaTopic

README = Path(topics.__file__).with_name("README.md")


def markdown(columns: str, rows: Iterable[Iterable[object]]) -> str:
    """A table; ``columns`` are its headings, a bar between them."""
    lines = [f"| {columns} |", "|---" * (columns.count("|") + 1) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)])


def with_tables(text: str) -> str:
    """``text`` with each table between its markers written anew."""
    kafka = "Kafka topic | key | partitions | kept | clean-up | why"
    signals = "signal | unit | rate | range | step | sensor's | OBD-II PID | J1939 SPN | VSS path | meaning"
    for name, table in (
        ("mqtt", markdown("MQTT topic | direction | QoS | what", MQTT_TOPICS)),
        ("topics", markdown(kafka, map(_topic, KAFKA_TOPICS))),
        ("signals", markdown(signals, map(_signal, SIGNALS))),
    ):
        head, _, rest = text.partition(f"<!-- {name} -->\n")
        _, end, tail = rest.partition(f"<!-- /{name} -->")
        text = f"{head}<!-- {name} -->\n{table}\n{end}{tail}"
    return text


def _topic(t: KafkaTopic) -> tuple[object, ...]:
    size = f", {t.retention_bytes >> 30} GiB at most" if t.retention_bytes >= 0 else ""
    kept = "for ever" if t.retention_ms < 0 else f"{t.retention_ms // DAY_MS} days{size}"
    return f"`{t.name}`", t.key, t.partitions, kept, t.cleanup, t.why


def _signal(s: Signal) -> tuple[object, ...]:
    number = s.kind == "number"
    span, step = (f"{s.minimum:g} .. {s.maximum:g}", f"{s.resolution:g}") if number else ("", "")
    sensor = f"{s.sensor_step:.3g}" if s.sensor_step else ""
    pid, vss = f"{s.pid:02X}" if s.pid else "", f"`{s.vss}`" if s.vss else ""
    return f"`{s.name}`", s.unit, s.rate, span, step, sensor, pid, s.spn or "", vss, s.meaning


if __name__ == "__main__":
    README.write_text(with_tables(README.read_text()))
