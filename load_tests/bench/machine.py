"""What a card was measured on: machine, versions, commit, date."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from infra.clients.db import session
from infra.settings.settings import Endpoints
from infra.stack.downloads import fetch

ROOT = Path(__file__).parents[2]
LIBRARIES = ("pyspark", "confluent-kafka", "paho-mqtt", "orjson")


def machine() -> dict[str, str]:
    """Cores, memory, processor, kernel, Python."""
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return {
        "cores": str(os.cpu_count()),
        "memory": f"{memory_gb:.1f} GB",
        "processor": _processor(),
        "kernel": platform.release(),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return " ".join(line.partition(":")[2].split())
    return platform.machine()


def versions(endpoints: Endpoints) -> dict[str, str]:
    """Of what takes part."""
    found = {"python": platform.python_version(), "java": str(fetch.java_version())}
    found |= {name: version(name) for name in LIBRARIES}
    with session(endpoints.db_owner_url) as connection:
        row = connection.execute(
            "SELECT split_part(current_setting('server_version'), ' ', 1), "
            "(SELECT extversion FROM pg_extension WHERE extname = 'timescaledb')"
        ).fetchone()
    found |= {"postgresql": str(row[0]), "timescaledb": str(row[1])} if row else {}
    return found


def commit() -> str:
    """The checkout's commit, with a plus where files differ from it; empty outside of one."""
    try:
        head = _git("rev-parse", "--short", "HEAD")
        return head + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return ""


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, timeout=10, check=True
    )
    return done.stdout.strip()


def today() -> str:
    """Date and time, UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")
