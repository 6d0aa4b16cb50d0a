"""Writes the contract's tables into a README, between its markers: ``python -m infra.contract.tables``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from infra.contract.signals import SIGNALS, Signal
from infra.contract.topics import DAY_MS, KAFKA_TOPICS, MQTT_TOPICS, KafkaTopic

README = Path(__file__).with_name("README.md")


def markdown(columns: str, rows: Iterable[Iterable[object]]) -> str:
    """A table; ``columns`` are its headings, a bar between them."""
    lines = [f"| {columns} |", "|---" * (columns.count("|") + 1) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)])


def mqtt_topics() -> str:
    """The table of MQTT topics."""
    return markdown("MQTT topic | direction | QoS | what", MQTT_TOPICS)


def kafka_topics() -> str:
    """The table of Kafka topics."""
    rows = ((f"`{t.name}`", t.key, t.partitions, _kept(t), t.cleanup, t.why) for t in KAFKA_TOPICS)
    return markdown("Kafka topic | key | partitions | kept | clean-up | why", rows)


def signals() -> str:
    """The table of signals."""
    columns = "signal | unit | rate | range | step | OBD-II PID | J1939 SPN | VSS path | meaning"
    return markdown(columns, map(_signal, SIGNALS))


def with_tables(text: str) -> str:
    """``text`` with each table between its markers written anew."""
    for name, table in (("mqtt", mqtt_topics), ("topics", kafka_topics), ("signals", signals)):
        head, _, rest = text.partition(f"<!-- {name} -->\n")
        _, end, tail = rest.partition(f"<!-- /{name} -->")
        text = f"{head}<!-- {name} -->\n{table()}\n{end}{tail}"
    return text


def _kept(topic: KafkaTopic) -> str:
    if topic.retention_ms < 0:
        return "for ever"
    size = f", {topic.retention_bytes >> 30} GiB at most" if topic.retention_bytes >= 0 else ""
    return f"{topic.retention_ms // DAY_MS} days{size}"


def _signal(s: Signal) -> tuple[object, ...]:
    number = s.kind == "number"
    span, step = (f"{s.minimum:g} .. {s.maximum:g}", f"{s.resolution:g}") if number else ("", "")
    pid, vss = f"{s.pid:02X}" if s.pid else "", f"`{s.vss}`" if s.vss else ""
    return f"`{s.name}`", s.unit, s.rate, span, step, pid, s.spn or "", vss, s.meaning


if __name__ == "__main__":
    README.write_text(with_tables(README.read_text()))
