"""A connection a vehicle, with a certificate each and without: time to connect, memory and CPU of both ends.

`odograph simulate --connections per-vehicle` at a Mosquitto of its own, in turns: open, secure with new
certificates, secure with those. Connected is what the broker counts, each second. Exit 1 where a message is
not acknowledged or a connection was lost.

Run: python -m load_tests.fleet_connections [--vehicles 1000] [--seconds 30] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from infra.clients.tables import aligned
from infra.settings.settings import load
from infra.stack import processes
from infra.stack.downloads.fetch import fetch_all
from infra.stack.mosquitto import BrokerWatch
from infra.stack.processes import guarded
from infra.stack.stack import Stack
from infra.stack.supervisor import odograph
from load_tests.rate_support import cpu_s

SYS_S = 1.0  # how often the broker counts


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of the simulator."""

    kind: str
    connected_s: float
    """From the command to the last vehicle's connection, certificates included where it makes some."""
    broker_mb: float
    """What Mosquitto has more with all of them connected, MiB."""
    connect_ms: float
    """CPU of Mosquitto a connection."""
    broker_us: float
    """CPU of Mosquitto a message, while all of them drive."""
    simulator_s: float
    """CPU of the simulator in all."""
    messages: int
    puback_p99_ms: float
    wrong: str


def run(kind: str, stack: Stack, vehicles: int, seconds: int) -> Measured:
    """One run at the broker of a home."""
    broker = stack.runner.find("mosquitto")
    assert broker is not None
    words = ("-c", str(vehicles), "--rate", str(vehicles), "--duration", f"{seconds}s", "--seed", "1")
    command = odograph("simulate", *words, "--connections", "per-vehicle", "--json")
    environment = {**os.environ, "ODOGRAPH_PATHS_HOME": str(stack.home)}
    with BrokerWatch(stack.endpoints().logged_in("operator").mqtt) as watch:
        watch.figures()
        time.sleep(2 * SYS_S)  # until it counts the watch itself
        others, memory_kb, before_s = (
            watch.figures().clients,
            processes.own_pss_kb(broker.pid),
            cpu_s(broker.pid),
        )
        own_s, begun_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        connected_s = connect_s = driven_s = broker_mb = 0.0
        while child.poll() is None:
            if watch.figures().clients - others >= vehicles:
                if not connected_s:
                    connected_s, connect_s = time.monotonic() - begun_s, cpu_s(broker.pid) - before_s
                    broker_mb = (processes.own_pss_kb(broker.pid) - memory_kb) / 1024
                driven_s = cpu_s(broker.pid) - before_s - connect_s
            time.sleep(0.05)
        said, _ = child.communicate()
    summary: dict[str, Any] = json.loads(said)
    sent, acked = (summary["messages"][name] for name in ("sent", "acked"))
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = spent.ru_utime + spent.ru_stime - own_s.ru_utime - own_s.ru_stime
    faults = {"not acknowledged": sent - acked, "reconnects": summary["reconnects"]}
    faults["not connected at once"] = 0 if connected_s else vehicles
    wrong = ", ".join(f"{name} {count}" for name, count in faults.items() if count)
    figures = (connected_s, broker_mb, 1000 * connect_s / vehicles, 1e6 * driven_s / sent, used_s)
    return Measured(kind, *figures, sent, summary["puback_ms"]["p99"], wrong)


def main() -> None:
    """Three runs, a line each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vehicles", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=30, help="that they drive")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found = []
    for secure in (False, True):
        home = Path(tempfile.mkdtemp(prefix="odograph-connections-"))
        settings = load(paths={"home": str(home)}, secure=secure)
        fetch_all(settings.paths.cache, ("mosquitto",))
        stack = Stack(settings, lambda _: None, {}, ["mosquitto"])
        with guarded(home, remove=True):
            stack.up()
            kinds = ("secure, new certificates", "secure, known ones") if secure else ("open",)
            found += [run(kind, stack, asked.vehicles, asked.seconds) for kind in kinds]
            stack.down()
    if asked.json:
        print(json.dumps([asdict(each) for each in found], indent=1))
    else:
        rows = [
            [f"{v:.1f}" if isinstance(v, float) else str(v) for v in asdict(each).values()] for each in found
        ]
        print(aligned(rows, tuple(asdict(found[0]))))
    sys.exit(any(each.wrong for each in found))


if __name__ == "__main__":
    main()
