"""How fast the bridge is: msg/s and CPU microseconds a message at 1 KB, on the running stack of a checkout.

The broker's queue is filled while the bridge is down; then the bridge drains it alone, so that neither the
publisher nor its pace is part of the figure. Run: python -m load_tests.bridge_rate [--messages N] [--runs N]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path

from infra.contract import settings as contract_settings
from infra.contract.settings import Endpoints, Settings
from load_tests.mqtt_flood import Flood, fleet_messages

BRIDGE = (
    "import warnings; warnings.simplefilter('ignore')\n"
    "from bridge import uplink\n"
    "from infra.contract import settings\n"
    "s = settings.load()\n"
    "raise SystemExit(uplink.run(s, settings.endpoints(s)))\n"
)
VEHICLES = 2000
DEADLINE_S = 120.0
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Run:
    """One drain."""

    messages: int
    seconds: float
    messages_per_s: float
    cpu_us_per_message: float
    rss_mb: float


def stored(port: int) -> int:
    """Records the bridge says are stored, all lanes."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
        lines = page.read().decode().splitlines()
    return int(sum(float(x.split()[-1]) for x in lines if x.startswith("odograph_bridge_produced_total{")))


def cpu_s(pid: int) -> float:
    """User and system time of a process so far, s."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def rss_mb(pid: int) -> float:
    """Peak resident memory, MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def wait_stored(port: int, wanted: int) -> None:
    """Until ``wanted`` records are stored; raises TimeoutError."""
    deadline_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline_s:
        try:
            if stored(port) >= wanted:
                return
        except OSError:  # the page is not up yet
            pass
        time.sleep(0.02)
    raise TimeoutError(f"{wanted} records were not stored within {DEADLINE_S:g} s")


def start(profile: str | None) -> subprocess.Popen[bytes]:
    """A bridge, its log in the bin."""
    command = [sys.executable, "-c", BRIDGE]
    if profile:
        command = ["perf", "record", "-o", profile, "-g", *command]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Orderly."""
    process.terminate()
    process.wait(30)


def measure(settings: Settings, endpoints: Endpoints, messages: int) -> Run:
    """Fill, drain, read the figures. The first tenth is not timed."""
    port = endpoints.http_ports["bridge"]
    with Flood(endpoints.mqtt_host, endpoints.mqtt_port, "odograph-bridge-rate") as flood:
        flood.publish(fleet_messages(settings.mqtt.root, VEHICLES, messages, time.time_ns() // 1_000_000))
    process = start(None)
    try:
        wait_stored(port, messages // 10)
        begun_s, begun_cpu_s, begun = time.monotonic(), cpu_s(process.pid), stored(port)
        wait_stored(port, messages)
        seconds, cpu = time.monotonic() - begun_s, cpu_s(process.pid) - begun_cpu_s
        count = messages - begun
        return Run(count, seconds, count / seconds, cpu / count * 1e6, rss_mb(process.pid))
    finally:
        stop(process)


def subscribe(endpoints: Endpoints) -> None:
    """Let the bridge make its session and take what is left in it."""
    process = start(None)
    try:
        deadline_s = time.monotonic() + DEADLINE_S
        last = -1
        while time.monotonic() < deadline_s:
            time.sleep(1.0)
            try:
                now = stored(endpoints.http_ports["bridge"])
            except OSError:
                continue
            if now == last:
                return
            last = now
    finally:
        stop(process)


def main() -> None:
    """Print a table on stderr and JSON on stdout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=60_000, help="frames a run [60000]")
    parser.add_argument("--runs", type=int, default=3, help="runs; the median is reported [3]")
    options = parser.parse_args()
    settings = contract_settings.load()
    endpoints = contract_settings.endpoints(settings)
    subscribe(endpoints)
    runs = []
    print("  messages/s   CPU us/message   peak MiB", file=sys.stderr)
    for _ in range(options.runs):
        run = measure(settings, endpoints, options.messages)
        runs.append(run)
        print(
            f"{run.messages_per_s:12,.0f} {run.cpu_us_per_message:16.1f} {run.rss_mb:10.0f}", file=sys.stderr
        )
    median = {
        "messages_per_s": round(statistics.median(run.messages_per_s for run in runs)),
        "cpu_us_per_message": round(statistics.median(run.cpu_us_per_message for run in runs), 1),
    }
    print(json.dumps({"median": median, "runs": [asdict(run) for run in runs]}))


if __name__ == "__main__":
    main()
