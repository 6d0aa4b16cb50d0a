"""The embedded Kafka: one KRaft node, broker and controller in one process."""

from __future__ import annotations

import base64
import shutil
import subprocess
import uuid
from functools import partial
from pathlib import Path

from infra.contract.errors import ServiceError
from infra.stack import probes
from infra.stack.ports import HOST
from infra.stack.service import Service

LOG_CONFIG = Path(__file__).with_name("kafka-log4j2.properties")
CONFIG = "server.properties"
FORMAT_S = 60
JVM_OPTIONS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
)
"""Java's quick compiler only: for minutes after each start the second one took as much processor time as the
broker's work, and what it gave was requests that are a fifth cheaper."""

# One node holds every replica. The internal topics get few partitions: fifty of each only slow the start. A
# killed broker may register again only when its old session has run out: 6 s, not 9. Without idle records the
# controller writes only what changes, not twice a second for followers that are not there.
TEMPLATE = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller_port}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}/log
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=6000
broker.heartbeat.interval.ms=1000
metadata.max.idle.interval.ms=0
num.network.threads=1
num.io.threads=2
log.segment.bytes=268435456
log.retention.check.interval.ms=60000
log.cleaner.dedupe.buffer.size=16777216
"""


def kafka(jars: Path, data: Path, port: int, controller_port: int, heap_mb: int) -> Service:
    """Kafka from the folder ``jars`` on loopback ports, its log in ``data`` and ``heap_mb`` MiB of heap."""
    classpath = jars / "*"
    java = ("java", "-cp", str(classpath), f"-Dlog4j2.configurationFile={LOG_CONFIG}")
    config = data / CONFIG
    text = TEMPLATE.format(host=HOST, port=port, controller_port=controller_port, data=data)
    return Service(
        name="kafka",
        command=(*java, f"-Xmx{heap_mb}m", *JVM_OPTIONS, "kafka.Kafka", str(config)),
        port=port,
        port_setting="ODOGRAPH_KAFKA_PORT",
        probe=partial(probes.kafka_cluster, f"{HOST}:{port}"),
        prepare=partial(_prepare, java, data, text),
        ready_s=60.0,
    )


def _prepare(java: tuple[str, ...], data: Path, text: str) -> None:
    if shutil.which("java") is None:
        raise ServiceError("kafka: there is no java on this machine; install one: odograph setup")
    data.mkdir(parents=True, exist_ok=True)
    config = data / CONFIG
    config.write_text(text)
    if (data / "log" / "meta.properties").exists():
        return
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    options = ("format", "--ignore-formatted", f"--cluster-id={cluster_id}", "-c", str(config))
    command = (*java, "-Xmx128m", "kafka.tools.StorageTool", *options)
    done = subprocess.run(command, capture_output=True, text=True, timeout=FORMAT_S, check=False)
    if done.returncode != 0:
        raise ServiceError(f"kafka: formatting {data}/log failed: {(done.stderr or done.stdout).strip()}")
