"""Examines every part of the installation and names what is wrong and the next step."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC
from functools import partial

from infra.contract.errors import OdographError
from infra.settings.settings import Endpoints, endpoints
from infra.sql.migrate import pending
from infra.stack import cache, fetch, probes
from infra.stack.kafka import missing_topics
from infra.stack.mosquitto import broker_figures
from infra.stack.rootfs import PRIVATE_MOUNTS
from infra.stack.stack import Stack
from infra.stack.status import Part, parts

DISK_FREE_GB = 2.0
RECENT_H = 24
PYTHON_MIN = (3, 11)


Answer = tuple[bool, str, str]
"""Whether it is fine, the detail, the next step where it is not."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One examined thing; ``next_step`` is what to do when it is not fine."""

    name: str
    fine: bool
    detail: str
    next_step: str = ""


def examine(stack: Stack) -> list[Finding]:
    """Everything, from the ground up."""
    found = [_python(), _java(), *_disks(stack), *_caches(stack)]
    if {"postgres", "mosquitto"} & set(stack.embedded):
        found.append(_namespaces())
    found += [_part(part) for part in parts(stack)]
    return found + list(_addresses(stack))


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("python", sys.version_info >= PYTHON_MIN, version, "install Python 3.11 or newer")


def _java() -> Finding:
    version = fetch.java_version()
    fine = version is not None and version >= fetch.JAVA_MIN
    return Finding("java", fine, f"version {version}" if version else "none", "odograph setup")


def _disks(stack: Stack) -> Iterable[Finding]:
    for name, folder in (("disk of the home", stack.home), ("disk of the cache", stack.settings.paths.cache)):
        there = next(path for path in (folder, *folder.parents) if path.exists())
        free_gb = shutil.disk_usage(there).free / 1e9
        detail = f"{free_gb:.1f} GB free at {folder}"
        yield Finding(name, free_gb >= DISK_FREE_GB, detail, f"free at least {DISK_FREE_GB:g} GB there")


def _caches(stack: Stack) -> Iterable[Finding]:
    folder = stack.settings.paths.cache
    wanted = {"spark jars": cache.jar_dir(folder, "spark")}
    if "kafka" in stack.embedded:
        wanted["kafka jars"] = cache.jar_dir(folder, "kafka")
    if {"postgres", "mosquitto"} & set(stack.embedded):
        wanted["root file system"] = cache.rootfs_dir(folder)
    for name, place in wanted.items():
        yield Finding(name, cache.is_complete(place), str(place), "odograph setup")


def _namespaces() -> Finding:
    """Whether a private mount namespace can be had: the embedded services need one."""
    if os.geteuid() != 0:
        return Finding("mount namespace", False, "not root", "run as root" + fetch.WITHOUT_ROOT)
    tried = subprocess.run([*PRIVATE_MOUNTS, "true"], capture_output=True, text=True, check=False)
    detail = tried.stderr.strip() or "can be had"
    step = "allow this container to mount (CAP_SYS_ADMIN)" + fetch.WITHOUT_ROOT
    return Finding("mount namespace", tried.returncode == 0, detail, step)


def _part(part: Part) -> Finding:
    detail = part.state if not part.address else f"{part.state}, {part.address}"
    if part.trouble is None:
        return Finding(part.name, True, detail)
    problem, _, step = part.trouble.rpartition("; ")
    return Finding(part.name, False, f"{detail}: {problem}", step)


def _addresses(stack: Stack) -> Iterable[Finding]:
    """Round trips through the addresses in force, as the processes use them."""
    try:
        found = endpoints(stack.settings)
    except OdographError as error:
        return [Finding("addresses", False, str(error), "odograph up")]
    roles = {"owner": found.db_owner_url, "ingest": found.db_ingest_url}
    roles |= {"dashboard": found.db_dashboard_url, "dispatch": found.db_dispatch_url}
    topics = partial(missing_topics, found.kafka_bootstrap, stack.settings.kafka.prefix)
    checks: dict[str, Callable[[], Answer]] = {
        "MQTT round trip": lambda: (True, probes.mqtt_echo(found.mqtt), ""),
        "Kafka round trip": lambda: (True, probes.kafka_cluster(found.kafka_bootstrap), ""),
        **{f"database as {role}": partial(_database, url) for role, url in roles.items()},
        "broker's queue": lambda: _queue(found),
        "bridge's session": lambda: _sessions(found),
        "periodic tasks": lambda: _tasks(found),
        "topics": lambda: _none_of(topics()),
        "migrations": lambda: _none_of(pending(found.db_owner_url)),
    }
    return [_asked(name, check) for name, check in checks.items()]


def _asked(name: str, check: Callable[[], Answer]) -> Finding:
    try:
        return Finding(name, *check())
    except OdographError as error:
        return Finding(name, False, str(error), "odograph status, then the log it names")


def _database(url: str) -> Answer:
    return True, probes.database(url), ""


def _queue(addresses: Endpoints) -> Answer:
    """Messages that the broker acknowledged to a vehicle and then dropped are lost."""
    figures = broker_figures(addresses.mqtt)
    detail = f"{figures.queued:,} messages wait, {figures.dropped:,} dropped since its start"
    step = "see that the bridge runs and keeps up; count the loss: odograph audit"
    return figures.dropped == 0, detail, step


def _sessions(addresses: Endpoints) -> Answer:
    """What the broker held for a bridge may be gone with the session."""
    losses = probes.session_losses(addresses.db_ingest_url, RECENT_H)
    if not losses:
        return True, f"never lost in the last {RECENT_H} h", ""
    at, what = losses[-1]
    last = f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC: {what}"
    step = "what went with it: odograph audit; who may use the bridge's client id: a login and an access list"
    return False, f"lost {len(losses)} times in {RECENT_H} h, last at {last}", step


def _tasks(addresses: Endpoints) -> Answer:
    """Periodic tasks whose last run failed: each by name, error and since when."""
    failing = probes.failing_tasks(addresses.db_ingest_url)
    step = "see to what the error names (logs: jobs, maintenance); each task is tried again by itself"
    return not failing, "\n".join(failing) or "none fails", step


def _none_of(lacking: list[str]) -> Answer:
    return not lacking, f"missing: {', '.join(lacking)}" if lacking else "all there", "odograph up"
